"""The policy on its way from the learner to the actors.

A slot is a few whole numbers, then the actor's weights, then the mean and the scale of the
observations. Version v lies in slot v modulo the number of slots. No lock is needed, since no slot
is written that may be read: while an actor makes collection k, no later one than k - 1 has been
learnt from, and what the actor reads was published after collection k - lag - 1 at the earliest.
These are lag + 1 successive versions at most; there are `n_slots(lag)` slots. A process that is
killed while it reads leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flowrl.acting import Observation
from flowrl.networks import Weights
from flowrl.trajectory import Float32Array

Bytes = npt.NDArray[np.uint8]

_HEADER = 16  # version and number of updates [bytes]


class PolicyFault(RuntimeError):
    """A policy was overwritten before it was read: the protocol is broken."""


@dataclass(frozen=True)
class Published:
    """A policy, and how far the learner had come."""

    version: int  # from 1, one more with each publication
    n_updates: int
    weights: Weights
    mean: Float32Array  # (n_observations,)
    scale: Float32Array  # (n_observations,) 1 / standard deviation


def n_slots(lag: int) -> int:
    """Count the slots that keep every version until it can't be read any more, and one more."""
    return lag + 2


class PolicySlots:
    """Some versions of a policy in one block of bytes."""

    def __init__(self, n_weights: int, n_observations: int, n: int, block: Bytes) -> None:
        """Lay n slots over a block of `n_bytes`."""
        self._n_weights, self._n_observations = n_weights, n_observations
        size = self.slot_bytes(n_weights, n_observations)
        self.slots = [block[i * size : (i + 1) * size] for i in range(n)]

    @staticmethod
    def slot_bytes(n_weights: int, n_observations: int) -> int:
        """Count the bytes of one slot: whole cache lines."""
        n_bytes = _HEADER + 4 * (n_weights + 2 * n_observations)
        return -(-n_bytes // 64) * 64

    def slot(self, version: int) -> Bytes:
        """Return the bytes of a version."""
        return self.slots[version % len(self.slots)]

    def write(
        self, version: int, n_updates: int, weights: Weights, mean: Observation, scale: Observation
    ) -> None:
        """Publish a version."""
        slot = self.slot(version)
        numbers, values = slot[:_HEADER].view(np.int64), self._values(slot)
        n = self._n_weights
        numbers[0] = 0  # no version, so that a reader who should not be here notices
        values[:n] = weights
        values[n : n + self._n_observations] = mean
        values[n + self._n_observations :] = scale
        numbers[:] = version, n_updates

    def read(self, version: int) -> Published:
        """Return a copy of a version; raise PolicyFault where its slot holds another."""
        slot = self.slot(version)
        numbers = slot[:_HEADER].view(np.int64)
        before = int(numbers[0])
        values, n_updates = self._values(slot).copy(), int(numbers[1])
        if before != version or int(numbers[0]) != version:
            raise PolicyFault(
                f"policy {version} was asked for, and its slot held {before}, then {numbers[0]}"
            )
        parts = np.split(values, [self._n_weights, self._n_weights + self._n_observations])
        return Published(version, n_updates, *parts)

    def _values(self, slot: Bytes) -> Float32Array:
        n_values = self._n_weights + 2 * self._n_observations
        return slot[_HEADER : _HEADER + 4 * n_values].view(np.float32)
