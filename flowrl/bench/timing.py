"""How all benchmarks take time on a machine that other work may share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf


def least_seconds(
    calls: Sequence[Callable[[], object]], repeats: int, budget: float = inf
) -> list[float]:
    """Return the least time of each call over `repeats` rounds, or 3 and what fits the budget [s].

    The calls are taken in turns, so that another process on the core spoils some rounds and not
    one call's result; a first round that compiles and warms the caches does not count.
    """
    for call in calls:
        call()
    least = [inf] * len(calls)
    start = time.perf_counter()
    for n_done in range(repeats):
        if n_done >= 3 and time.perf_counter() - start > budget:
            break
        for index, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[index] = min(least[index], time.perf_counter() - begin)
    return least
