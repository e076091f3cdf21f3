"""PEARL's setting 1: replay manager and learner in threads of their own; the host relays.

While the learner learns one batch, the replay manager stores what the actors send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from accel.interfaces import LearningStep
from flowrl.learning import Learning
from flowrl.networks import Weights
from flowrl.parallel.messages import (
    CaughtUp,
    Close,
    Closed,
    Draw,
    Drawn,
    InOrder,
    Insert,
    Learn,
    Learnt,
    Mail,
    Message,
    Publish,
    Settle,
    Status,
    Told,
)
from flowrl.parallel.threads import Station
from flowrl.replay import Rows
from flowrl.stopwatch import Stopwatch
from flowrl.trajectory import Float32Array, IntArray


class Relayed:
    """The host's side of both threads: which message follows which.

    While a batch is learnt the replay manager stores new rows ("strict"), and sets the priorities
    of the batch before ("relaxed"), and draws the batch after ("pipelined").
    """

    def __init__(
        self, learning: Learning, watch: Stopwatch, mail: Mail, iteration: str = "strict"
    ) -> None:
        """Prepare the threads; `watch` is that of `learning`."""
        self._learning, self._watch, self._mail = learning, watch, mail
        self._is_relaxed, self._is_pipelined = iteration == "relaxed", iteration == "pipelined"
        self._idle = Stopwatch()
        self._manager, self._learner = _Manager(learning, watch, mail), _Learner(learning, mail)
        self._collections: deque[Insert] = deque()  # whose updates have not all been made
        self._n_updates = self._n_asked = 0  # updates made, batches asked for
        self._is_busy = False  # one batch is on its way, or answers about a collection are
        self._awaits_batch = False
        self._ready: Drawn | None = None  # drawn, not yet learnt
        self._learns: Drawn | None = None
        self._unsettled: Settle | None = None
        self._steps: list[LearningStep] = []
        self._told: Told | None = None
        self._closed: Closed | None = None
        self._drawn, self._learnt = InOrder("batch", 1), InOrder("update", 1)

    def start(self) -> None:
        """Begin to learn."""
        self._watch.reset()
        self._idle.reset()
        self._manager.station.start()
        self._learner.station.start()

    def close(self) -> None:
        """End both threads."""
        self._manager.station.close()
        self._learner.station.close()

    def give(self, insert: Insert) -> None:
        """Hand the next collection over."""
        self._manager.station.put(insert)
        self._collections.append(insert)
        if self._is_busy:
            self._ask_ahead()
        else:
            # Whoever waits for transitions waits for those who act.
            self._idle.lap("collect")
            self._go_on()

    def handle(self, message: Message) -> CaughtUp | None:
        """Relay a message from one of the threads; return what it means for the host."""
        if isinstance(message, Drawn):
            self._take_batch(message)
        elif isinstance(message, Learnt):
            self._take_errors(message)
        elif isinstance(message, Told):
            self._told = message
        elif isinstance(message, Closed):
            self._closed = message
        if self._told is not None and self._closed is not None:
            self._complete(self._told, self._closed)
        return message if isinstance(message, CaughtUp) else None

    def _go_on(self) -> None:
        """See to the next batch, or to what is to be said of a collection without any left."""
        collection = self._collections[0]
        number, is_reported = collection.number, collection.is_reported
        self._is_busy = True
        if self._n_updates < self._learning.governor.allowed(collection.transitions):
            self._awaits_batch = True
            if self._n_asked == self._n_updates:
                self._ask(collection)
            self._learn()
        elif self._steps or is_reported:
            if is_reported:
                self._settle()
            self._manager.station.put(Close(number, collection.transitions, is_reported))
            self._learner.station.put(Publish(number, is_reported))
        else:
            self._finish(None, None)

    def _ask(self, collection: Insert) -> None:
        self._n_asked += 1
        self._manager.station.put(Draw(self._n_asked, collection.transitions))

    def _ask_ahead(self) -> None:
        """Ask for the batch after the one that is learnt, if some collection allows it."""
        if not self._is_pipelined or self._learns is None or self._n_asked > self._n_updates + 1:
            return
        for collection in self._collections:
            if self._n_asked < self._learning.governor.allowed(collection.transitions):
                self._ask(collection)
                return

    def _take_batch(self, drawn: Drawn) -> None:
        self._drawn.check(drawn.number)
        self._ready = drawn
        self._learn()

    def _learn(self) -> None:
        """Hand the drawn batch to the learner, when both are ready."""
        if self._ready is None or not self._awaits_batch:
            return
        drawn, self._ready, self._awaits_batch = self._ready, None, False
        sample = drawn.sample
        self._learner.station.put(
            Learn(drawn.number, drawn.batch, sample.weights, sample.actor_observations)
        )
        self._learns = drawn
        self._settle()
        self._ask_ahead()

    def _take_errors(self, learnt: Learnt) -> None:
        self._learnt.check(learnt.number)
        learns, self._learns = self._learns, None
        if learns is not None:
            self._unsettled = Settle(learnt.number, learns.sample, learnt.step)
        if not self._is_relaxed:
            self._settle()
        self._n_updates = learnt.number
        self._steps.append(learnt.step)
        self._go_on()

    def _settle(self) -> None:
        """Have the priorities set of the batch that was learnt last."""
        if self._unsettled is not None:
            self._manager.station.put(self._unsettled)
            self._unsettled = None

    def _complete(self, told: Told, closed: Closed) -> None:
        """Put together what both threads say of a collection."""
        for answer in (told, closed):
            InOrder("collection", self._collections[0].number).check(answer.number)
        status = None
        if told.parameters is not None:
            seconds = {**closed.seconds, **told.seconds}
            seconds["collect"] = self._idle.seconds.get("collect", 0.0)
            status = Status(closed.state, seconds, told.parameters)
            self._idle.reset()
        self._told = self._closed = None
        self._finish(told.actor if self._steps else None, status)

    def _finish(self, actor: Weights | None, status: Status | None) -> None:
        """Say that a collection's updates are made, and go on with the next."""
        number, steps = self._collections.popleft().number, tuple(self._steps)
        self._mail.put(CaughtUp(number, self._n_updates, steps, actor, status))
        self._steps, self._is_busy = [], False
        self._idle.lap("busy")
        if self._collections:
            self._go_on()


