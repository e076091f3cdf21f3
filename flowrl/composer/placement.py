"""Choose devices for replay manager, learner and storage: PEARL's Algorithm 1.

Meng et al. (CF 2024). Step 1 looks at all pairs of devices for replay manager and learner and takes
the one with the most samples a second, or a joule; step 2 puts the storage where least time goes
into transfers. With T_s, T_u, T_i and T_t the seconds of sample, update, insert and train in one
iteration, which has one of each:

    strict     T_s + max(T_t, T_i) + T_u       the paper's sentence
    relaxed    T_s + max(T_t, T_u + T_i)       the authors' code
    pipelined  max(T_t, T_s + T_u + T_i)       priorities are one batch late

    EPS = batch size / T_itr

A run without actors beside makes its iterations in turn: T_s + T_t + T_i + T_u, whatever the mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import TypeVar

from flowrl.composer.costs import Costs, Origin, PrimitiveCosts
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError
from flowrl.config.names import shown, suggestion

DEFAULT_TIE = 0.02  # relative difference of values that count as equal
_INDEX_BYTES = 4

_WordT = TypeVar("_WordT", bound=StrEnum)


class Mode(StrEnum):
    """What of an iteration runs at the same time."""

    STRICT = "strict"
    RELAXED = "relaxed"
    PIPELINED = "pipelined"


class Metric(StrEnum):
    """What a placement is chosen for: samples a second, or samples a joule."""

    THROUGHPUT = "throughput"
    POWER = "power"


@dataclass(frozen=True)
class Assignment:
    """One pair of devices, with the storage that suits it best."""

    replay_manager: str
    learner: str
    storage: str
    t_itr_s: float  # infinite where one of the devices can't do its part
    eps: float  # [samples/s]
    watts: float | None  # of the devices of the pair; None where it is unknown
    value: float  # what is maximised: EPS, or samples a joule
    traffic_s: float  # transfers of one iteration to and from the storage [s]


@dataclass(frozen=True)
class Placement:
    """The chosen assignment and what it was chosen from."""

    chosen: Assignment
    mode: Mode
    metric: Metric
    tie: float
    ties: tuple[Assignment, ...]  # those within `tie` of the best, the chosen one first
    assignments: tuple[Assignment, ...]  # all pairs, learner fastest, in the devices' order
    cost_origins: tuple[Origin, ...]  # of the numbers in the chosen one's T_itr
    link_origins: tuple[Origin, ...]  # of those in its traffic

    @property
    def replay_manager(self) -> str:
        """Return the device of the replay manager."""
        return self.chosen.replay_manager

    @property
    def learner(self) -> str:
        """Return the device of the learner."""
        return self.chosen.learner

    @property
    def storage(self) -> str:
        """Return the device of the data storage."""
        return self.chosen.storage

    @property
    def t_itr_s(self) -> float:
        """Return the predicted time of an iteration [s]."""
        return self.chosen.t_itr_s

    @property
    def eps(self) -> float:
        """Return the predicted samples a second."""
        return self.chosen.eps

    @property
    def traffic_s(self) -> float:
        """Return the transfers of an iteration to and from the storage [s]."""
        return self.chosen.traffic_s

    @property
    def watts(self) -> float | None:
        """Return the predicted power of the chosen pair; None where it is unknown [W]."""
        return self.chosen.watts

    @property
    def eps_per_watt(self) -> float | None:
        """Return the predicted samples a joule; None where the power is unknown."""
        return None if self.watts is None else self.eps / self.watts


def compose(
    spec: HardwareSpec,
    workload: Workload,
    costs: Costs,
    metric: str = Metric.THROUGHPUT,
    mode: str = Mode.STRICT,
    tie: float = DEFAULT_TIE,
) -> Placement:
    """Return the best placement; ConfigError where there is none.

    Of pairs within the relative difference `tie` of the best value, the one with the least traffic
    is chosen, then that of the higher value, then the first in the devices' order.
    """
    by, how = member(Metric, metric, "metric"), member(Mode, mode, "mode")
    if by is Metric.POWER:
        _require_power(spec)
    assignments = assign(spec, workload, costs, by, how)
    best = max(assignment.value for assignment in assignments)
    if best == 0:
        raise ConfigError(
            "costs must let one device sample, update and insert and one train in a finite time, "
            f"got inf for every pair of {', '.join(spec.names)}; add a device that can do it"
        )
    within = [item for item in assignments if item.value > 0 and item.value >= best * (1 - tie)]
    # Sorting is stable: what is equal stays in the devices' order.
    ties = sorted(within, key=lambda item: (item.traffic_s, -item.value))
    origins = _origins(spec, costs, ties[0])
    return Placement(ties[0], how, by, tie, tuple(ties), tuple(assignments), *origins)


def assign(
    spec: HardwareSpec, workload: Workload, costs: Costs, metric: Metric, mode: Mode
) -> list[Assignment]:
    """Return every pair of devices for replay manager and learner, in the devices' order."""
    return [
        _assignment(spec, workload, costs, (replay, learner), metric, mode)
        for replay in spec.devices
        for learner in spec.devices
    ]


