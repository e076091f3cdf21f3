"""Actors as MPI ranks: parcels and permits are non-blocking messages of contiguous bytes.

Root is the host; worker w is rank w + 1. A permit is a few whole numbers; where it announces a
policy that the actor has not got, the policy follows it.
"""

from __future__ import annotations

import select
from collections import deque

import numpy as np

from flowrl.acting import Observation
from flowrl.comm import Bytes, Communicator, Transfer
from flowrl.networks import Weights
from flowrl.parallel.actor import Team
from flowrl.parallel.parcels import Parcel, ring
from flowrl.parallel.policies import PolicySlots, Published
from flowrl.parallel.transport import Arrival
from flowrl.policies import PolicyArrays

# Shortest and longest sleep between two looks for messages [s].
_SHORTEST, _LONGEST = 2e-5, 5e-4


def _permit(n_collections: int, version: int, brings_policy: bool) -> Bytes:
    return np.array([n_collections, version, brings_policy], np.int64).view(np.uint8)


def _one_slot(policy: PolicyArrays) -> PolicySlots:
    """Allocate room for one version of a policy."""
    sizes = len(policy.weights), len(policy.observation_mean)
    return PolicySlots(*sizes, 1, np.zeros(PolicySlots.slot_bytes(*sizes), np.uint8))


class RankLink:
    """An actor rank's way to root."""

    def __init__(self, comm: Communicator, team: Team, policy: PolicyArrays, newest: bool) -> None:
        """Talk to root; `newest` passes over policies that a newer one has replaced."""
        self._comm, self._newest = comm, newest
        layout = team.layout(comm.rank - 1)
        block = np.zeros(team.n_slots * layout.n_bytes, np.uint8)
        self._parcels = ring(layout, team.n_slots, block)
        self._sent: list[Transfer | None] = [None] * team.n_slots
        self._slot = _one_slot(policy)
        self._permitted, self._version = team.n_slots, 0

    def await_permit(self, number: int) -> Published | None:
        """Wait until collection `number` may begin; return the policy, if it is another one."""
        before = self._version
        while self._permitted <= number:
            self._receive()
        while self._newest and self._comm.has_message(0):
            self._receive()
        return self._slot.read(self._version) if self._version != before else None

    def _receive(self) -> None:
        permit = np.empty(3, np.int64)
        self._comm.start_receive(permit.view(np.uint8), 0).wait()
        self._permitted, self._version = int(permit[0]), int(permit[1])
        if permit[2]:
            self._comm.start_receive(self._slot.slot(self._version), 0).wait()

    def parcel(self, number: int) -> Parcel:
        """Return the parcel to be filled with collection `number`."""
        slot = number % len(self._parcels)
        self._await_slot(slot)
        return self._parcels[slot]

    def _await_slot(self, slot: int) -> None:
        transfer = self._sent[slot]
        if transfer is not None:  # done already: the permit says that it has been learnt from
            transfer.wait()
            self._sent[slot] = None

    def send(self, number: int) -> None:
        """Hand the filled parcel over."""
        slot = number % len(self._parcels)
        self._sent[slot] = self._comm.start_send(self._parcels[slot].block, 0)

    def finish(self) -> None:
        """Wait until all parcels have left."""
        for slot in range(len(self._sent)):
            self._await_slot(slot)


class RankActors:
    """Root's side of the actor ranks."""

    def __init__(self, comm: Communicator, team: Team, policy: PolicyArrays) -> None:
        """Prepare for actors that act by policies like this one."""
        self._comm, self._team, self._like = comm, team, policy
        self._version = self._announced = 0
        self._sending: deque[tuple[Transfer, Bytes]] = deque()
        self._receiving: dict[int, Transfer] = {}  # by worker
        self._n_received = [0] * team.n_workers
        self._parcels: list[list[Parcel]] = []
        self._slot = _one_slot(policy)

    def start(self) -> None:
        """Make room for the parcels; actor ranks begin by themselves."""
        for worker in range(self._team.n_workers):
            layout = self._team.layout(worker)
            block = np.zeros(self._team.n_slots * layout.n_bytes, np.uint8)
            self._parcels.append(ring(layout, self._team.n_slots, block))

    def _listen(self, worker: int) -> None:
        """Begin to receive a worker's next parcel.

        Its slot may still be in use: the worker sends only once the slot's parcel has been learnt
        from.
        """
        number = self._n_received[worker]
        if number < self._team.n_collections:
            block = self._parcels[worker][number % self._team.n_slots].block
            self._receiving[worker] = self._comm.start_receive(block, worker + 1)

    def publish(
        self, n_updates: int, weights: Weights, mean: Observation, scale: Observation
    ) -> None:
        """Make a policy the newest one; the next permit announces it."""
        self._version += 1
        self._slot = _one_slot(self._like)  # older versions may be on their way
        self._slot.write(self._version, n_updates, weights, mean, scale)

    def permit(self, n_collections: int) -> None:
        """Let all workers make so many collections, counted since the start of the run."""
        if n_collections > self._team.n_collections:
            return  # nobody listens any more
        brings_policy = self._version != self._announced
        self._announced = self._version
        permit = _permit(n_collections, self._version, brings_policy)
        for worker in range(self._team.n_workers):
            self._send(permit, worker)
            if brings_policy:
                self._send(self._slot.slot(self._version), worker)
        while self._sending and self._sending[0][0].is_done():
            self._sending.popleft()

    def _send(self, block: Bytes, worker: int) -> None:
        # The block is kept until it has left.
        self._sending.append((self._comm.start_send(block, worker + 1), block))

    def wait(self, mail: int, timeout: float) -> list[Arrival]:
        """Wait for parcels, until the file `mail` can be read or for so long [s]."""
        if not any(self._n_received) and not self._receiving:
            for worker in range(self._team.n_workers):
                self._listen(worker)
        pause, waited = _SHORTEST, 0.0
        while not (parcels := self._arrived()) and waited < timeout:
            if select.select([mail], [], [], pause)[0]:
                break
            waited, pause = waited + pause, min(pause + _SHORTEST, _LONGEST)
        return parcels

    def _arrived(self) -> list[Arrival]:
        parcels = []
        for worker, transfer in list(self._receiving.items()):
            if transfer.is_done():
                del self._receiving[worker]
                slot = self._n_received[worker] % self._team.n_slots
                parcels.append((worker, self._parcels[worker][slot]))
                self._n_received[worker] += 1
                self._listen(worker)
        return parcels

    def close(self) -> None:
        """See that all messages of a complete run have left; what else there is ends by abort."""
        if not self._receiving:
            for transfer, _ in self._sending:
                transfer.wait()
