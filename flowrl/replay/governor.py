"""How many updates are due: an exact ratio to the transitions made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True)
class Governor:
    """Governs updates by transitions: u(t) = floor(ratio (t - learning_starts)), never more.

    The ratio is taken as the nearest fraction with a denominator up to 10^6, so that no rounding
    adds up over a run.
    """

    ratio: float  # updates for each transition
    learning_starts: int  # transitions before the first update
    batch_size: int  # rows that an update needs

    @property
    def first(self) -> int:
        """Count the transitions after which updates are made."""
        return max(self.learning_starts, self.batch_size)

    def allowed(self, transitions: int) -> int:
        """Count the updates that so many transitions allow, since the start of the run."""
        if transitions < self.first:
            return 0
        ratio = self._fraction
        return ratio.numerator * (transitions - self.learning_starts) // ratio.denominator

    @cached_property
    def _fraction(self) -> Fraction:
        return Fraction(self.ratio).limit_denominator(10**6)

    def measured(self, transitions: int, updates: int) -> float:
        """Return the ratio reached so far; NaN before there was anything to learn."""
        learnt = transitions - self.learning_starts
        return updates / learnt if learnt > 0 else math.nan
