"""Random streams of a run: one seed, one child sequence per purpose and GLOBAL environment index.

No stream depends on the rank that happens to own an environment, so the numbers an environment
sees are the same however many ranks share the work.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a random stream is for; the first word of its spawn key."""

    ENVIRONMENT = 0
    ACTION_NOISE = 1
    PERMUTATION = 2
    EVALUATION = 3
    INITIALISATION = 4
    REPLAY = 5
    LEARNER = 6


def sequence(seed: int, stream: Stream, index: int = 0, life: int = 0) -> np.random.SeedSequence:
    """Return the seed sequence of one purpose and one global index.

    `life` counts how often the environment of that index was made anew during the run.
    """
    key = (int(stream), index) if life == 0 else (int(stream), index, life)
    return np.random.SeedSequence(seed, spawn_key=key)


def generator(seed: int, stream: Stream, index: int = 0, life: int = 0) -> np.random.Generator:
    """Return a fresh generator of one purpose, one global index and one life."""
    return np.random.Generator(np.random.PCG64(sequence(seed, stream, index, life)))


def integer_seed(seed: int, stream: Stream, index: int = 0, life: int = 0) -> int:
    """Return a 63-bit integer seed, for `env.reset(seed=...)` and for compiled kernels."""
    state = sequence(seed, stream, index, life).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))
