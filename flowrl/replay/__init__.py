"""Replay: stored transitions, what is drawn from them, and how often the learner learns."""

from flowrl.replay.governor import Governor
from flowrl.replay.manager import ReplayManager, Sample
from flowrl.replay.n_step import NStep
from flowrl.replay.storage import ReplayError, Rows, RowStorage, row_bytes

__all__ = [
    "Governor",
    "NStep",
    "ReplayError",
    "ReplayManager",
    "RowStorage",
    "Rows",
    "Sample",
    "row_bytes",
]
