"""Messages between host, replay manager and learner: the queues RRQ, LAQ and LDQ, and the mail.

Each carries the number of the collection or of the update that it is about, and numbers of one
kind come in order: `InOrder` sees to that.
"""

from __future__ import annotations

import contextlib
import os
import queue
from dataclasses import dataclass

from accel.interfaces import LearningStep
from flowrl.networks import Weights
from flowrl.replay import Rows, Sample
from flowrl.trainer import TrainingError
from flowrl.trajectory import Float32Array


@dataclass(frozen=True)
class Insert:
    """Host to replay manager (RRQ): the rows of a collection."""

    number: int  # of the collection, from 0
    pieces: tuple[Rows, ...]  # in the order of the environments
    transitions: int  # of the run after this collection
    is_reported: bool  # a row of results follows it


@dataclass(frozen=True)
class Draw:
    """Host to replay manager (RRQ): draw the rows of an update."""

    number: int  # of the update, from 1
    transitions: int


@dataclass(frozen=True)
class Drawn:
    """Replay manager to host (RRQ): the rows of an update, copied."""

    number: int
    sample: Sample
    batch: Rows


@dataclass(frozen=True)
class Settle:
    """Host to replay manager (RRQ): what an update made of its rows; new priorities."""

    number: int
    sample: Sample
    step: LearningStep


@dataclass(frozen=True)
class Close:
    """Host to replay manager (RRQ): say how the replay stands after a collection."""

    number: int
    transitions: int
    is_reported: bool


@dataclass(frozen=True)
class Closed:
    """Replay manager to host (RRQ): how the replay stands after a collection."""

    number: int
    state: dict[str, float]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Learn:
    """Host to learner (LAQ): the rows of an update."""

    number: int
    batch: Rows
    weights: Float32Array  # (n,) importance weights
    actor_observations: Float32Array | None  # see `flowrl.replay.Sample`


@dataclass(frozen=True)
class Learnt:
    """Learner to host (LDQ): an update is done; its errors give new priorities."""

    number: int
    step: LearningStep


@dataclass(frozen=True)
class Publish:
    """Host to learner (LAQ): give the actor's weights after a collection."""

    number: int
    is_reported: bool


@dataclass(frozen=True)
class Told:
    """Learner to host (LDQ): the weights after a collection."""

    number: int
    actor: Weights
    parameters: Weights | None  # all of them, where a row of results follows
    seconds: dict[str, float]


@dataclass(frozen=True)
class Status:
    """What a row of results says of the learning side."""

    state: dict[str, float]
    seconds: dict[str, float]
    parameters: Weights


@dataclass(frozen=True)
class CaughtUp:
    """All updates that were due after a collection have been made."""

    number: int  # of the collection
    n_updates: int  # since the start of the run
    steps: tuple[LearningStep, ...]  # of the updates of this collection
    actor: Weights | None  # None where nothing was learnt
    status: Status | None  # where a row of results follows


@dataclass(frozen=True)
class Failed:
    """A thread ended by an error."""

    error: BaseException


Message = (
    Insert | Draw | Drawn | Settle | Close | Closed | Learn | Learnt | Publish | Told | CaughtUp
    | Failed
)  # fmt: skip


class InOrder:
    """Checks that numbers come one after the other."""

    def __init__(self, what: str, first: int) -> None:
        """Name what is numbered."""
        self._what, self.due = what, first

    def check(self, number: int) -> None:
        """Raise TrainingError unless this number is the one that is due."""
        if number != self.due:
            raise TrainingError(
                f"{self._what} {self.due} must come next, got {number}: messages were lost or "
                "mixed up"
            )
        self.due += 1


class Mail:
    """What threads send to the host: a queue that can be waited for as a file."""

    def __init__(self) -> None:
        """Open the file."""
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.file, self._bell = os.pipe()
        for end in (self.file, self._bell):
            os.set_blocking(end, False)

    def put(self, message: Message) -> None:
        """Send a message, from any thread."""
        self._messages.put(message)
        with contextlib.suppress(BlockingIOError, OSError):  # rung often enough, or closed
            os.write(self._bell, b"!")

    def take(self) -> list[Message]:
        """Return all messages that have come since."""
        if self._messages.empty():  # a look at the bell would cost the interpreter's lock
            return []
        # First the bell: what rings it now has its message in the queue, or rings once more.
        with contextlib.suppress(BlockingIOError):
            os.read(self.file, 4096)
        messages: list[Message] = []
        with contextlib.suppress(queue.Empty):
            while True:
                messages.append(self._messages.get_nowait())
        return messages

    def close(self) -> None:
        """Close the file."""
        file, bell = self.file, self._bell
        self.file = self._bell = -1  # a late message must not ring what is opened next
        os.close(file)
        os.close(bell)
