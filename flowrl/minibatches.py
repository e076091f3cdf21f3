"""Minibatches that do not depend on how the environments are spread over ranks.

Each epoch shuffles every environment's transitions on their own, by a stream that is a pure
function of (seed, update, epoch, index of the environment within the update), and deals them to
the minibatches in turn. So every minibatch takes its even share of each environment: no rank waits
for another's larger draw, and no index crosses the network. Rows of one environment in one
minibatch are cut into chunks, the units whose gradients are summed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from flowrl.trajectory import IntArray

# Rows of a chunk: enough to keep the learner's kernels busy, few enough for 64 environments to
# have one each.
CHUNK_ROWS = 128
# Chunks that one sum of 64-bit integers holds without overflow, each at its largest.
MOST_CHUNKS = 4096


@dataclass(frozen=True)
class Minibatch:
    """One rank's part of one minibatch."""

    rows: IntArray  # local row of each transition
    chunks: IntArray  # (n_chunks + 1,) where each chunk begins in `rows`
    n_total: int  # transitions of the minibatch on all ranks


class Shuffler:
    """Deals one update's transitions to minibatches, epoch by epoch."""

    def __init__(
        self, seed: int, update: int, lengths: IntArray, first: int, stop: int, n_minibatches: int
    ) -> None:
        """Take the lengths of all the update's environments; [first, stop) are this rank's."""
        self._key = np.array([seed, update], np.uint64)
        self._starts = np.concatenate(([0], np.cumsum(lengths)))
        self._first, self._stop = first, stop
        self._n = n_minibatches

    def epoch(self, epoch: int) -> list[Minibatch]:
        """Return this rank's part of the epoch's minibatches, leaving out empty ones."""
        minibatches = []
        total = int(self._starts[-1])
        permuted = _permutations(self._key, epoch, self._starts, self._first, self._stop)
        for index in range(self._n):
            n_total = total // self._n + (index < total % self._n)
            if n_total:
                rows, chunks = _deal(
                    permuted, self._starts, self._first, self._stop, index, self._n, CHUNK_ROWS
                )
                minibatches.append(Minibatch(rows, chunks, n_total))
        return minibatches


@numba.njit(cache=True, inline="always")
def _mix(x: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def _permutations(key: np.ndarray, epoch: int, starts: IntArray, first: int, stop: int) -> IntArray:
    """Return local rows, each environment's own rows in random order (Fisher-Yates)."""
    offset = starts[first]
    rows = np.arange(starts[stop] - offset)
    step = np.uint64(0x9E3779B97F4A7C15)
    for env in range(first, stop):
        state = _mix(key[0] + step)
        for word in (key[1], np.uint64(epoch), np.uint64(env)):
            state = _mix((state ^ word) + step)
        begin = starts[env] - offset
        for n in range(starts[env + 1] - starts[env], 1, -1):
            state += step
            pick = begin + np.int64(
                ((_mix(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)
            )
            last = begin + n - 1
            rows[pick], rows[last] = rows[last], rows[pick]
    return rows


@numba.njit(cache=True, nogil=True)
def _deal(
    permuted: IntArray,
    starts: IntArray,
    first: int,
    stop: int,
    index: int,
    n_minibatches: int,
    chunk_rows: int,
) -> tuple[IntArray, IntArray]:
    """Take every n-th transition of the global order, cut at environments and at chunk_rows."""
    rows = np.empty(permuted.size, np.int64)
    chunks = np.zeros(permuted.size + 1, np.int64)
    n_rows = n_chunks = 0
    offset = starts[first]
    for env in range(first, stop):
        begin = n_rows
        skip = (index - starts[env]) % n_minibatches
        for position in range(starts[env] + skip, starts[env + 1], n_minibatches):
            if n_rows - begin == chunk_rows:
                begin = n_rows
                n_chunks += 1
                chunks[n_chunks] = n_rows
            rows[n_rows] = permuted[position - offset]
            n_rows += 1
        if n_rows > begin:
            n_chunks += 1
            chunks[n_chunks] = n_rows
    return rows[:n_rows].copy(), chunks[: n_chunks + 1].copy()
