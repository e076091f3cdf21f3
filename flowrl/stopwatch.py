"""Where the time of an update goes."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds the time since the last lap to a named share; every moment belongs to one share."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Add the time since the last lap to `name` [s]."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def reset(self) -> None:
        """Start all shares again from zero."""
        self.seconds = {}
        self._last = time.perf_counter()
