"""How all benchmarks take time on a machine that other work may share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def least_seconds(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return the least time of each call over `repeats` rounds [s].

    The calls are taken in turns, so that another process on the core spoils some rounds and not
    one call's result; a first round that compiles and warms the caches does not count.
    """
    for call in calls:
        call()
    least = [float("inf")] * len(calls)
    for _ in range(repeats):
        for index, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[index] = min(least[index], time.perf_counter() - begin)
    return least
