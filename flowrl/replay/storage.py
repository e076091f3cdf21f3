"""Rows of transitions in a ring: in memory, or in a file larger than it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from flowrl.config import ConfigError
from flowrl.state import State, StateError, prefixed, take, take_count, within
from flowrl.trajectory import Float32Array, IntArray

# Share of the free memory that a buffer may take.
_MEMORY_SHARE = 0.9


class ReplayError(ConfigError):
    """Report, in one line, why a replay buffer can't be made."""


@dataclass(frozen=True)
class Rows:
    """Some transitions, one a row, as learners take them."""

    observations: Float32Array  # (n, n_observations)
    actions: Float32Array  # (n, n_actions)
    rewards: Float32Array  # (n,) discounted sum over up to n_steps
    next_observations: Float32Array  # (n, n_observations) after those steps
    discounts: Float32Array  # (n,) factor of the value there, 0 where the task ended

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.rewards)


def row_bytes(n_observations: int, n_actions: int) -> int:
    """Count the bytes of one row with its generation: 4 (2 |s| + |a| + 2) + 8."""
    return 4 * (2 * n_observations + n_actions + 2) + 8


def zeros(n: int) -> Float32Array:
    """Allocate n zeros in memory."""
    return np.zeros(n, np.float32)


class RowStorage:
    """A ring of rows; a new row takes the place of the oldest.

    Each place counts how often it was written: its generation tells whether a row is still the
    one that was drawn.
    """

    def __init__(
        self,
        capacity: int,
        n_observations: int,
        n_actions: int,
        path: Path | None = None,
        allocate: Callable[[int], Float32Array] = zeros,
    ) -> None:
        """Allocate the ring, in a new file at `path` if given; raise ReplayError if it can't be."""
        self.capacity = capacity
        self._require_room(capacity * row_bytes(n_observations, n_actions), path)
        shapes = {
            "observations": (capacity, n_observations),
            "actions": (capacity, n_actions),
            "rewards": (capacity,),
            "next_observations": (capacity, n_observations),
            "discounts": (capacity,),
        }
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        block = allocate(sum(sizes)) if path is None else self._file(sum(sizes), path)
        pieces = np.split(block, np.cumsum(sizes)[:-1])
        self.rows = Rows(**{
            name: piece.reshape(shape)
            for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        })  # fmt: skip
        self.generations: IntArray = np.zeros(capacity, np.int64)
        self.next = 0  # place of the next row
        self.size = 0  # rows held

    @staticmethod
    def _file(n: int, path: Path) -> Float32Array:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return np.memmap(path, np.float32, "w+", shape=(n,))
        except OSError as error:
            raise ReplayError(f"--replay.file {path}: {error.strerror or error}") from error

    @staticmethod
    def _require_room(n_bytes: int, path: Path | None) -> None:
        available = free_memory() if path is None else _free_disk(path)
        if available is not None and n_bytes > _MEMORY_SHARE * available:
            where, way_out = (
                ("memory", "or keep the rows in a file: --replay.storage file --replay.file FILE")
                if path is None
                else ("disk", "or choose another --replay.file")
            )
            raise ReplayError(
                f"--replay.capacity needs {n_bytes / 2**30:.2f} GiB, and {available / 2**30:.2f} "
                f"GiB of {where} are free; lower it, {way_out}"
            )

    def state(self) -> State:
        """Return the rows held: views, which the next row changes."""
        held = {name: values[: self.size] for name, values in vars(self.rows).items()}
        return {
            "next": np.array(self.next),
            "capacity": np.array(self.capacity),
            "generations": self.generations[: self.size],
            **prefixed("rows", held),
        }

    def load_state(self, state: State) -> None:
        """Go on from what `state` returned; a ring that was not full yet may have grown."""
        generations = take(state, "generations", np.int64, (None,))
        size = len(generations)
        capacity = take_count(state, "capacity")
        place = take_count(state, "next", max(capacity - 1, 0))
        is_full = size == capacity
        if size > self.capacity or not (is_full or place == size):
            raise StateError(
                f"saved state's replay must have at most {self.capacity} rows, got {size} of "
                f"{capacity} and the next at {place}: it is of another --replay.capacity"
            )
        if is_full and place and capacity != self.capacity:
            raise StateError(
                f"saved state's replay must have {self.capacity} places, as it has begun again "
                f"from its first, got {capacity}: it is of another --replay.capacity"
            )
        rows = within("rows", state)
        for name, own in vars(self.rows).items():
            own[:size] = take(rows, name, np.float32, (size, *own.shape[1:]))
        self.generations[:size] = generations
        self.size, self.next = size, (place or size) % self.capacity

    def append(self, rows: Rows) -> tuple[int, int]:
        """Store rows, round the ring; return the first place and how many were kept."""
        n = len(rows)
        kept = min(n, self.capacity)
        start = (self.next + n - kept) % self.capacity
        head = min(kept, self.capacity - start)
        for item in fields(Rows):
            to, values = getattr(self.rows, item.name), getattr(rows, item.name)[n - kept :]
            to[start : start + head] = values[:head]
            to[: kept - head] = values[head:]
        self.generations[start : start + head] += 1
        self.generations[: kept - head] += 1
        self.next = (start + kept) % self.capacity
        self.size = min(self.size + kept, self.capacity)
        return start, kept


def free_memory() -> int | None:
    """Return the memory that can be had without swapping [bytes], None where it isn't told."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line for line in lines if line.startswith("MemAvailable:")]
    return int(found[0].split()[1]) * 1024 if found else None


def _free_disk(path: Path) -> int | None:
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:
        status = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return status.f_bavail * status.f_frsize
