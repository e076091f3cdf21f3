"""Sums of float32 gradients as 64-bit integers: exact, so equal in any order over any ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flowrl.trajectory import Float64Array, IntArray

# A summand stays below 2^46 units, so 2^17 of them fit. The largest gradient of a step is put near
# 2^40 in the next one: far finer than float32 itself, with 2^6 of growth before a rescale.
LIMIT = 2.0**46
TARGET_BITS = 40
RESCALE_BITS = 20
# With fewer bits the largest gradient would be coarser than float32: compute it again, finer.
LEAST_BITS = 28


class FixedPoint:
    """One scale 2^exponent, which follows the size of what is summed."""

    def __init__(self, exponent: int = 32) -> None:
        self.exponent = exponent

    def encode(self, values: npt.NDArray[np.float32]) -> tuple[IntArray, bool, bool]:
        """Return the integers, whether any left the range, and whether any was not finite."""
        scaled: Float64Array = values.astype(np.float64) * 2.0**self.exponent
        finite = bool(np.isfinite(scaled).all())
        fits = bool((np.abs(scaled) < LIMIT).all()) if finite else True
        if not (finite and fits):
            return np.zeros(values.shape, np.int64), not fits, not finite
        return np.rint(scaled).astype(np.int64), False, False

    def decode(self, sums: IntArray) -> Float64Array:
        """Return the sum that the integers stand for."""
        decoded: Float64Array = np.ldexp(sums.astype(np.float64), -self.exponent)
        return decoded

    def refine(self, sums: IntArray) -> bool:
        """Choose a finer scale for sums of too few bits; return whether they must be made anew."""
        largest = int(np.abs(sums).max(initial=0))
        if not 0 < largest < 2**LEAST_BITS:
            return False
        self.follow(float(np.ldexp(float(largest), -self.exponent)))
        return True

    def rescale(self) -> None:
        """Make room after values left the range."""
        self.exponent -= RESCALE_BITS

    def follow(self, largest: float) -> None:
        """Choose the next scale by the largest magnitude of this step."""
        if largest > 0.0:
            self.exponent = TARGET_BITS - int(np.frexp(largest)[1])


# Statistics have no common size: each is a coarse word in units of 2^20 and a fine one of 2^-32.
_COARSE, _FINE = 2.0**20, 2.0**32


def encode_statistics(values: Float64Array) -> IntArray:
    """Return the coarse words, then the fine ones: (2 n,); magnitudes past 2^66 saturate."""
    bounded = np.nan_to_num(values).clip(-(2.0**66), 2.0**66)
    coarse = np.rint(bounded / _COARSE)
    fine = np.rint((bounded - coarse * _COARSE) * _FINE)
    return np.concatenate([coarse, fine]).astype(np.int64)


def decode_statistics(words: IntArray) -> Float64Array:
    """Return the statistics from their (summed) words: (n,)."""
    n = len(words) // 2
    decoded: Float64Array = words[:n] * _COARSE + words[n:] / _FINE
    return decoded
