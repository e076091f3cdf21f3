"""Measure the primitives with synthetic data, in the configuration in which they will run.

The runtime's own iterations are made (`flowrl.composer.iterations`), in the form that a training
takes with these actors and this mode, and their parts are taken from them:

* In turn: no messages, and T_itr is the sum of all four.
* `shared` beside actors: one thread (strict) or two of one device (else), with the messages that
  lead in and out. `sample`, `update` and `insert` are what they take within their thread. `train`
  is all of the iteration that the formula leaves for it, so that T_itr is that of the iteration:
  messages, the copy of the actor's weights, and what the formula lets run beside it but one thread,
  or a processor that is too small, doesn't.
* `alone`: the other part is on the host's device. Beside actors there are two threads between which
  the host relays, of iterations one after the other ("strict"): one at a time is busy. `sample`
  ends when the host has the batch, `train` when it has the errors. At the end of an iteration both
  threads are asked how they stand; the formula has these messages with `update` (strict) or with
  `train` (else). New rows need no answer.

Rows are those of a full buffer at random places. Actors are not there: nothing here takes threads
away that are theirs.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.cache import DeviceProfile, load_profile, save_profile
from flowrl.composer.costs import (
    PRIMITIVES,
    SHARES,
    Costs,
    DeviceCosts,
    Origin,
    PrimitiveCosts,
    Seconds,
    impossible,
)
from flowrl.composer.detection import absence
from flowrl.composer.fpga_model import modelled_costs
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.iterations import (
    Form,
    Iterations,
    Times,
    form_of,
    is_in_turn,
    make_iterations,
)
from flowrl.composer.placement import Mode
from flowrl.composer.stand import filled_manager
from flowrl.config import ConfigError
from flowrl.parallel.messages import Closed, Drawn, Learnt, Told
from flowrl.replay import ReplayManager
from flowrl.trajectory import Float64Array

Laps = Float64Array  # (n_iterations,) [s]

N_ITERATIONS = 1000
BUDGET = 3.0  # time of one measurement, beyond which there are fewer iterations [s]
_SLOW = 0.02  # an iteration of more is slow [s]
FEWEST_ITERATIONS = 50  # whatever the budget
FEWEST_SLOW_ITERATIONS = 5
_WARM_UP = 20  # most iterations that don't count


@dataclass(frozen=True)
class Profile:
    """Costs of all devices, from how many iterations, and which were kept from an earlier time."""

    costs: Costs
    n_iterations: Mapping[str, int]  # by device, the fewest of its measurements; 0: modelled
    from_cache: frozenset[str]


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    n_iterations: int = N_ITERATIONS
    budget: float = BUDGET  # [s]
    is_cached: bool = True  # look for an earlier measurement, and keep this one

    def __post_init__(self) -> None:
        """Check every field."""
        n = self.n_iterations
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"n_iterations must be a whole number from 1, got {n!r}; try 1000")

    def count(self, seconds: float) -> int:
        """Count the iterations of so many seconds each: as asked, or as the budget allows."""
        fewest = FEWEST_ITERATIONS if seconds < _SLOW else FEWEST_SLOW_ITERATIONS
        affordable = int(self.budget / max(seconds, 1e-9))
        return min(self.n_iterations, max(affordable, fewest))


def profile(
    spec: HardwareSpec,
    accelerators: Accelerators,
    mode: Mode,
    effort: Effort | None = None,
    managers: dict[str, ReplayManager] | None = None,
) -> Profile:
    """Measure every device of a machine, model the FPGAs that aren't here.

    ConfigError where a described device isn't here and can't be modelled. `managers` are filled
    replay managers by device, for whoever measures more than once; what is missing is made and
    added.
    """
    effort, managers = effort or Effort(), {} if managers is None else managers
    for device in spec.devices:
        _require_present(device)
    costs: dict[str, DeviceCosts] = {}
    counts: dict[str, int] = {}
    kept: set[str] = set()
    for device in spec.devices:
        if device.is_modelled_fpga:
            link = spec.route(spec.host.name, device.name)
            modelled = modelled_costs(device, link, accelerators.workload)
            costs[device.name] = replace(modelled, in_turn=is_in_turn(accelerators, mode))
            counts[device.name] = 0
            continue
        key = cache_key(device, accelerators, mode, effort)
        found = load_profile(key) if effort.is_cached else None
        if found is not None:
            kept.add(device.name)
        else:
            host, own = (_with_manager(accelerators, managers, d) for d in (spec.host, device))
            found = _measure_device(_Bench(accelerators, mode, effort, host, own))
            if effort.is_cached:
                save_profile(key, found)
        costs[device.name], counts[device.name] = found.costs, found.n_iterations
    return Profile(costs, counts, frozenset(kept))


def _with_manager(
    accelerators: Accelerators, managers: dict[str, ReplayManager], device: Device
) -> tuple[Device, ReplayManager]:
    if device.name not in managers:
        managers[device.name] = filled_manager(accelerators, device)
    return device, managers[device.name]


def _require_present(device: Device) -> None:
    """Raise ConfigError for a device that can't run here and has no model."""
    reason = None if device.is_modelled_fpga else absence(device)
    if reason is None:
        return
    raise ConfigError(
        f"devices.{device.name} must be a device of this machine to be measured, got {device.kind} "
        f"({reason}); give costs of all devices (--costs FILE.toml), or leave it out"
    )


