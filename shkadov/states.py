"""The developed films episodes start from."""

from __future__ import annotations

import numpy as np
from numba import njit

from shkadov.params import FilmParams
from shkadov.schemes import SHIFT
from shkadov.solver import START_ROWS, FilmState, Float64Array, act, make_state


@njit(nogil=True, cache=True)
def _record(state: FilmState, film: int, wait: int, spacing: int, out: Float64Array) -> None:
    actions = np.zeros(state.jet_nodes.size, dtype=np.float32)
    rewards = np.zeros(1)
    for k in range(out.shape[0]):
        for _ in range(wait if k == 0 else spacing):
            act(state, film, actions, rewards)
        out[k] = state.films[film, :START_ROWS, SHIFT : SHIFT + out.shape[2]]


def developed_films(film: FilmParams, start_set: str) -> Float64Array:
    """Return (n_starts, START_ROWS, n_nodes) developed films of a set, "train" or "held_out"."""
    n = film.n_realisations
    state = make_state(film, n, np.ones((1, START_ROWS, film.n_nodes)))
    child = ("train", "held_out").index(start_set)
    seeds = np.random.SeedSequence(film.start_seed, spawn_key=(child,))
    state.generators[:] = seeds.generate_state(n, np.uint64)
    each = -(-film.n_starts // n)
    out = np.empty((n, each, START_ROWS, film.n_nodes))
    wait = round(film.start_time / film.dt_action)
    spacing = round(film.start_spacing / film.dt_action)
    for i in range(n):
        _record(state, i, wait, spacing, out[i])
    return out.reshape(n * each, START_ROWS, film.n_nodes)[: film.n_starts]
