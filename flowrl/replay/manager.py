"""The replay manager: which rows are learnt, and with which weight (Schaul et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.backends import load
from accel.interfaces import SumTree
from flowrl.config import ReplayConfig
from flowrl.replay.storage import Rows, RowStorage
from flowrl.state import State, StateError, prefixed, take, take_count, within
from flowrl.trajectory import Float32Array, IntArray


@dataclass(frozen=True)
class Sample:
    """Rows drawn for one update."""

    indices: IntArray  # (n,) places in the storage
    weights: Float32Array  # (n,) importance weights
    generations: IntArray  # (n,) of the places when they were drawn
    number: int  # of this sample, from 1: messages about it carry it
    actor_observations: Float32Array | None = None  # (n, n_observations) where others than those


class ReplayManager:
    """Draws rows of a storage uniformly, or in proportion to priorities (|td error| + offset)^a."""

    def __init__(
        self, config: ReplayConfig, storage: RowStorage, backend: str = "cpu", device: str = ""
    ) -> None:
        """Manage a storage; the sum tree is that of a backend of `accel`, on one of its devices."""
        self.storage = storage
        self._config = config
        self._n_samples = 0
        self.n_dropped = 0  # priorities that came too late
        self._tree: SumTree | None = None
        if config.priorities == "prioritized":
            self._tree = load(backend).SumTree(storage.capacity, config.fanout, device=device)

    @property
    def is_prioritized(self) -> bool:
        """Tell whether rows have priorities."""
        return self._tree is not None

    def state(self, with_rows: bool) -> State:
        """Return counters and, where asked, rows and priorities; rows are views."""
        state = {"n_samples": np.array(self._n_samples), "n_dropped": np.array(self.n_dropped)}
        if with_rows:
            state |= prefixed("storage", self.storage.state())
            if self._tree is not None:
                state["priorities"] = self._tree.priorities()[: self.storage.size]
                state["largest"] = np.array(self._tree.largest())
        return state

    def load_state(self, state: State) -> bool:
        """Go on from what `state` returned; tell whether it holds rows."""
        self._n_samples = take_count(state, "n_samples")
        self.n_dropped = take_count(state, "n_dropped")
        storage = within("storage", state)
        if not storage:
            return False
        self.storage.load_state(storage)
        if self._tree is not None:
            priorities = np.zeros(self.storage.capacity)
            size = self.storage.size
            priorities[:size] = take(state, "priorities", np.float64, (size,))
            largest = float(take(state, "largest", np.float64, ()))
            try:
                self._tree.load(priorities, largest)
            except ValueError as error:
                raise StateError(f"saved state's priorities: {error}") from error
        return True

    def insert(self, rows: Rows) -> None:
        """Store rows; each gets the largest priority so far, so that it is learnt soon."""
        start, n = self.storage.append(rows)
        if self._tree is not None and n:
            self._tree.insert(start, n)

    def sample(self, rng: np.random.Generator, n: int, beta: float) -> Sample:
        """Draw n rows; beta is the exponent of the importance weights."""
        self._n_samples += 1
        if self._tree is None:
            indices = rng.integers(0, self.storage.size, n)
            weights = np.ones(n, np.float32)
        else:
            indices, weights = self._tree.sample_stratified(rng.random(n), beta)
        of_actor = None
        if self._tree is not None and self._config.actor_batches == "uniform":
            of_actor = self.storage.rows.observations[rng.integers(0, self.storage.size, n)]
        generations = self.storage.generations[indices]
        return Sample(indices, weights, generations, self._n_samples, of_actor)

    def update_priorities(self, sample: Sample, td_errors: Float32Array) -> None:
        """Set the priorities of learnt rows; those overwritten meanwhile are dropped."""
        if self._tree is None:
            return
        is_same = self.storage.generations[sample.indices] == sample.generations
        indices = sample.indices
        if not is_same.all():
            self.n_dropped += int(np.count_nonzero(~is_same))
            indices, td_errors = indices[is_same], td_errors[is_same]
        config = self._config
        self._tree.set_td_errors(
            indices, td_errors, config.priority_exponent, config.priority_offset
        )
