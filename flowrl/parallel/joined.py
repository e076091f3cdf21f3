"""PEARL's setting 2: replay manager and learner in one thread; LAQ and LDQ are direct calls."""

from __future__ import annotations

from collections.abc import Iterator

from accel.interfaces import LearningStep
from flowrl.learning import Learning
from flowrl.parallel.messages import CaughtUp, InOrder, Insert, Mail, Message, Status
from flowrl.parallel.threads import Station
from flowrl.stopwatch import Stopwatch


class Joined:
    """Stores each collection, then makes the updates that it allows."""

    def __init__(self, learning: Learning, watch: Stopwatch, mail: Mail) -> None:
        """Prepare the thread; `watch` is that of `learning`."""
        self._learning, self._watch = learning, watch
        self._mail = mail
        self._station = Station("flowrl learner", mail, self._take)
        self._sequence = InOrder("collection", 0)

    def start(self) -> None:
        """Begin to learn."""
        self._watch.reset()
        self._station.start()

    def give(self, insert: Insert) -> None:
        """Hand the next collection over."""
        self._station.put(insert)

    def handle(self, message: Message) -> CaughtUp | None:
        """Return what a message from the thread means for the host."""
        return message if isinstance(message, CaughtUp) else None

    def close(self) -> None:
        """End the thread."""
        self._station.close()

    def _take(self, message: Message) -> None:
        if isinstance(message, Insert):
            # Whoever waits for transitions waits for those who act.
            self._watch.lap("collect")
            self._sequence.check(message.number)
            for rows in message.pieces:
                self._learning.insert(rows)
            steps = tuple(self._updates(message.transitions))
            self._mail.put(self._answer(message, steps))

    def _updates(self, transitions: int) -> Iterator[LearningStep]:
        for _ in range(self._learning.n_due(transitions)):
            if self._station.is_stopping:
                return
            yield self._learning.update(transitions)

    def _answer(self, insert: Insert, steps: tuple[LearningStep, ...]) -> CaughtUp:
        learning, status = self._learning, None
        actor = learning.learner.actor_weights() if steps else None
        if insert.is_reported:
            state = learning.state(insert.transitions)
            status = Status(state, self._watch.seconds, learning.learner.parameters())
            self._watch.reset()
        return CaughtUp(insert.number, learning.n_updates, steps, actor, status)
