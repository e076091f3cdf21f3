"""Actors as local processes: shared memory, one connection each, and replacements for the dead."""

from __future__ import annotations

import contextlib
import multiprocessing
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from flowrl.acting import Observation
from flowrl.config import RunConfig
from flowrl.networks import Weights
from flowrl.parallel.actor import Team
from flowrl.parallel.parcels import Parcel, ring
from flowrl.parallel.policies import PolicySlots, n_slots
from flowrl.parallel.transport import Arrival
from flowrl.parallel.worker import (
    FAILED,
    READY,
    Assignment,
    bytes_of,
    main,
    parcel_number,
    permit_message,
)
from flowrl.policies import PolicyArrays
from flowrl.trainer import TrainingError

_PATIENCE = 5.0  # time for a process to end that has nothing left to do [s]


@dataclass
class _Worker:
    """One process and what is known of it."""

    number: int
    memory: Any  # of its parcels
    parcels: list[Parcel]
    process: SpawnProcess = field(init=False)
    connection: Connection = field(init=False)
    life: int = -1  # replacements so far
    n_sent: int = 0  # parcels, in all lives
    is_ready: bool = False
    last_words: str = ""


class LocalActors:
    """The host's side of local workers.

    The shared memory has no name: it goes when its last process does, however that one ends.
    """

    def __init__(self, config: RunConfig, team: Team, policy: PolicyArrays) -> None:
        """Prepare workers that act by policies like this one; `start` starts them."""
        self._config, self._team = config, team
        self._n_weights, self._n_observations = len(policy.weights), len(policy.observation_mean)
        self._context = multiprocessing.get_context("spawn")
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._early: list[Arrival] = []  # that came before everybody was ready
        self._permitted = team.n_slots
        self._version = self._n_replaced = 0

    def start(self) -> None:
        """Start all workers and wait until they can act."""
        try:
            self._allocate()
            for worker in self._workers:
                self._begin(worker)
            while not all(worker.is_ready for worker in self._workers):
                self._early += self._arrivals(1.0)
        except BaseException:
            self.close()
            raise

    def _allocate(self) -> None:
        """Make the memory that all processes share."""
        sizes, n = (self._n_weights, self._n_observations), n_slots(self._config.parallel.lag)
        self._policies_memory = self._context.RawArray("B", n * PolicySlots.slot_bytes(*sizes))
        self._policies = PolicySlots(*sizes, n, bytes_of(self._policies_memory))
        for number in range(self._team.n_workers):
            layout = self._team.layout(number)
            memory = self._context.RawArray("B", self._team.n_slots * layout.n_bytes)
            parcels = ring(layout, self._team.n_slots, bytes_of(memory))
            self._workers.append(_Worker(number, memory, parcels))

    def _begin(self, worker: _Worker) -> None:
        """Start the next life of a worker, with the first collection that it has not sent."""
        worker.life, worker.is_ready = worker.life + 1, False
        here, there = self._context.Pipe()
        assignment = Assignment(
            self._config, worker.number, self._team.n_workers, worker.life, worker.n_sent
        )
        worker.connection = here
        worker.process = self._context.Process(
            target=main,
            args=(assignment, there, worker.memory, self._policies_memory),
            name=f"flowrl worker {worker.number}",
            daemon=True,
        )
        with _interrupts_ignored():
            worker.process.start()
        there.close()  # so that the worker's end of the connection ends with the worker
        for source in (here.fileno(), worker.process.sentinel):
            self._selector.register(source, selectors.EVENT_READ, worker)
        here.send_bytes(permit_message(self._permitted, self._version))

    def publish(
        self, n_updates: int, weights: Weights, mean: Observation, scale: Observation
    ) -> None:
        """Make a policy the newest one; the next permit announces it."""
        self._version += 1
        self._policies.write(self._version, n_updates, weights, mean, scale)

    def permit(self, n_collections: int) -> None:
        """Let all workers make so many collections, counted since the start of the run."""
        self._permitted = n_collections
        message = permit_message(n_collections, self._version)
        for worker in self._workers:
            with contextlib.suppress(OSError):  # a worker that is gone is seen to in `wait`
                worker.connection.send_bytes(message)

    def wait(self, mail: int, timeout: float) -> list[Arrival]:
        """Wait for parcels, until the file `mail` can be read or for so long [s]."""
        if self._early:
            early, self._early = self._early, []
            return early
        if mail not in self._selector.get_map():
            self._selector.register(mail, selectors.EVENT_READ, None)
        return self._arrivals(timeout)

    def _arrivals(self, timeout: float) -> list[Arrival]:
        ready = self._selector.select(timeout)
        can_read = {key.data.number for key, _ in ready if _is_connection(key)}
        parcels = []
        for number in {key.data.number for key, _ in ready if key.data is not None}:
            parcel = self._attend(self._workers[number], number in can_read)
            parcels += [(number, parcel)] if parcel is not None else []
        return parcels

    def _attend(self, worker: _Worker, can_read: bool) -> Parcel | None:
        """Take one message of a worker, or see to its end where there are no more."""
        if can_read:
            try:
                return self._take(worker, worker.connection.recv_bytes())
            except (EOFError, OSError):  # no more of them
                pass
        self._see_off(worker)
        return None

    def _take(self, worker: _Worker, message: bytes) -> Parcel | None:
        kind = message[:1]
        if kind == READY:
            worker.is_ready = True
        elif kind == FAILED:
            worker.last_words = message[1:].decode()
        else:
            number = parcel_number(message)
            parcel = worker.parcels[number % len(worker.parcels)]
            worker.n_sent += 1
            return parcel
        return None

    def _see_off(self, worker: _Worker) -> None:
        """Take leave of a worker that has ended; put another in its place if it was too early."""
        for source in (worker.connection.fileno(), worker.process.sentinel):
            self._selector.unregister(source)
        worker.connection.close()
        _end(worker.process, _PATIENCE)
        if worker.n_sent == self._team.n_collections:
            return
        self._report(worker)
        self._n_replaced += 1
        self._begin(worker)

    def _report(self, worker: _Worker) -> None:
        """Say how a worker ended; raise TrainingError where none may be replaced any more."""
        first, stop = self._team.envs(worker.number)
        cause = _cause(worker)
        what = f"worker {worker.number} (environments {first} to {stop - 1}) {cause}"
        most = self._config.parallel.max_replacements
        is_last = self._n_replaced >= most
        outcome = "" if is_last else f"; replaced ({self._n_replaced + 1} of at most {most})"
        with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody may listen
            sys.stderr.write(f"{worker.last_words}flowrl: {what}{outcome}\n")
            sys.stderr.flush()
        if is_last:
            raise TrainingError(f"{what}, and --parallel.max-replacements {most} is reached")
        worker.last_words = ""

    def close(self) -> None:
        """End all workers."""
        self._workers = [worker for worker in self._workers if worker.life >= 0]
        for worker in self._workers:
            worker.connection.close()
        end = time.monotonic() + _PATIENCE
        for worker in self._workers:
            # One that has sent everything needs a moment to close its environments.
            is_done = worker.n_sent == self._team.n_collections
            _end(worker.process, max(end - time.monotonic(), 0.0) if is_done else 0.0)
        self._workers = []
        self._selector.close()


def _is_connection(key: selectors.SelectorKey) -> bool:
    return key.data is not None and key.fd == key.data.connection.fileno()


def _end(process: SpawnProcess, patience: float) -> None:
    """End a process: by itself within some time [s], or else at once."""
    process.join(patience)
    if process.exitcode is None:
        process.terminate()
        process.join(_PATIENCE)
    if process.exitcode is None:
        process.kill()
        process.join()


def _cause(worker: _Worker) -> str:
    code = worker.process.exitcode
    if worker.last_words:
        return "ended by an exception"
    if code is not None and code < 0:
        known = {int(each): each.name for each in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"
    return f"left with exit code {code} before its work was done"


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C from their first moment."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # Only the main thread may; elsewhere a worker ignores it once it runs.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
