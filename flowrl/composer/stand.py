"""The test stand of the profiler: a full buffer, a learner, and the two threads of a relay."""

from __future__ import annotations

import select
from types import TracebackType
from typing import Self

import numpy as np

from accel.interfaces import LearningStep
from flowrl.composer.accelerators import Accelerators
from flowrl.composer.hardware import Device
from flowrl.learners.off_policy import OffPolicyLearner
from flowrl.parallel.messages import Draw, Drawn, Failed, Learn, Learnt, Mail, Message
from flowrl.parallel.threads import Station
from flowrl.replay import ReplayManager, Rows, Sample
from flowrl.trajectory import Float32Array

BETA = 0.4  # exponent of the importance weights, as at the start of a run
_BLOCK = 8192  # rows by which a buffer is filled


def filled_manager(accelerators: Accelerators, device: Device) -> ReplayManager:
    """Return a replay manager on a device, its buffer full, with priorities as errors are."""
    storage = accelerators.make_storage()
    manager = accelerators.make_replay_manager(device, storage)
    rng = np.random.default_rng(0)
    block = accelerators.synthetic_rows(min(_BLOCK, storage.capacity), rng)
    while storage.size < storage.capacity:
        manager.insert(block)
    for begin in range(0, storage.capacity, _BLOCK):
        places = np.arange(begin, min(begin + _BLOCK, storage.capacity))
        sample = Sample(places, np.ones(len(places), np.float32), storage.generations[places], 0)
        manager.update_priorities(sample, td_errors(len(places), rng))
    return manager


def td_errors(n: int, rng: np.random.Generator) -> Float32Array:
    """Draw absolute errors: half a normal distribution."""
    return np.abs(rng.standard_normal(n, np.float32))


class Learning:
    """One iteration's primitives, each a call without arguments."""

    def __init__(
        self, accelerators: Accelerators, manager: ReplayManager, device: Device, n_threads: int = 0
    ) -> None:
        """Make a learner on the device, where it can be there."""
        self.manager, self.rng = manager, np.random.default_rng(1)
        self.batch_size = accelerators.workload.batch_size
        self._rows = accelerators.synthetic_rows(accelerators.workload.insert_size, self.rng)
        self._learner: OffPolicyLearner | None = None
        if accelerators.can_learn_on(device):
            self._learner = accelerators.make_learner(device, n_threads)
        self._errors = td_errors(self.batch_size, self.rng)
        self.sample()

    @property
    def learner(self) -> OffPolicyLearner:
        """Return the learner; RuntimeError where there is none."""
        if self._learner is None:
            raise RuntimeError("no learner on this device")
        return self._learner

    def insert(self) -> None:
        """Store an iteration's new rows."""
        self.manager.insert(self._rows)

    def sample(self) -> None:
        """Draw a batch."""
        self._sample = self.manager.sample(self.rng, self.batch_size, BETA)

    def take(self, drawn: Drawn) -> None:
        """Take a batch that was drawn elsewhere."""
        self._sample = drawn.sample

    def learn(self) -> None:
        """Learn the batch, and copy the actor's weights."""
        sample, rows = self._sample, self.manager.storage.rows
        step = self.learner.learn(rows, sample.indices, sample.weights, sample.actor_observations)
        if step.applied:
            self._errors = step.td_errors
        self.learner.actor_weights()

    def update(self) -> None:
        """Set the batch's priorities."""
        self.manager.update_priorities(self._sample, self._errors)


class _Thread:
    """A thread that answers one message with one."""

    def __init__(self) -> None:
        self._mail, self._number = Mail(), 0
        self._station = Station("flowrl profile", self._mail, self._handle)

    def __enter__(self) -> Self:
        self._station.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._station.close()
        self._mail.close()

    def _handle(self, message: Message) -> None:
        self._mail.put(self._answer(message))

    def _answer(self, message: Message) -> Message:
        raise NotImplementedError

    def _ask(self, message: Message) -> Message:
        self._station.put(message)
        while True:
            select.select([self._mail.file], [], [])
            for answer in self._mail.take():
                if isinstance(answer, Failed):
                    raise answer.error
                return answer


class ManagerThread(_Thread):
    """The replay manager's: draws, and copies the rows."""

    def __init__(self, manager: ReplayManager, rng: np.random.Generator, n: int) -> None:
        """Take a replay manager, and how many rows are drawn."""
        super().__init__()
        self._manager, self._rng, self._n = manager, rng, n
        stored = vars(manager.storage.rows).items()
        self._batch = Rows(**{k: np.empty((n, *v.shape[1:]), np.float32) for k, v in stored})

    def draw(self) -> Drawn:
        """Ask for a batch and wait for it."""
        answer = self._ask(Draw(0, 0))
        if not isinstance(answer, Drawn):
            raise TypeError(f"a Drawn must come, got {answer}")
        return answer

    def _answer(self, message: Message) -> Message:
        del message
        sample = self._manager.sample(self._rng, self._n, BETA)
        stored = vars(self._manager.storage.rows)
        for name, values in vars(self._batch).items():
            np.take(stored[name], sample.indices, axis=0, out=values, mode="clip")
        return Drawn(0, sample, self._batch)


class LearnerThread(_Thread):
    """The learner's."""

    def __init__(self, learner: OffPolicyLearner) -> None:
        """Take a learner."""
        super().__init__()
        self._learner = learner

    def learn(self, drawn: Drawn) -> LearningStep:
        """Hand a batch over and wait until it is learnt."""
        sample = drawn.sample
        answer = self._ask(Learn(0, drawn.batch, sample.weights, sample.actor_observations))
        if not isinstance(answer, Learnt):
            raise TypeError(f"a Learnt must come, got {answer}")
        return answer.step

    def _answer(self, message: Message) -> Message:
        if not isinstance(message, Learn):
            raise TypeError(f"a Learn must come, got {message}")
        places = np.arange(len(message.weights))
        step = self._learner.learn(
            message.batch, places, message.weights, message.actor_observations
        )
        self._learner.actor_weights()
        return Learnt(0, step)
