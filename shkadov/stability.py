"""Stability of the discretised film: which time steps a grid allows.

The equations are linearised about the flat film, h = q = 1, and every wave exp(i theta j) of the
grid is followed through the discrete operators and the Adams-Bashforth step (von Neumann). The
minmod limiter is not linear, but it is homogeneous: a wave twice as high is limited twice as much.
So its mean effect on a wave of one length is a factor, found by averaging over the wave's phase
(harmonic balance). Taking the limiter as always open or always closed would misplace the limit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
Complex128Array = NDArray[np.complex128]

N_WAVES: Final = 720  # grid waves looked at, theta in (0, pi]
# A grid may let no wave grow faster than the fastest wave of the film itself, with this slack.
SLACK_FACTOR: Final = 1.1
SLACK_RATE: Final = 0.05


def limited_share(theta: Float64Array) -> Float64Array:
    """Return the share of a wave's slope that minmod leaves, on average over the wave's phase.

    For slopes cos(psi -+ theta/2) on both sides of a node it is the component of
    minmod(left, right) along cos(psi): (1 - theta/pi) cos(theta/2), 1 for a long wave and 0 for
    the shortest.
    """
    share: Float64Array = (1.0 - theta / np.pi) * np.cos(0.5 * theta)
    return share


def grid_rates(dx: float, delta: float) -> Complex128Array:
    """Return both growth rates of every grid wave, (2, N_WAVES) [1/time], time still continuous.

    With h = 1 + a, q = 1 + b and p = 1 / (5 delta):
        a_t = -D b,  b_t = -(6/5) D (2 b - a) + p (3 a + D3 a - b).
    """
    theta = np.linspace(np.pi / N_WAVES, np.pi, N_WAVES)
    shift = np.exp(1j * theta)
    flux = 1.0 + 1j * limited_share(theta) * np.sin(0.5 * theta)
    first = (1.0 - 1.0 / shift) * flux / dx
    third = (-(shift**3) + 6.0 * shift**2 - 12.0 * shift + 10.0 - 3.0 / shift) / (2.0 * dx**3)
    p = 1.0 / (5.0 * delta)
    linear = 2.4 * first + p
    constant = first * (1.2 * first + p * (3.0 + third))
    root = np.sqrt(linear**2 - 4.0 * constant)
    return np.stack([0.5 * (root - linear), -0.5 * (root + linear)])


def step_growth(dx: float, dt: float, delta: float) -> float:
    """Return the largest growth rate [1/time] of a grid wave under Adams-Bashforth steps.

    A rate z / dt turns into the larger root g of g^2 - (1 + 3/2 z) g + z/2 = 0.
    """
    z = dt * grid_rates(dx, delta)
    linear = 1.0 + 1.5 * z
    root = np.sqrt(linear**2 - 2.0 * z)
    factor = np.maximum(np.abs(linear + root), np.abs(linear - root)) / 2.0
    return float(np.log(factor.max()) / dt)


def film_growth(delta: float) -> float:
    """Return the growth rate [1/time] of the fastest wave of the film itself, without a grid.

    The roots of s^2 + (2.4 i k + p) s + (-1.2 k^2 + p (3 i k + k^4)) = 0 over real k.
    """
    k = np.linspace(1e-3, 3.0, 3000)
    p = 1.0 / (5.0 * delta)
    linear = 2.4j * k + p
    root = np.sqrt(linear**2 - 4.0 * (-1.2 * k**2 + p * (3j * k + k**4)))
    return float(np.max(0.5 * (root - linear).real))


def allowed_growth(delta: float) -> float:
    """Return the growth rate [1/time] beyond which a grid wave is called unstable."""
    return SLACK_FACTOR * film_growth(delta) + SLACK_RATE


def largest_stable_dt(dx: float, delta: float) -> float:
    """Return the largest stable time step on a grid of spacing dx, 0 if none is stable."""
    allowed = allowed_growth(delta)
    if float(grid_rates(dx, delta).real.max()) > allowed:
        return 0.0
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        if step_growth(dx, middle, delta) <= allowed:
            low = middle
        else:
            high = middle
    return low


def smallest_stable_dx(delta: float) -> float:
    """Return the spacing below which the upwind slopes let grid waves grow at any time step."""
    allowed = allowed_growth(delta)
    low, high = 1e-3, 1.0
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        if float(grid_rates(middle, delta).real.max()) <= allowed:
            high = middle
        else:
            low = middle
    return high