class _Manager:
    """The replay manager's thread: the only one that reads or writes the stored rows."""

    def __init__(self, learning: Learning, watch: Stopwatch, mail: Mail) -> None:
        self._learning, self._watch, self._mail = learning, watch, mail
        self.station = Station("flowrl replay manager", mail, self._take)
        self._collections = InOrder("collection", 0)
        # Two, as one may be learnt while the next is drawn.
        self._batches: list[Rows] = []

    def _take(self, message: Message) -> None:
        self._watch.lap("idle")
        learning = self._learning
        if isinstance(message, Insert):
            self._collections.check(message.number)
            for rows in message.pieces:
                learning.insert(rows)
        elif isinstance(message, Draw):
            sample = learning.draw(message.transitions)
            batch = self._gather(message.number, sample.indices)
            self._watch.lap("sample")
            self._mail.put(Drawn(message.number, sample, batch))
        elif isinstance(message, Settle):
            learning.settle(message.sample, message.step)
        elif isinstance(message, Close):
            seconds = self._watch.seconds
            self._mail.put(Closed(message.number, learning.state(message.transitions), seconds))
            if message.is_reported:
                self._watch.reset()

    def _gather(self, number: int, indices: IntArray) -> Rows:
        """Copy rows: their places may be written while they are learnt."""
        stored = vars(self._learning.storage.rows)
        if not self._batches:
            self._batches = [_empty_rows(stored, len(indices)) for _ in range(2)]
        batch = self._batches[number % 2]
        for name, values in vars(batch).items():
            # Any mode but "clip" would copy once more; no index is outside.
            np.take(stored[name], indices, axis=0, out=values, mode="clip")
        return batch


def _empty_rows(stored: Mapping[str, Float32Array], n: int) -> Rows:
    like = {name: (n, *values.shape[1:]) for name, values in stored.items()}
    return Rows(**{name: np.empty(shape, np.float32) for name, shape in like.items()})


class _Learner:
    """The learner's thread."""

    def __init__(self, learning: Learning, mail: Mail) -> None:
        self._learner, self._mail = learning.learner, mail
        self._watch = Stopwatch()
        self.station = Station("flowrl learner", mail, self._take)

    def _take(self, message: Message) -> None:
        if isinstance(message, Learn):
            self._watch.lap("idle")
            rows = np.arange(len(message.weights))
            step = self._learner.learn(
                message.batch, rows, message.weights, message.actor_observations
            )
            self._watch.lap("learn")
            self._mail.put(Learnt(message.number, step))
        elif isinstance(message, Publish):
            self._mail.put(self._tell(message))

    def _tell(self, message: Publish) -> Told:
        actor, seconds = self._learner.actor_weights(), {}
        parameters = self._learner.parameters() if message.is_reported else None
        if message.is_reported:
            seconds = {"learn": self._watch.seconds.get("learn", 0.0)}
            self._watch.reset()
        return Told(message.number, actor, parameters, seconds)
