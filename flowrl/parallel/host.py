"""The host: takes in what actors send, hands it to the learning side, and lets actors go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from accel.interfaces import LearningStep
from flowrl.agents.off_policy import reported_exploration
from flowrl.config import RunConfig
from flowrl.learning import Learning
from flowrl.networks import Weights
from flowrl.off_policy import OffPolicyReport, make_report
from flowrl.parallel.actor import Team
from flowrl.parallel.joined import Joined
from flowrl.parallel.messages import CaughtUp, Failed, InOrder, Insert, Mail, Message, Status
from flowrl.parallel.parcels import Header, Parcel
from flowrl.parallel.relayed import Relayed
from flowrl.parallel.transport import Transport, check_sequence
from flowrl.replay import NStep, Rows
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import mean
from flowrl.trajectory import Float64Array

# Longest wait without a look at what may have gone wrong [s].
_LOOK = 1.0


class LearningSide(Protocol):
    """Replay manager and learner, in one thread or two."""

    def start(self) -> None:
        """Begin to learn."""

    def give(self, insert: Insert) -> None:
        """Hand the next collection over."""

    def handle(self, message: Message) -> CaughtUp | None:
        """Relay a message from a thread; return what it means for the host."""

    def close(self) -> None:
        """End the threads."""


def _learning_side(
    config: RunConfig, learning: Learning, watch: Stopwatch, mail: Mail, setting: str
) -> LearningSide:
    if setting == "joined":
        return Joined(learning, watch, mail)
    return Relayed(learning, watch, mail, config.parallel.iteration)


class _Source:
    """What the host knows of one worker."""

    def __init__(self, config: RunConfig, n_envs: int) -> None:
        self._own, self._n_envs = config.off_policy, n_envs
        self._n_step = self._new()
        self.parcels: deque[tuple[Header, Parcel]] = deque()  # received, not yet handed on
        self._life, self._n_received = 0, 0
        self._blow_ups = {0: 0}  # by life

    def _new(self) -> NStep:
        own = self._own
        return NStep(self._n_envs, own.n_steps, own.gamma, own.reward_scale)

    def receive(self, worker: int, parcel: Parcel) -> None:
        header = parcel.header
        check_sequence(header, worker, self._n_received)
        self._n_received += 1
        self.parcels.append((header, parcel))

    def take(self) -> tuple[Header, Rows, Float64Array]:
        """Return the next parcel's header, the rows that it completes, and its episodes."""
        header, parcel = self.parcels.popleft()
        if header.life != self._life:
            # Steps that waited for later ones wait in vain: those environments are gone.
            self._life, self._n_step = header.life, self._new()
        self._blow_ups[header.life] = header.n_blow_ups
        return header, self._n_step.rows(parcel.trajectory), parcel.episodes(header.n_episodes)

    @property
    def n_blow_ups(self) -> int:
        return sum(self._blow_ups.values())


class _Pending:
    """What the next row of results collects."""

    def __init__(self) -> None:
        self.episodes: list[Float64Array] = []
        self.steps: list[LearningStep] = []
        self.staleness: list[int] = []


class Host:
    """One run, from the first collection to the last update.

    Each collection is handed on when all workers have sent their parts of it, in the order of
    the environments.
    """

    def __init__(
        self, config: RunConfig, team: Team, learning: Learning, watch: Stopwatch, setting: str
    ) -> None:
        """Prepare a run; `watch` is that of `learning`."""
        self._config, self._team, self._learning = config, team, learning
        self._mail = Mail()
        self._side = _learning_side(config, learning, watch, self._mail, setting)
        self._sources = [_Source(config, int(n)) for n in team.shares]
        self._lengths = (c.n_transitions for c in team.schedule.collections())
        # By the collection that a row of results follows: its transitions, the row, blow-ups.
        self._reported: dict[int, tuple[int, _Pending, int]] = {}
        self._pending = _Pending()
        self._given = self._transitions = self._n_updates = 0
        self._answers = InOrder("collection", 0)
        self.parameters: Weights | None = None  # of the last row of results

    def run(self, transport: Transport) -> Iterator[OffPolicyReport]:
        """Train to the end; yield the rows of results."""
        self._side.start()
        while self._answers.due < self._team.n_collections:
            for worker, parcel in transport.wait(self._mail.file, _LOOK):
                self._sources[worker].receive(worker, parcel)
            self._hand_on()
            for message in self._mail.take():
                if isinstance(message, Failed):
                    raise message.error
                caught_up = self._side.handle(message)
                if caught_up is not None:
                    yield from self._advance(caught_up, transport)

    def close(self) -> None:
        """End the threads."""
        self._side.close()
        self._mail.close()

    def _hand_on(self) -> None:
        """Give the learning side every collection that is complete."""
        while all(source.parcels for source in self._sources):
            parts = [source.take() for source in self._sources]
            before, self._transitions = self._transitions, self._transitions + next(self._lengths)
            self._note(parts, before)
            pieces = tuple(rows for _, rows, _ in parts)
            is_reported = self._given in self._reported
            self._side.give(Insert(self._given, pieces, self._transitions, is_reported))
            self._given += 1

    def _note(self, parts: Sequence[tuple[Header, Rows, Float64Array]], before: int) -> None:
        """Keep what a row of results will say of a collection."""
        pending, n_due = self._pending, self._learning.governor.allowed(before)
        for header, _, episodes in parts:
            pending.episodes.append(episodes)
            pending.staleness.append(n_due - header.n_updates)
        now, interval = self._transitions, self._config.off_policy.report_interval
        if now // interval > before // interval or now == self._config.n_transitions:
            blow_ups = sum(source.n_blow_ups for source in self._sources)
            self._reported[self._given] = now, pending, blow_ups
            self._pending = _Pending()

    def _advance(self, caught_up: CaughtUp, transport: Transport) -> Iterator[OffPolicyReport]:
        """Publish what was learnt from a collection, and let actors begin a later one."""
        learning, number = self._learning, caught_up.number
        self._answers.check(number)
        self._n_updates = caught_up.n_updates
        if caught_up.actor is not None:
            scale = 1.0 / learning.std
            transport.publish(caught_up.n_updates, caught_up.actor, learning.mean, scale)
        transport.permit(number + 1 + self._team.n_slots)
        pending = next(iter(self._reported.values()))[1] if self._reported else self._pending
        pending.steps += caught_up.steps
        if caught_up.status is not None:
            yield self._report(number, caught_up.status)

    def _report(self, number: int, status: Status) -> OffPolicyReport:
        transitions, pending, blow_ups = self._reported.pop(number)
        self.parameters = status.parameters
        state = dict(status.state)
        state["exploration"] = reported_exploration(self._config, transitions)
        state["blow_ups"] = blow_ups
        state["staleness"] = mean(pending.staleness)
        return make_report(
            transitions, self._n_updates, pending.episodes, pending.steps, state, status.seconds
        )
