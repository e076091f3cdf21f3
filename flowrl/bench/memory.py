"""What the machine's memory allows: how long a random access takes while others are under way."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from flowrl.bench.timing import least_seconds

LINE = 64  # bytes of a cache line
N_CHAINS = 32  # accesses under way at a time; more than a core can wait for
_N_STEPS = 500


@numba.njit(nogil=True)
def _follow(successors: NDArray[np.int64], places: NDArray[np.int64], n_steps: int) -> None:
    """Follow all chains side by side, each access depending on the last one of its chain."""
    for _ in range(n_steps):
        for chain in range(places.size):
            places[chain] = successors[places[chain]]


def random_cycle(n_lines: int) -> NDArray[np.int64]:
    """Return an array of so many cache lines, the first number of each the place of another's."""
    order = np.random.default_rng(0).permutation(n_lines)
    stride = LINE // 8
    successors = np.zeros(n_lines * stride, np.int64)
    successors[order * stride] = np.roll(order, -1) * stride
    return successors


def access_seconds(n_bytes: int, n_chains: int = N_CHAINS, repeats: int = 30) -> float:
    """Return the least time of an access to a random cache line of so many bytes [s].

    With one chain that is the latency; with many, what a core reaches at most.
    """
    successors = random_cycle(max(2, n_bytes // LINE))
    starts = np.random.default_rng(1).integers(0, successors.size * 8 // LINE, n_chains)
    places = starts * (LINE // 8)
    (seconds,) = least_seconds([lambda: _follow(successors, places, _N_STEPS)], repeats)
    return seconds / (_N_STEPS * n_chains)


def descent_seconds(capacity: int, fanout: int) -> tuple[float, float]:
    """Return the floor of a descent and of one alone: an access in each level of a tree [s].

    Levels hold float64; the second time is the latencies' sum, that of a descent with none beside.
    """
    sizes = []
    while capacity > 1:
        sizes.append(8 * capacity)
        capacity = -(-capacity // fanout)
    return (
        sum(access_seconds(size) for size in sizes),
        sum(access_seconds(size, 1) for size in sizes),
    )
