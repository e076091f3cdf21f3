"""Run whole iterations as a training runs them, and time their parts.

Which of the three forms a training takes follows from who acts and from the mode, as in
`flowrl.parallel.trainer.make_trainer`:

    in turn  nobody acts beside: one thread stores, draws, learns, sets priorities; no messages
    joined   actors beside, one device, strict: one thread does, and messages lead in and out
    relayed  else: a thread for the replay manager and one for the learner, the host relays

Actors themselves don't run here. What they would send waits already, and so much of it that the
learning side is never idle: else a host that is kept off a busy processor would be measured.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.hardware import Device
from flowrl.composer.placement import Mode
from flowrl.composer.stand import Recorder, collections, make_learning
from flowrl.parallel.host import LearningSide
from flowrl.parallel.joined import Joined
from flowrl.parallel.messages import CaughtUp, Closed, Drawn, Failed, Learnt, Mail, Message, Told
from flowrl.parallel.relayed import Relayed
from flowrl.replay import ReplayManager
from flowrl.trajectory import Float64Array

_AHEAD = 8  # collections that are under way or wait
_RELAY = (Drawn, Learnt, Closed, Told)  # what a relay hears in an iteration


class Form(StrEnum):
    """How a training runs its iterations."""

    IN_TURN = "in turn"
    JOINED = "joined"
    RELAYED = "relayed"


@dataclass(frozen=True)
class Times:
    """Parts of iterations, in their order [s]."""

    period: Float64Array  # (n,) from end to end
    sample: Float64Array  # within their threads
    update: Float64Array
    insert: Float64Array
    # Of a relay: from the end of the iteration before to the host's hearing of each answer.
    heard: Mapping[type[Message], Float64Array]


class Iterations(Protocol):
    """A learning side that makes iterations when it is told to."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""

    def run(self, n: int) -> Times:
        """Make n iterations."""


def is_in_turn(accelerators: Accelerators, mode: Mode) -> bool:
    """Tell whether a training acts and learns in turn.

    Other modes than strict need actors beside; a trainer of the user's own always has its turn.
    """
    if accelerators.user is not None:
        return True
    return mode is Mode.STRICT and not accelerators.config.parallel.workers


def form_of(accelerators: Accelerators, mode: Mode, is_one_device: bool) -> Form:
    """Return the form in which a training runs."""
    if is_in_turn(accelerators, mode):
        return Form.IN_TURN
    return Form.JOINED if is_one_device and mode is Mode.STRICT else Form.RELAYED


def make_iterations(
    accelerators: Accelerators,
    manager: ReplayManager,
    devices: tuple[Device, Device],
    form: Form,
    mode: Mode,
) -> Iterations:
    """Return a learning side; its replay manager, which is there, and its learner on `devices`."""
    if form is Form.IN_TURN:
        return _InTurn(accelerators, manager, devices)
    return _Beside(accelerators, manager, devices, form, mode)


class _InTurn:
    """What `flowrl.off_policy.OffPolicyTrainer` does between two collections."""

    def __init__(
        self, accelerators: Accelerators, manager: ReplayManager, devices: tuple[Device, Device]
    ) -> None:
        self._learning, self._watch = make_learning(accelerators, manager, devices)
        self._collections = collections(accelerators)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def run(self, n: int) -> Times:
        learning, ends = self._learning, [time.perf_counter()]
        self._watch.reset()
        for _, collection in zip(range(n), self._collections, strict=False):
            for rows in collection.pieces:
                learning.insert(rows)
            learning.catch_up(collection.transitions)
            learning.learner.actor_weights()
            self._watch.lap("publish")
            ends.append(time.perf_counter())
        return _times(np.array(ends), self._watch, 1, {})


class _TimedMail(Mail):
    """Mail that notes when the updates of a collection have been made."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def put(self, message: Message) -> None:
        if isinstance(message, CaughtUp):
            self.ends.append(time.perf_counter())
        super().put(message)


class _Beside:
    """The host of `flowrl.parallel`, but for the actors."""

    def __init__(
        self,
        accelerators: Accelerators,
        manager: ReplayManager,
        devices: tuple[Device, Device],
        form: Form,
        mode: Mode,
    ) -> None:
        learning, self._watch = make_learning(accelerators, manager, devices)
        self._mail = _TimedMail()
        self._side: LearningSide = (
            Joined(learning, self._watch, self._mail)
            if form is Form.JOINED
            else Relayed(learning, self._watch, self._mail, mode)
        )
        self._n_draw_laps = 1 if form is Form.JOINED else 2  # a relay copies the rows, too
        self._collections = collections(accelerators)
        self._n_given = 0
        self._heard: dict[type[Message], list[float]] = {kind: [] for kind in _RELAY}

    def __enter__(self) -> Self:
        self._side.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._side.close()
        self._mail.close()

    def run(self, n: int) -> Times:
        ends = self._mail.ends
        # One more at first: before it, nobody may have looked after the messages.
        last = len(ends) + 1 + n
        while len(ends) < last:
            while self._n_given < len(ends) + _AHEAD:
                self._side.give(next(self._collections))
                self._n_given += 1
            self._relay()
        return self._times(n, last)

    def _relay(self) -> None:
        """Handle the messages that come next."""
        select.select([self._mail.file], [], [])
        for message in self._mail.take():
            if isinstance(message, Failed):
                raise message.error
            self._side.handle(message)
            if type(message) in self._heard:
                self._heard[type(message)].append(time.perf_counter())

    def _times(self, n: int, last: int) -> Times:
        ends = np.array(self._mail.ends[last - n - 1 : last])
        heard = {
            kind: np.array(times[last - n : last]) - ends[:-1]
            for kind, times in self._heard.items()
            if len(times) >= last
        }
        return _times(ends, self._watch, self._n_draw_laps, heard)


def _times(
    ends: Float64Array,
    watch: Recorder,
    n_draw_laps: int,
    heard: Mapping[type[Message], Float64Array],
) -> Times:
    """Return the parts of the latest iterations, which ended then."""
    n = len(ends) - 1
    return Times(
        np.diff(ends),
        watch.latest("sample", n, n_draw_laps),
        watch.latest("update", n),
        watch.latest("insert", n),
        heard,
    )