def cache_key(
    device: Device, accelerators: Accelerators, mode: Mode, effort: Effort
) -> dict[str, Any]:
    """Return all that a measurement depends on: hardware, workload, version."""
    workload = dataclasses.asdict(accelerators.workload)
    tables = {name: workload[name].tolist() for name in ("actor", "critic")}
    user, agent = accelerators.user, accelerators.agent
    return {
        "version": importlib.metadata.version("flowrl"),
        "machine": [platform.machine(), platform.processor(), platform.system()],
        "device": {name: str(value) for name, value in dataclasses.asdict(device).items()},
        "workload": workload | tables,
        "trainer": user.identity if user else repr(agent.options if agent else None),
        "actor_batches": accelerators.config.replay.actor_batches,
        "threads": accelerators.config.off_policy.threads,
        "mode": str(mode),
        "form": str(form_of(accelerators, mode, is_one_device=True)),
        "n_iterations": effort.n_iterations,
        "budget_s": effort.budget,
    }


@dataclass(frozen=True)
class _Bench:
    """Measures one device; what isn't on it is on the host."""

    accelerators: Accelerators
    mode: Mode
    effort: Effort
    host: tuple[Device, ReplayManager]
    own: tuple[Device, ReplayManager]

    @property
    def in_turn(self) -> bool:
        return is_in_turn(self.accelerators, self.mode)

    def shared(self) -> PrimitiveCosts:
        """Measure replay manager and learner on the device."""
        times = self._times(self.own, self.own[0], form_of(self.accelerators, self.mode, True))
        return _in_turn(times) if self.in_turn else _shared(times, self.mode)

    def alone(self) -> PrimitiveCosts:
        """Measure the replay manager on the device, then the learner."""
        costs = self._apart(self.own, self.host[0])
        if not self.accelerators.can_learn_on(self.own[0]):
            return replace(costs, train=Seconds(inf, Origin.MEASURED))
        if self.own[0] == self.host[0]:
            return costs
        return replace(costs, train=self._apart(self.host, self.own[0]).train)

    def _apart(self, replay: tuple[Device, ReplayManager], learner: Device) -> PrimitiveCosts:
        if self.in_turn:
            return _in_turn(self._times(replay, learner, Form.IN_TURN))
        return _alone(self._times(replay, learner, Form.RELAYED, Mode.STRICT), self.mode)

    def _times(
        self,
        replay: tuple[Device, ReplayManager],
        learner: Device,
        form: Form,
        mode: Mode | None = None,
    ) -> Times:
        iterations = make_iterations(
            self.accelerators, replay[1], (replay[0], learner), form, mode or self.mode
        )
        with iterations:
            return measured_times(iterations, self.effort)


