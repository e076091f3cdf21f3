"""The test stand of profiler and check: a full buffer, and a learning side that has begun."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.hardware import Device
from flowrl.learning import Learning
from flowrl.parallel.messages import Insert
from flowrl.placed import Placed, Primitives
from flowrl.replay import ReplayManager, Sample
from flowrl.stopwatch import Stopwatch
from flowrl.trajectory import Float32Array, Float64Array

_BLOCK = 8192  # rows by which a buffer is filled
_ENDLESS = 10**12  # transitions of a run: its schedules stay where they begin


class Recorder(Stopwatch):
    """A stopwatch that keeps every lap apart."""

    def __init__(self) -> None:
        """Begin without laps."""
        super().__init__()
        self._laps: dict[str, list[float]] = {}
        self._start = time.perf_counter()

    def lap(self, name: str) -> None:
        """Note the time since the last lap under a name [s]."""
        now = time.perf_counter()
        self._laps.setdefault(name, []).append(now - self._start)
        self._start = now

    def reset(self) -> None:
        """Forget all laps."""
        self._laps, self._start = {}, time.perf_counter()

    def latest(self, name: str, n: int, each: int = 1) -> Float64Array:
        """Return the latest n sums of `each` laps of a name; fewer where there are fewer [s]."""
        laps = np.array(self._laps.get(name, ()))
        n = min(n, len(laps) // each)
        sums: Float64Array = laps[len(laps) - n * each :].reshape(n, each).sum(axis=1)
        return sums


def filled_manager(accelerators: Accelerators, device: Device) -> ReplayManager:
    """Return a replay manager on a device, its buffer full, with priorities as errors are."""
    storage = accelerators.make_storage()
    manager = accelerators.make_replay_manager(device, storage)
    rng = np.random.default_rng(0)
    block = accelerators.synthetic_rows(min(_BLOCK, storage.capacity), rng)
    while storage.size < storage.capacity:
        manager.insert(block)
    for begin in range(0, storage.capacity, _BLOCK):
        places = np.arange(begin, min(begin + _BLOCK, storage.capacity))
        sample = Sample(places, np.ones(len(places), np.float32), storage.generations[places], 0)
        manager.update_priorities(sample, td_errors(len(places), rng))
    return manager


def td_errors(n: int, rng: np.random.Generator) -> Float32Array:
    """Draw absolute errors: half a normal distribution."""
    return np.abs(rng.standard_normal(n, np.float32))


def make_learning(
    accelerators: Accelerators, manager: ReplayManager, devices: tuple[Device, Device]
) -> tuple[Learning, Recorder]:
    """Return a learning side, its replay manager and learner on two devices, and its stopwatch.

    One update is due to every collection of an iteration's new rows.
    """
    workload = accelerators.workload
    # No update is due for the rows that fill the buffer before the first collection.
    before = (ceil(workload.batch_size / workload.insert_size) - 1) * workload.insert_size
    schedule = replace(
        accelerators.config.off_policy,
        learning_starts=before,
        updates_per_transition=1.0 / workload.insert_size,
    )
    config = replace(accelerators.config, n_transitions=_ENDLESS, off_policy=schedule)
    places = Placed(*devices, devices[0])
    parts = Primitives(places, manager.storage, manager, accelerators.make_learner(devices[1]))
    watch = Recorder()
    return Learning(config, accelerators.interface, watch, parts), watch


def collections(accelerators: Accelerators) -> Iterator[Insert]:
    """Yield collection after collection, each with an iteration's new rows."""
    workload = accelerators.workload
    rows = accelerators.synthetic_rows(workload.insert_size, np.random.default_rng(2))
    number, transitions = 0, ceil(workload.batch_size / workload.insert_size) * workload.insert_size
    while True:
        yield Insert(number, (rows,), transitions, False)
        number, transitions = number + 1, transitions + workload.insert_size
