"""What a rank wishes of all others, and the signals by which it is wished."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

# EX_TEMPFAIL of sysexits.h, try again later: for a batch job's script, which then requeues itself.
REQUEUE = 75
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# A terminal and mpirun both send a rank the one Ctrl-C that somebody has typed [s].
_SAME = 1.0
_SAVES = 2**32  # more than there are ranks: stops are counted below it


class Wishes:
    """To stop, and to save. One word of a sum over all ranks brings them to agree."""

    def __init__(self) -> None:
        self.stop = self.save = False  # this rank's
        self.must_stop = self.must_save = False  # everybody's

    def word(self) -> int:
        """Return this rank's wishes as a number to be summed over all ranks."""
        return int(self.stop) + _SAVES * int(self.save)

    def agree(self, total: int) -> None:
        """Take in the sum of all ranks' words."""
        saves, stops = divmod(total, _SAVES)
        self.must_stop |= stops > 0
        self.must_save |= saves > 0

    def saved(self) -> None:
        """Note that a checkpoint has been written."""
        self.save = self.must_save = False


@contextlib.contextmanager
def heeding_signals(wishes: Wishes, is_root: bool, heeds: bool = True) -> Iterator[None]:
    """Let the signals ask for a stop: the first after the update at hand, another one at once."""
    if not heeds:
        yield
        return
    first: float | None = None

    def heed(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal first
        now = time.monotonic()
        if first is not None and now - first > _SAME:
            raise KeyboardInterrupt
        if first is None and is_root:
            name = signal.Signals(number).name
            with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
                sys.stderr.write(f"flowrl.train: {name}: stopping at the next checkpoint\n")
        first = now if first is None else first
        wishes.stop = True

    try:
        before = {number: signal.signal(number, heed) for number in SIGNALS}
    except ValueError:  # Only the main thread may: whoever calls us elsewhere heeds them himself.
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