def iteration_seconds(mode: Mode | None, replay: PrimitiveCosts, learner: PrimitiveCosts) -> float:
    """Return T_itr of costs where the primitives run, see the module's formulas [s].

    `mode` None: all in turn.
    """
    sample, update, insert = replay.sample.value, replay.update.value, replay.insert.value
    train = learner.train.value
    if mode is None:
        return sample + train + insert + update
    if mode is Mode.STRICT:
        return sample + max(train, insert) + update
    if mode is Mode.RELAXED:
        return sample + max(train, update + insert)
    return max(train, sample + update + insert)


def traffic_seconds(
    spec: HardwareSpec, workload: Workload, replay: str, learner: str, storage: str
) -> float:
    """Return the transfers of one iteration to and from the storage [s].

    Indices from the replay manager, the batch to the learner, new rows from the host.
    """
    indices = _INDEX_BYTES * workload.batch_size
    batch = workload.batch_size * workload.row_bytes
    rows = workload.insert_size * workload.row_bytes
    return (
        spec.transfer_seconds(indices, replay, storage)
        + spec.transfer_seconds(batch, storage, learner)
        + spec.transfer_seconds(rows, spec.host.name, storage)
    )


def _assignment(
    spec: HardwareSpec,
    workload: Workload,
    costs: Costs,
    pair: tuple[Device, Device],
    metric: Metric,
    mode: Mode,
) -> Assignment:
    replay, learner = pair[0].name, pair[1].name
    of_replay, of_learner = _costs_of(costs, replay, learner)
    in_turn = costs[replay].in_turn or costs[learner].in_turn
    t_itr = iteration_seconds(None if in_turn else mode, of_replay, of_learner)
    if t_itr == 0:
        raise ConfigError(
            f"costs must make every iteration take some time, got 0 s for {shown(replay)} and "
            f"{shown(learner)}; give the seconds of train"
        )
    eps = workload.batch_size / t_itr
    watts = _watts(pair, of_replay, of_learner, t_itr)
    value = eps if metric is Metric.THROUGHPUT or watts is None else eps / watts
    storage, traffic = _best_storage(spec, workload, replay, learner)
    return Assignment(replay, learner, storage, t_itr, eps, watts, value, traffic)


def _costs_of(costs: Costs, replay: str, learner: str) -> tuple[PrimitiveCosts, PrimitiveCosts]:
    if replay == learner:
        return costs[replay].shared, costs[replay].shared
    return costs[replay].alone, costs[learner].alone


def _watts(
    pair: tuple[Device, Device], replay: PrimitiveCosts, learner: PrimitiveCosts, t_itr: float
) -> float | None:
    """Return the sum over the pair's distinct devices of idle + (busy - idle) busy time / T_itr.

    A device that has both is busy all the time: one of the two always runs.
    """
    if not isfinite(t_itr):
        return None
    if pair[0] == pair[1]:
        return _device_watts(pair[0], 1.0)
    managing = replay.sample.value + replay.update.value + replay.insert.value
    first = _device_watts(pair[0], managing / t_itr)
    second = _device_watts(pair[1], learner.train.value / t_itr)
    return None if first is None or second is None else first + second


def _device_watts(device: Device, busy_share: float) -> float | None:
    if device.idle_power_w is None or device.busy_power_w is None:
        return None
    return device.idle_power_w + (device.busy_power_w - device.idle_power_w) * busy_share


def _best_storage(
    spec: HardwareSpec, workload: Workload, replay: str, learner: str
) -> tuple[str, float]:
    """Return the device that holds all rows with the least traffic, the first of equal ones."""
    n_bytes = workload.capacity * workload.row_bytes
    best, least = "", inf
    for device in spec.devices:
        if device.memory_bytes >= n_bytes:
            seconds = traffic_seconds(spec, workload, replay, learner, device.name)
            if seconds < least:
                best, least = device.name, seconds
    if not best:
        largest = max(device.memory_bytes for device in spec.devices)
        raise ConfigError(
            f"capacity must leave the rows a device that holds them, got {workload.capacity} rows "
            f"of {workload.row_bytes} bytes and at most {largest} bytes of memory; use at most "
            f"{largest // workload.row_bytes} rows"
        )
    return best, least


def _require_power(spec: HardwareSpec) -> None:
    for device in spec.devices:
        if device.idle_power_w is None:
            raise ConfigError(
                f"metric power must know idle_power_w and busy_power_w of every device, got none "
                f"for {shown(device.name)}; add them to the hardware file, or use throughput"
            )


def _origins(
    spec: HardwareSpec, costs: Costs, chosen: Assignment
) -> tuple[tuple[Origin, ...], tuple[Origin, ...]]:
    """Return the origins of T_itr and of the traffic, each once."""
    replay, learner = _costs_of(costs, chosen.replay_manager, chosen.learner)
    seconds = (replay.sample, replay.update, replay.insert, learner.train)
    ends = (
        (chosen.replay_manager, chosen.storage),
        (chosen.storage, chosen.learner),
        (spec.host.name, chosen.storage),
    )
    links = {spec.route(*pair).origin for pair in ends if pair[0] != pair[1]}
    return tuple(sorted({number.origin for number in seconds})), tuple(sorted(links))


def member(words: type[_WordT], word: object, field: str) -> _WordT:
    """Return a word's member of an enumeration; ConfigError for anything else."""
    if isinstance(word, str) and word in tuple(words):
        return words(word)
    close = suggestion(str(word), tuple(words))
    raise ConfigError(f"{field} must be one of {', '.join(words)}, got {shown(word)}{close}")
