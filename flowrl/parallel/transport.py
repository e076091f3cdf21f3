"""What the host asks of those who act, wherever they run: the queue from the actors (DCQ)."""

from __future__ import annotations

from typing import Protocol

from flowrl.acting import Observation
from flowrl.networks import Weights
from flowrl.parallel.parcels import Header, Parcel
from flowrl.trainer import TrainingError

Arrival = tuple[int, Parcel]  # the worker that sent a parcel, and the parcel


class Transport(Protocol):
    """The host's side of all workers."""

    def start(self) -> None:
        """Begin to act, up to the lag; ConfigError where the environments can't be made."""

    def publish(
        self, n_updates: int, weights: Weights, mean: Observation, scale: Observation
    ) -> None:
        """Make a policy the newest one; the next permit announces it."""

    def permit(self, n_collections: int) -> None:
        """Let all workers make so many collections, counted since the start of the run."""

    def wait(self, mail: int, timeout: float) -> list[Arrival]:
        """Wait for parcels, until the file `mail` can be read or for so long [s].

        A parcel stays as it is until its collection number plus the slots is permitted.
        """

    def close(self) -> None:
        """End whoever acts, and give all memory back."""


def check_sequence(header: Header, worker: int, number: int) -> None:
    """Raise TrainingError unless a parcel is the one that is due."""
    if (header.worker, header.number) != (worker, number):
        raise TrainingError(
            f"worker {worker} must send collection {number} next, got collection {header.number} "
            f"of worker {header.worker}: messages were lost or mixed up"
        )
