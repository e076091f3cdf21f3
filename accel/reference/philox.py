"""Normal numbers that are a function of seed, step, row and dimension alone.

Philox4x32-10 (Salmon et al., SC 2011) turns a key of two words and a counter of four into four
random words; two Box-Muller pairs turn these into four normals.
"""

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
UInt64Array = NDArray[np.uint64]

NEXT_ACTIONS, PRESENT_ACTIONS = range(2)  # streams

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(counter: UInt64Array, seed: int) -> UInt64Array:
    """Return four words of 32 bits for each counter of four (n, 4)."""
    c0, c1, c2, c3 = (np.asarray(counter, np.uint64) & _LOW).T
    keys = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        k0, k1 = np.uint64(keys[0]), np.uint64(keys[1])
        c0, c1 = (second >> _HALF) ^ c1 ^ k0, second & _LOW
        c2, c3 = (first >> _HALF) ^ c3 ^ k1, first & _LOW
        keys = [(key + weyl) & 0xFFFFFFFF for key, weyl in zip(keys, _WEYL, strict=True)]
    return np.stack([c0, c1, c2, c3], axis=1)


def normals(
    seed: int, step: int, stream: int, first_row: int, n_rows: int, n_actions: int
) -> Float64Array:
    """Draw (n_rows, n_actions) standard normals.

    Dimensions 4q to 4q + 3 of a row come from the counter (row, q, step, stream). A word w makes
    u = (w >> 8) 2^-24 + 2^-25; words 0 and 1 make sqrt(-2 log u0) cos(2 pi u1), then the same with
    sin; words 2 and 3 make the other two.
    """
    n_groups = (n_actions + 3) // 4
    counter = np.zeros((n_rows, n_groups, 4), np.uint64)
    counter[:, :, 0] = (first_row + np.arange(n_rows, dtype=np.uint64))[:, None]
    counter[:, :, 1] = np.arange(n_groups)
    counter[:, :, 2:] = step & 0xFFFFFFFF, stream
    words = philox(counter.reshape(-1, 4), seed)
    u = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24 + 2.0**-25
    radius = np.sqrt(-2.0 * np.log(u[:, 0::2]))
    angle = 2.0 * np.pi * u[:, 1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return np.asarray(pairs.reshape(n_rows, 4 * n_groups)[:, :n_actions])
