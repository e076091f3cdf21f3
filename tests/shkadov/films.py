"""Films for tests: small, quick, and set up by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shkadov import solver
from shkadov.film_state import NO_HISTORY, FilmState, make_state
from shkadov.params import FilmParams, Number
from shkadov.schemes import BASE_H, BASE_Q, FIELDS, H, Q, pack, unpack

Float64Array = NDArray[np.float64]

# Environment arguments that keep the making of start states to a tenth of a second.
QUICK: dict[str, Any] = {
    "L0": 60.0,
    "first_jet": 60.0,
    "start_time": 40.0,
    "start_spacing": 2.0,
    "n_starts": 12,
    "n_realisations": 3,
}


def quick_film(preset: str = "paper", **overrides: Number) -> FilmParams:
    return FilmParams.preset(preset, **{**QUICK, **overrides})


def film_state(film: FilmParams, h: Float64Array, q: Float64Array) -> FilmState:
    """Make one film without history, of the heights and flow rates given at all nodes."""
    state = make_state(film, 1)
    nodes = np.empty((1, FIELDS, film.n_nodes))
    nodes[0, [H, BASE_H]] = h
    nodes[0, [Q, BASE_Q]] = q
    state.films[...] = pack(nodes, film.n_nodes)
    control = state.control
    solver.join_lanes(flat(state), control.lane_rows, control.last_row, float(h[0]))
    return state


def flat(state: FilmState) -> Float64Array:
    nodes: Float64Array = state.films[0].reshape(-1)
    return nodes


def heights(state: FilmState, film: FilmParams) -> Float64Array:
    h: Float64Array = unpack(state.films[0], film.n_nodes)[H]
    return h


def flow_rates(state: FilmState, film: FilmParams) -> Float64Array:
    q: Float64Array = unpack(state.films[0], film.n_nodes)[Q]
    return q


def act(state: FilmState, action: Any) -> tuple[float, bool, bool]:
    """Move the only film by one action; return its reward and flags."""
    rewards = np.empty(1)
    actions = np.asarray(action, dtype=np.float32).reshape(-1)
    terminated, truncated = solver.act(state, 0, actions, rewards)
    return float(rewards[0]), bool(terminated), bool(truncated)


def compiled_rates(
    film: FilmParams, h: Float64Array, q: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """h_t and q_t at nodes 1 .. n-2 as one Euler step of the compiled film sees them."""
    state = film_state(film, h, q)
    assert state.clock[0, NO_HISTORY] == 1
    factors = state.factors.reshape(-1)
    solver.take_step(flat(state), factors, factors.size // 2, state.control.lane_rows)
    new = unpack(state.films[0], film.n_nodes)
    # base = new - dt/2 rate
    rate_h = 2.0 * (new[H] - new[BASE_H]) / film.dt
    rate_q = 2.0 * (new[Q] - new[BASE_Q]) / film.dt
    return rate_h[1:-1], rate_q[1:-1]
