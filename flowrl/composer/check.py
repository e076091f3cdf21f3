"""Measure whole iterations as a training runs them, to hold predictions against.

In the form that the training takes, see `flowrl.composer.iterations`, which is the one that was
profiled. On a shared machine the load changes within seconds, so both are measured in turns, in
many short rounds: each measurement is held against the profiles right before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.iterations import Form, form_of, make_iterations
from flowrl.composer.placement import Assignment, Mode, Placement, compose
from flowrl.composer.profile import Effort, measured_times, middle_and_spread, profile
from flowrl.replay import ReplayManager

Pair = tuple[str, str]  # devices of replay manager and learner


@dataclass(frozen=True)
class Comparison:
    """Predicted and measured times of an iteration of one assignment, by round."""

    replay_manager: str
    learner: str
    form: Form
    predicted: tuple[float, ...]  # [s]
    measured: tuple[float, ...]  # medians [s]

    @property
    def predicted_s(self) -> float:
        """Return the median of the predictions [s]."""
        return median(self.predicted)

    @property
    def measured_s(self) -> float:
        """Return the median of the measurements [s]."""
        return median(self.measured)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return predicted over measured times by round, of the predictions before and after."""
        around = zip(self.predicted[:-1], self.predicted[1:], self.measured, strict=True)
        return tuple((before + after) / 2 / measured for before, after, measured in around)

    @property
    def ratio(self) -> float:
        """Return the median of predicted over measured time."""
        return median(self.ratios)

    @property
    def ratio_quartiles(self) -> tuple[float, float]:
        """Return the quartiles of predicted over measured time: what the machine adds."""
        low, high = np.percentile(self.ratios, (25, 75))
        return float(low), float(high)


def compare(
    spec: HardwareSpec,
    accelerators: Accelerators,
    mode: Mode,
    effort: Effort,
    n_rounds: int = 1,
    log: Callable[[str], None] = lambda _: None,
) -> list[Comparison]:
    """Profile, measure every assignment that can run here, and do so again, round after round.

    One more profile ends it, so that every measurement lies between two.
    """
    managers: dict[str, ReplayManager] = {}
    predictions: list[dict[Pair, float]] = []
    measurements: list[dict[Pair, float]] = []
    for n in range(n_rounds + 1):
        costs = profile(spec, accelerators, mode, effort, managers).costs
        placement = compose(spec, accelerators.workload, costs, mode=mode)
        predictions.append({_pair(item): item.t_itr_s for item in placement.assignments})
        log(f"profile {n + 1} of {n_rounds + 1}")
        if n < n_rounds:
            measurements.append(_measure_all(spec, accelerators, placement, managers, effort))
            log(f"round {n + 1} of {n_rounds}")
    return [
        Comparison(
            *pair,
            form_of(accelerators, mode, pair[0] == pair[1]),
            tuple(predicted[pair] for predicted in predictions),
            tuple(measured[pair] for measured in measurements),
        )
        for pair in measurements[0]
    ]


def measure_iteration(
    accelerators: Accelerators,
    manager: ReplayManager,
    devices: tuple[Device, Device],
    mode: Mode,
    effort: Effort,
) -> float:
    """Return the median time of an iteration, replay manager and learner on two devices [s]."""
    form = form_of(accelerators, mode, devices[0].name == devices[1].name)
    with make_iterations(accelerators, manager, devices, form, mode) as iterations:
        return middle_and_spread(measured_times(iterations, effort).period)[0]


def _measure_all(
    spec: HardwareSpec,
    accelerators: Accelerators,
    placement: Placement,
    managers: Mapping[str, ReplayManager],
    effort: Effort,
) -> dict[Pair, float]:
    found: dict[Pair, float] = {}
    for assignment in placement.assignments:
        devices = (spec.device(assignment.replay_manager), spec.device(assignment.learner))
        if isfinite(assignment.t_itr_s) and all(map(_runs, devices)):
            manager = managers[assignment.replay_manager]
            found[_pair(assignment)] = measure_iteration(
                accelerators, manager, devices, placement.mode, effort
            )
    return found


def _runs(device: Device) -> bool:
    return not device.is_modelled_fpga


def _pair(assignment: Assignment) -> Pair:
    return assignment.replay_manager, assignment.learner
