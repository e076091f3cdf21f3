"""The discretised equations of the film: one fused pass over x per time step.

Shkadov (1967), as in Viquerat & Hachem (2023):

    h_t = -q_x
    q_t = -(6/5) (q^2/h)_x + [h (1 + h_xxx) - q/h^2] / (5 delta) + jets

* q_x and (q^2/h)_x: first-order upwind plus a minmod-limited correction,
  u_x|_i = (F_i - F_{i-1}) / dx,  F_i = u_i + 1/2 minmod(u_i - u_{i-1}, u_{i+1} - u_i).
* h_xxx: centred second derivative, then a second-order forward difference.
* time: second-order Adams-Bashforth, Euler for the first step of all.

Layout. A film is a block of rows (ROWS, n_columns); node i = 0 .. n_nodes-1 stands at column
i + SHIFT, so node 1, the first one that moves, starts a vector. Left of node 0 is one ghost for the
limiter, right of the last node are two for h_xxx: extrapolated by the cubic through the last four
nodes they turn the stencil of h_xxx into the one-sided forms. So one loop serves every node.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shkadov.params import FilmParams

Float64Array = NDArray[np.float64]

SHIFT: Final = 3
VECTOR: Final = 4  # float64 numbers the loop's length is rounded up to
# Rows of a film. The convected q^2/h and the drag q/h^2 are kept beside h and q since one division
# serves both; INCREMENT_* is dt times the last right-hand side, the Adams-Bashforth history.
H: Final = 0
Q: Final = 1
INCREMENT_H: Final = 2
INCREMENT_Q: Final = 3
CONVECTED: Final = 4
DRAG: Final = 5
NEXT_H: Final = 6
NEXT_Q: Final = 7
NEXT_CONVECTED: Final = 8
ROWS: Final = 9


class Scheme(NamedTuple):
    """Hold the factors of the discretised equations, scaled by dt so that sums are increments."""

    convection_q: float  # dt / dx
    convection_w: float  # (6/5) dt / dx over the scale of CONVECTED
    third: float  # p dt / (2 dx^3)
    pull: float  # p dt, with p = 1 / (5 delta)
    scale: float  # sqrt(p dt): CONVECTED holds scale q^2/h, DRAG holds scale^2 q/h^2


def make_scheme(film: FilmParams) -> Scheme:
    """Return the factors of a film's discretised equations."""
    pull = film.dt / (5.0 * film.delta)
    scale = float(np.sqrt(pull))
    return Scheme(
        convection_q=film.dt / film.dx,
        convection_w=1.2 * film.dt / film.dx / scale,
        third=pull / (2.0 * film.dx**3),
        pull=pull,
        scale=scale,
    )


def count_columns(n_nodes: int) -> int:
    """Return the number of columns a film of n_nodes needs: whole vectors, ghosts, one spare."""
    moving = -(-(n_nodes - 2) // VECTOR) * VECTOR
    return -(-(moving + 2 * VECTOR) // VECTOR) * VECTOR


# No nnan or ninf: the blow-up check must see NaN and infinity. Contraction to fused multiply-adds
# is the same for every node, so a film's bits do not depend on where the vectors end.
@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def take_step(
    h: Float64Array,
    q: Float64Array,
    w: Float64Array,
    drag: Float64Array,
    increment_h: Float64Array,
    increment_q: Float64Array,
    next_h: Float64Array,
    next_q: Float64Array,
    next_w: Float64Array,
    scheme: Scheme,
    new: float,
    old: float,
) -> None:
    """Take one time step of all moving nodes, from (h, q, w) into (next_h, next_q, next_w).

    `new` and `old` weight the increments: 3/2 and -1/2 for Adams-Bashforth, 1 and 0 for Euler.
    minmod(a, b) = max(min(b, 0), min(max(b, 0), a)), and both limiters of a node share b.
    """
    c_q, c_w, c_3, pull, scale = scheme
    for i in range(VECTOR * ((h.size - 2 * VECTOR) // VECTOR)):
        # Node i + 1 stands at column i + 4.
        b = q[i + 4] - q[i + 3]
        low = b if b < 0.0 else 0.0
        high = b if b > 0.0 else 0.0
        a = q[i + 3] - q[i + 2]
        c = q[i + 5] - q[i + 4]
        right = high if high < c else c
        right = low if low > right else right
        left = high if high < a else a
        left = low if low > left else left
        rate_h = -c_q * (b + 0.5 * (right - left))

        b = w[i + 4] - w[i + 3]
        low = b if b < 0.0 else 0.0
        high = b if b > 0.0 else 0.0
        a = w[i + 3] - w[i + 2]
        c = w[i + 5] - w[i + 4]
        right = high if high < c else c
        right = low if low > right else right
        left = high if high < a else a
        left = low if low > left else left
        third = 10.0 * h[i + 4] - 12.0 * h[i + 5] + 6.0 * h[i + 6] - h[i + 7] - 3.0 * h[i + 3]
        rate_q = h[i + 4] * (pull + c_3 * third) - drag[i + 4] - c_w * (b + 0.5 * (right - left))

        h_new = h[i + 4] + new * rate_h + old * increment_h[i + 4]
        q_new = q[i + 4] + new * rate_q + old * increment_q[i + 4]
        increment_h[i + 4] = rate_h
        increment_q[i + 4] = rate_q
        inverse = scale / h_new
        ratio = q_new * inverse
        next_h[i + 4] = h_new
        next_q[i + 4] = q_new
        next_w[i + 4] = q_new * ratio
        drag[i + 4] = ratio * inverse


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def apply_boundaries(
    h: Float64Array, q: Float64Array, w: Float64Array, n_nodes: int, scale: float, inlet_h: float
) -> None:
    """Set the inlet node to (inlet_h, 1), the outlet to zero gradient, and the ghosts."""
    first, last = SHIFT, SHIFT + n_nodes - 1
    h[first] = inlet_h
    q[first] = 1.0
    w[first] = scale / inlet_h
    q[first - 1] = q[first]
    w[first - 1] = w[first]
    h[last] = h[last - 1]
    q[last] = q[last - 1]
    w[last] = w[last - 1]
    h[last + 1] = 4.0 * h[last] - 6.0 * h[last - 1] + 4.0 * h[last - 2] - h[last - 3]
    h[last + 2] = 10.0 * h[last] - 20.0 * h[last - 1] + 15.0 * h[last - 2] - 4.0 * h[last - 3]


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def refresh(film: Float64Array, n_nodes: int, scale: float) -> None:
    """Recompute what follows from h and q: the convected and drag rows, the ghosts."""
    h, q, w, drag = film[H], film[Q], film[CONVECTED], film[DRAG]
    for i in range(SHIFT, SHIFT + n_nodes):
        inverse = scale / h[i]
        ratio = q[i] * inverse
        w[i] = q[i] * ratio
        drag[i] = ratio * inverse
    apply_boundaries(h, q, w, n_nodes, scale, h[SHIFT])
