"""An actor as a local process: `main` is its whole life.

It talks to the host over one connection; parcels and policies lie in shared memory. The system
calls of the connection order the memory: what was written before a message is seen after it.
"""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import multiprocessing
import os
import select
import signal
import struct
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import EnvironmentFault
from flowrl.parallel.actor import Actor, Setup
from flowrl.parallel.parcels import Bytes, Parcel, ring
from flowrl.parallel.policies import PolicySlots, Published, n_slots

# Kinds of messages from a worker: the first byte.
READY, PARCEL, FAILED = b"R", b"P", b"E"
_PARCEL = struct.Struct("<cq")  # kind, number of the collection
_PERMIT = struct.Struct("<qq")  # collections that may be made, version of the policy
_LONGEST_TEXT = 20_000  # of a traceback [bytes]


def permit_message(n_collections: int, version: int) -> bytes:
    """Return a host's message to a worker."""
    return _PERMIT.pack(n_collections, version)


def parcel_message(number: int) -> bytes:
    """Return a worker's message that a parcel is complete."""
    return _PARCEL.pack(PARCEL, number)


def parcel_number(message: bytes) -> int:
    """Return the number in a worker's message that a parcel is complete."""
    return int(_PARCEL.unpack(message)[1])


def bytes_of(memory: Any) -> Bytes:
    """Return the bytes of an array shared between processes."""
    return np.frombuffer(memory, np.uint8)


@dataclass(frozen=True)
class Assignment:
    """What a worker is told when it is started."""

    config: RunConfig
    worker: int
    n_workers: int
    life: int
    first: int  # collection to begin with


class HostGone(Exception):
    """The host does not listen any more: the run has ended, or the host has."""


class WorkerLink:
    """A worker's connection to the host."""

    def __init__(
        self, connection: Connection, parcels: list[Parcel], policies: PolicySlots, newest: bool
    ) -> None:
        """Listen on a connection; `newest` passes over policies that a newer one has replaced."""
        self._connection, self._parcels, self._policies = connection, parcels, policies
        self._newest = newest
        self._permitted = self._version = 0

    def await_permit(self, number: int) -> Published | None:
        """Wait until collection `number` may begin; return the policy, if it is another one."""
        before = self._version
        while self._permitted <= number:
            self._receive()
        while self._newest and select.select([self._connection], [], [], 0)[0]:
            self._receive()
        return self._policies.read(self._version) if self._version != before else None

    def _receive(self) -> None:
        try:
            message = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise HostGone from error
        self._permitted, self._version = _PERMIT.unpack(message)

    def parcel(self, number: int) -> Parcel:
        """Return the parcel to be filled with collection `number`."""
        return self._parcels[number % len(self._parcels)]

    def send(self, number: int) -> None:
        """Tell the host that a parcel is complete."""
        self.say(parcel_message(number))

    def say(self, message: bytes) -> None:
        """Send a message; raise HostGone where nobody listens."""
        try:
            self._connection.send_bytes(message)
        except OSError as error:
            raise HostGone from error


def main(
    assignment: Assignment, connection: Connection, parcels_memory: Any, policies_memory: Any
) -> None:
    """Act until all collections are made or the host is gone."""
    # Ctrl-C reaches every process of the terminal: the host alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_the_host, daemon=True).start()
    try:
        _act(assignment, connection, bytes_of(parcels_memory), bytes_of(policies_memory))
    except HostGone:
        return
    except BaseException as error:
        is_known = isinstance(error, ConfigError | EnvironmentFault)
        text = f"{error}\n" if is_known else "".join(traceback.format_exception(error))
        _report(connection, text)
        raise SystemExit(1) from None


def _act(assignment: Assignment, connection: Connection, parcels: Bytes, policies: Bytes) -> None:
    config = assignment.config
    actor = Actor(Setup(config, assignment.n_workers), assignment.worker, assignment.life)
    try:
        actor.acting.collector.compile()
        link = _link(actor, assignment, connection, parcels, policies)
        link.say(READY)
        actor.run(link, assignment.first)
    finally:
        actor.acting.close()


def _link(
    actor: Actor, assignment: Assignment, connection: Connection, parcels: Bytes, policies: Bytes
) -> WorkerLink:
    team, policy = actor.team, actor.policy
    slots = PolicySlots(
        len(policy.weights),
        len(policy.observation_mean),
        n_slots(assignment.config.parallel.lag),
        policies,
    )
    return WorkerLink(
        connection,
        ring(team.layout(assignment.worker), team.n_slots, parcels),
        slots,
        assignment.config.parallel.policy == "newest",
    )


def _report(connection: Connection, text: str) -> None:
    """Tell the host why this worker ends; the end of a long text says most."""
    try:
        connection.send_bytes(FAILED + text.encode(errors="replace")[-_LONGEST_TEXT:])
    except OSError:  # The host has gone meanwhile.
        return


def _leave_with_the_host() -> None:
    """End this process as soon as the host's has ended, whatever it is doing."""
    host = multiprocessing.parent_process()
    if host is not None:
        wait([host.sentinel])
        os._exit(1)
