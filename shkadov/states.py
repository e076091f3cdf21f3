"""The developed films episodes start from."""

from __future__ import annotations

import numpy as np

from shkadov.film_state import Float64Array, make_state
from shkadov.params import FilmParams
from shkadov.schemes import FIELDS, count_rows, unpack
from shkadov.simd import LANES
from shkadov.solver import develop


def developed_films(film: FilmParams, start_set: str) -> Float64Array:
    """Return (n_starts, FIELDS, n_nodes) developed films of a set, "train" or "held_out"."""
    n = film.n_realisations
    state = make_state(film, n, np.ones((1, FIELDS, film.n_nodes)))
    child = ("train", "held_out").index(start_set)
    seeds = np.random.SeedSequence(film.start_seed, spawn_key=(child,))
    state.generators[:] = seeds.generate_state(n, np.uint64)
    each = -(-film.n_starts // n)
    out = np.empty((n, each, count_rows(film.n_nodes), FIELDS, LANES))
    wait = round(film.start_time / film.dt_action)
    spacing = round(film.start_spacing / film.dt_action)
    for i in range(n):
        develop(state, i, wait, spacing, out[i])
    nodes = unpack(out, film.n_nodes)
    return nodes.reshape(n * each, FIELDS, film.n_nodes)[: film.n_starts]
