"""Measure whole iterations with the runtime's own threads, to hold predictions against.

One collection after the other goes through `flowrl.parallel.joined` (both primitives on one device)
or `flowrl.parallel.relayed`, each with one update; the next waits already, as actors make them.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, isfinite

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.placement import Assignment, Mode, Placement
from flowrl.composer.stand import filled_manager
from flowrl.config import OffPolicyConfig
from flowrl.learning import Learning
from flowrl.parallel.host import LearningSide
from flowrl.parallel.joined import Joined
from flowrl.parallel.messages import Failed, Insert, Mail
from flowrl.parallel.relayed import Relayed
from flowrl.placed import Placed, Primitives
from flowrl.stopwatch import Stopwatch

_WARM_UP = 5  # collections that don't count
_FEWEST = 20  # iterations, however slow


@dataclass(frozen=True)
class Comparison:
    """Predicted and measured time of an iteration of one assignment."""

    assignment: Assignment
    measured_s: float  # median

    @property
    def ratio(self) -> float:
        """Return predicted over measured time."""
        return self.assignment.t_itr_s / self.measured_s


def compare(
    spec: HardwareSpec,
    accelerators: Accelerators,
    placement: Placement,
    n_iterations: int = 300,
    budget: float = 10.0,
) -> Iterator[Comparison]:
    """Measure every assignment that can run here, within a budget [s] each."""
    for assignment in placement.assignments:
        devices = (spec.device(assignment.replay_manager), spec.device(assignment.learner))
        if isfinite(assignment.t_itr_s) and not any(d.is_modelled_fpga for d in devices):
            affordable = max(_FEWEST, int(budget / assignment.t_itr_s))
            n = min(n_iterations, affordable)
            measured = measure_iteration(accelerators, *devices, n, placement.mode)
            yield Comparison(assignment, measured)


def measure_iteration(
    accelerators: Accelerators,
    replay_manager: Device,
    learner: Device,
    n_iterations: int,
    mode: str = Mode.STRICT,
) -> float:
    """Return the median time of an iteration with both primitives placed [s]."""
    learning = _learning(accelerators, replay_manager, learner)
    mail, watch = Mail(), Stopwatch()
    is_joined = replay_manager.name == learner.name
    side: LearningSide = (
        Joined(learning, watch, mail) if is_joined else Relayed(learning, watch, mail, mode)
    )
    side.start()
    try:
        return _median_lap(side, mail, accelerators, _WARM_UP + n_iterations)
    finally:
        side.close()
        mail.close()


def _median_lap(
    side: LearningSide, mail: Mail, accelerators: Accelerators, n_collections: int
) -> float:
    workload = accelerators.workload
    rows = accelerators.synthetic_rows(workload.insert_size, np.random.default_rng(2))
    first = ceil(workload.batch_size / workload.insert_size)
    ends: list[float] = []
    n_given = 0
    while len(ends) < n_collections:
        while n_given < min(len(ends) + 2, n_collections):
            transitions = (first + n_given) * workload.insert_size
            side.give(Insert(n_given, (rows,), transitions, False))
            n_given += 1
        ends += [time.perf_counter()] * _n_caught_up(side, mail)
    return float(np.median(np.diff(ends)[_WARM_UP:]))


def _n_caught_up(side: LearningSide, mail: Mail) -> int:
    """Relay the messages that come next; count the collections whose updates are made."""
    select.select([mail.file], [], [])
    n_caught_up = 0
    for message in mail.take():
        if isinstance(message, Failed):
            raise message.error
        n_caught_up += side.handle(message) is not None
    return n_caught_up


def _learning(accelerators: Accelerators, replay_manager: Device, learner: Device) -> Learning:
    """Return a learning side with these primitives, one update to a collection."""
    workload = accelerators.workload
    # No update is due for the rows that fill the buffer before the first collection.
    before = (ceil(workload.batch_size / workload.insert_size) - 1) * workload.insert_size
    schedule = OffPolicyConfig(
        learning_starts=before, updates_per_transition=1.0 / workload.insert_size
    )
    config = replace(accelerators.config, n_transitions=10**12, off_policy=schedule)
    manager = filled_manager(accelerators, replay_manager)
    places = Placed(replay_manager, learner, replay_manager)
    parts = Primitives(places, manager.storage, manager, accelerators.make_learner(learner))
    return Learning(config, accelerators.interface, Stopwatch(), parts)