def _measure_device(bench: _Bench) -> DeviceProfile:
    device, in_turn = bench.own[0], bench.in_turn
    if not bench.accelerators.can_learn_on(device):
        costs = DeviceCosts(bench.alone(), impossible(Origin.MEASURED), in_turn)
    elif in_turn and device == bench.host[0]:
        both = bench.shared()
        costs = DeviceCosts(both, both, in_turn)
    else:
        costs = DeviceCosts(bench.alone(), bench.shared(), in_turn)
    found = (getattr(getattr(costs, share), name) for share in SHARES for name in PRIMITIVES)
    return DeviceProfile(costs, min(n for cost in found if (n := cost.n_iterations)))


def train_seconds(
    accelerators: Accelerators, device: Device, counts: list[int]
) -> dict[int, float]:
    """Return the median time of learning a batch by the number of threads, of some counts [s]."""
    manager, effort = filled_manager(accelerators, device), Effort(n_iterations=100, budget=2.0)

    def seconds(n_threads: int) -> float:
        own = replace(accelerators.config.off_policy, threads=n_threads)
        with_threads = replace(accelerators, config=replace(accelerators.config, off_policy=own))
        iterations = make_iterations(
            with_threads, manager, (device, device), Form.IN_TURN, Mode.STRICT
        )
        with iterations:
            return _in_turn(measured_times(iterations, effort)).train.value

    return {n_threads: seconds(n_threads) for n_threads in counts}


def measured_times(iterations: Iterations, effort: Effort) -> Times:
    """Make iterations, after a warm-up, as often as asked or as the budget allows."""
    begin = time.perf_counter()
    n_warm = 0
    while n_warm < 2 or (n_warm < _WARM_UP and time.perf_counter() - begin < effort.budget / 10):
        last = float(iterations.run(1).period[0])
        n_warm += 1
    return iterations.run(effort.count(last))


def middle_and_spread(laps: Laps) -> tuple[float, float]:
    """Return the median and the interquartile range [s]."""
    low, middle, high = np.percentile(laps, (25, 50, 75))
    return float(middle), float(high - low)


def _in_turn(times: Times) -> PrimitiveCosts:
    """Return the costs of one thread without messages: they add up to an iteration."""
    sample, update, insert, period = map(_summary, _manager_laps(times))
    rest = period.value - sample.value - update.value - insert.value
    return PrimitiveCosts(sample, update, insert, _of(period, rest))


def _shared(times: Times, mode: Mode) -> PrimitiveCosts:
    """Return the costs of a device with both: the mode's formula gives the whole iteration."""
    sample, update, insert, period = map(_summary, _manager_laps(times))
    outside = {
        Mode.STRICT: sample.value + update.value,
        Mode.RELAXED: sample.value,
        Mode.PIPELINED: 0.0,
    }
    return PrimitiveCosts(sample, update, insert, _of(period, period.value - outside[mode]))


def _alone(times: Times, mode: Mode) -> PrimitiveCosts:
    """Return the costs of a device with one part, from strict iterations of a relay.

    The two questions at an iteration's end go to two threads: what the learner's answer takes
    longer than the replay manager's, which comes after new priorities, is the learner's.
    """
    drawn, learnt, closed, told = (times.heard[kind] for kind in (Drawn, Learnt, Closed, Told))
    sample, update, insert, _ = map(_summary, _manager_laps(times))
    # New rows that take longer than a batch is learnt hold the new priorities up.
    stored = np.maximum(learnt, drawn + insert.value)
    settling = np.maximum(closed - stored, 0.0)
    if mode is Mode.STRICT:
        train = learnt - drawn + np.maximum(told - closed, 0.0)
        update = _summary(settling)
    else:
        train = learnt - drawn + np.maximum(settling - update.value, told - learnt)
    if mode is not Mode.PIPELINED:
        sample = _summary(drawn)
    return PrimitiveCosts(sample, update, insert, _summary(train))


def _manager_laps(times: Times) -> tuple[Laps, ...]:
    return times.sample, times.update, times.insert, times.period


def _of(period: Seconds, value: float) -> Seconds:
    """Return the part of an iteration that other parts leave, with the whole one's spread."""
    return replace(period, value=max(value, 0.0))


def _summary(laps: Laps) -> Seconds:
    middle, spread = middle_and_spread(laps)
    return Seconds(middle, Origin.MEASURED, spread, len(laps))
