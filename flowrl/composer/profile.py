"""Measure the primitives with synthetic data, in the configuration in which they will run.

`shared` is one thread that inserts, draws, learns and sets priorities in turns
(`flowrl.parallel.joined`). In the formula of an iteration some of these run at the same time; a
thread does one after the other. So the time that this adds is counted with `train`: from its
beginning to the end of all that the formula lets run beside it.

`alone` is a thread for the replay manager and one for the learner, between which the host relays
(`flowrl.parallel.relayed`): a draw ends, and learning begins and ends, with a message, and drawn
rows are copied. New rows and new priorities need no answer.

Rows are those of a full buffer at random places. Learning includes a copy of the actor's weights
for those who act.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from accel.backends import BackendError, load
from flowrl.composer.accelerators import Accelerators, native_accelerators
from flowrl.composer.cache import DeviceProfile, load_profile, save_profile
from flowrl.composer.costs import Costs, DeviceCosts, Origin, PrimitiveCosts, Seconds, impossible
from flowrl.composer.fpga_model import modelled_costs
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.placement import Mode
from flowrl.composer.stand import LearnerThread, Learning, ManagerThread, filled_manager
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError
from flowrl.envs.interface import Interface
from flowrl.parallel.messages import Drawn
from flowrl.trajectory import Float64Array

Laps = Float64Array  # (n_iterations,) [s]

N_ITERATIONS = 1000
FEWEST_ITERATIONS = 50  # however slow a device is
BUDGET = 20.0  # time of one device, beyond which there are fewer iterations [s]
_WARM_UP = 20  # most iterations that don't count


@dataclass(frozen=True)
class Profile:
    """Costs of all devices, from how many iterations, and which were kept from an earlier time."""

    costs: Costs
    n_iterations: Mapping[str, int]  # by device; 0: modelled
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


def measure_costs(
    spec: HardwareSpec,
    workload: Workload,
    interface: Interface,
    mode: str = Mode.STRICT,
    n_iterations: int = N_ITERATIONS,
) -> Costs:
    """Return the costs of an algorithm of the project on every device of a machine.

    ConfigError where a described device isn't here and can't be modelled.
    """
    accelerators = native_accelerators(workload, interface)
    return profile(spec, accelerators, Mode(mode), Effort(n_iterations)).costs


def profile(
    spec: HardwareSpec, accelerators: Accelerators, mode: Mode, effort: Effort | None = None
) -> Profile:
    """Measure every device of a machine, model the FPGAs that aren't here."""
    effort = effort or Effort()
    for device in spec.devices:
        _require_present(device)
    costs: dict[str, DeviceCosts] = {}
    counts: dict[str, int] = {}
    kept: set[str] = set()
    for device in spec.devices:
        if device.is_modelled_fpga:
            link = spec.route(spec.host.name, device.name)
            costs[device.name] = modelled_costs(device, link, accelerators.workload)
            counts[device.name] = 0
            continue
        key = cache_key(device, accelerators, mode, effort)
        found = load_profile(key) if effort.is_cached else None
        if found is not None:
            kept.add(device.name)
        else:
            found = measure_device(device, accelerators, mode, effort)
            if effort.is_cached:
                save_profile(key, found)
        costs[device.name], counts[device.name] = found.costs, found.n_iterations
    return Profile(costs, counts, frozenset(kept))


def _require_present(device: Device) -> None:
    """Raise ConfigError for a device that can't run here and has no model."""
    if device.is_modelled_fpga:
        return
    try:
        names = load(device.backend).devices()
    except BackendError as error:
        reason = str(error)
    else:
        is_named = device.backend == "sycl" and device.backend_device
        if not is_named or device.backend_device in names:
            return
        reason = f"there are only {', '.join(names)}"
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
        "n_iterations": effort.n_iterations,
        "budget_s": effort.budget,
    }


def measure_device(
    device: Device, accelerators: Accelerators, mode: Mode, effort: Effort
) -> DeviceProfile:
    """Measure one device, alone and shared in turns: what else the machine does hits both."""
    side = Learning(accelerators, filled_manager(accelerators, device), device)
    never = Seconds(inf, Origin.MEASURED)
    with ExitStack() as threads:
        drawing = threads.enter_context(ManagerThread(side.manager, side.rng, side.batch_size))
        if not accelerators.can_learn_on(device):
            n, laps = _timed(lambda: _manager_alone(side, drawing)[1], effort)
            sample, update, insert = (_summary(values) for values in laps)
            alone = PrimitiveCosts(sample, update, insert, never)
            return DeviceProfile(DeviceCosts(alone, impossible(Origin.MEASURED)), n)
        learning = threads.enter_context(LearnerThread(side.learner))

        def iterate() -> list[float]:
            drawn, manager = _manager_alone(side, drawing)
            train = _lap(lambda: learning.learn(drawn))
            return [*manager, train, *_shared(side)]

        n, laps = _timed(iterate, effort)
    alone = PrimitiveCosts(*(_summary(values) for values in laps[:4]))
    return DeviceProfile(DeviceCosts(alone, _joined(laps[4:], mode)), n)


def train_seconds(
    accelerators: Accelerators, device: Device, counts: list[int]
) -> dict[int, float]:
    """Return the median time of learning a batch by the number of threads, of some counts [s]."""
    manager, effort = filled_manager(accelerators, device), Effort(n_iterations=100, budget=2.0)

    def seconds(n_threads: int) -> float:
        side = Learning(accelerators, manager, device, n_threads)
        return float(np.median(_timed(lambda: [_lap(side.learn)], effort)[1]))

    return {n_threads: seconds(n_threads) for n_threads in counts}


def _lap(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _manager_alone(side: Learning, thread: ManagerThread) -> tuple[Drawn, list[float]]:
    """Time sample, update, insert of a replay manager in its own thread; return the batch, too."""
    begin = time.perf_counter()
    drawn = thread.draw()
    sample = time.perf_counter() - begin
    side.take(drawn)
    return drawn, [sample, _lap(side.update), _lap(side.insert)]


def _shared(side: Learning) -> list[float]:
    """Time sample, update, insert, train in one thread, in the order in which it does them."""
    insert, sample, train = _lap(side.insert), _lap(side.sample), _lap(side.learn)
    return [sample, _lap(side.update), insert, train]


def _joined(laps: list[Laps], mode: Mode) -> PrimitiveCosts:
    """Return the costs of one thread: `train` ends when what may run beside it has ended."""
    sample, update, insert, train = laps
    beside = {
        Mode.STRICT: insert,
        Mode.RELAXED: update + insert,
        Mode.PIPELINED: sample + update + insert,
    }
    laps = [sample, update, insert, train + beside[mode]]
    return PrimitiveCosts(*(_summary(values) for values in laps))


def _timed(iterate: Callable[[], list[float]], effort: Effort) -> tuple[int, list[Laps]]:
    """Iterate, after a warm-up, as often as asked or as the budget allows; return the laps."""
    begin = time.perf_counter()
    n_warm = 0
    while n_warm < 2 or (n_warm < _WARM_UP and time.perf_counter() - begin < effort.budget / 10):
        last = sum(iterate())
        n_warm += 1
    affordable = int(effort.budget / max(last, 1e-9))
    n = min(effort.n_iterations, max(affordable, FEWEST_ITERATIONS))
    laps = np.array([iterate() for _ in range(n)])
    return n, list(laps.T)


def _summary(laps: Laps) -> Seconds:
    low, middle, high = np.percentile(laps, (25, 50, 75))
    return Seconds(float(middle), Origin.MEASURED, float(high - low))
