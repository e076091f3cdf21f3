"""The film's step written with NumPy, node by node: what the compiled one must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shkadov.params import FilmParams

Float64Array = NDArray[np.float64]


def minmod(a: Float64Array, b: Float64Array) -> Float64Array:
    return np.maximum(0.0, np.minimum(a, b)) + np.minimum(0.0, np.maximum(a, b))


def convection(u: Float64Array, dx: float) -> Float64Array:
    """u_x at nodes 1 .. n-2; the inlet's flux is the inlet's value."""
    d = np.diff(u)
    flux = u.copy()
    flux[1:-1] += 0.5 * minmod(d[:-1], d[1:])
    slope: Float64Array = (flux[1:-1] - flux[:-2]) / dx
    return slope


def third_derivative(h: Float64Array, dx: float) -> Float64Array:
    """h_xxx at nodes 1 .. n-2, one-sided at the last two."""
    i = np.arange(1, h.size - 3)
    inside = -h[i + 3] + 6 * h[i + 2] - 12 * h[i + 1] + 10 * h[i] - 3 * h[i - 1]
    last = h[-1] - 3 * h[-2] + 3 * h[-3] - h[-4]
    return np.concatenate([inside / 2.0, [last, last]]) / dx**3


def right_hand_sides(
    h: Float64Array, q: Float64Array, film: FilmParams
) -> tuple[Float64Array, Float64Array]:
    """h_t and q_t at the moving nodes, without jets."""
    p = 1.0 / (5.0 * film.delta)
    h_i, q_i = h[1:-1], q[1:-1]
    lift = 1.0 + third_derivative(h, film.dx)
    pull = p * (h_i * lift - q_i / h_i**2)
    return -convection(q, film.dx), -1.2 * convection(q**2 / h, film.dx) + pull


def jet_forcing(film: FilmParams, u: Float64Array) -> Float64Array:
    """Sum over jets of dq_j at all nodes."""
    x = np.arange(film.n_nodes) * film.dx
    total = np.zeros(film.n_nodes)
    for position, u_j in zip(film.jet_positions, u, strict=True):
        left, right = position - film.jet_width / 2, position + film.jet_width / 2
        shape = 4.0 * (x - left) * (right - x) / (right - left) ** 2
        inside = (x > left) & (x < right)
        total += film.jet_sign * film.jet_amplitude * u_j * np.where(inside, shape, 0.0)
    return total


@dataclass
class ReferenceFilm:
    """One film: Euler first, then Adams-Bashforth."""

    film: FilmParams
    h: Float64Array
    q: Float64Array
    old_rates: tuple[Float64Array, Float64Array] | None = None
    u: Float64Array = field(default_factory=lambda: np.zeros(0))

    def step(self, u: Float64Array, inlet_h: float) -> None:
        film = self.film
        rate_h, rate_q = right_hand_sides(self.h, self.q, film)
        rate_q = rate_q + jet_forcing(film, u)[1:-1]
        new, old = (1.0, 0.0) if self.old_rates is None else (1.5, -0.5)
        before = self.old_rates or (rate_h, rate_q)
        self.h[1:-1] += film.dt * (new * rate_h + old * before[0])
        self.q[1:-1] += film.dt * (new * rate_q + old * before[1])
        self.old_rates = rate_h, rate_q
        self.h[0], self.q[0] = inlet_h, 1.0
        self.h[-1], self.q[-1] = self.h[-2], self.q[-2]

    def act(self, action: Float64Array, inlet_h: float = 1.0) -> None:
        film = self.film
        start = self.u if self.u.size else np.zeros(film.n_jets)
        for k in range(film.n_steps):
            alpha = min(k / film.n_ramp_steps, 1.0)
            self.step(start + alpha * (action - start), inlet_h)
        self.u = np.array(action, dtype=np.float64)
