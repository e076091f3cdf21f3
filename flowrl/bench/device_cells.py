"""Measure all devices for one network at one batch size, and put many such cells into a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.costs import PRIMITIVES, SHARES, Costs, Seconds
from flowrl.composer.hardware import Device, HardwareSpec, Kind
from flowrl.composer.placement import Mode, Placement, compose
from flowrl.composer.profile import Effort, profile
from flowrl.composer.study import DeviceStudy, joint_origin
from flowrl.trajectory import Float64Array


@dataclass(frozen=True)
class Cell:
    """Costs of all devices for one network at one batch size, and the composer's choices."""

    costs: Costs
    n_iterations: Mapping[str, int]  # by device; 0: modelled
    placement: Placement
    here: Placement  # of the devices that are measured only
    unlearnt: frozenset[str]  # devices on which learning would have taken too long to measure


@dataclass
class Patience:
    """Expects the time of learning a batch from smaller ones, which grows at most with the rows."""

    longest: float  # [s]
    per_row: dict[str, float] = field(default_factory=dict)  # by device, at the last batch [s]

    def expects_too_long(self, device: Device, batch_size: int) -> bool:
        """Tell whether to leave a learner out; the host's never is."""
        if device.kind is Kind.CPU or device.is_modelled_fpga:
            return False
        return self.per_row.get(device.name, 0.0) * batch_size > self.longest

    def remember(self, device: Device, batch_size: int, seconds: float) -> None:
        """Keep what learning a batch took."""
        if isfinite(seconds):
            self.per_row[device.name] = seconds / batch_size


class ManagerOnly(Accelerators):
    """Primitives of which the replay manager is measured, while the host learns."""

    def can_learn_on(self, device: Device) -> bool:
        """Leave every learner but the host's out."""
        return device.kind is Kind.CPU


def measure_cell(
    spec: HardwareSpec, accelerators: Accelerators, mode: Mode, effort: Effort, patience: Patience
) -> Cell:
    """Measure or model every device; learners that would take too long are left out."""
    size = accelerators.workload.batch_size
    slow = [d.name for d in spec.devices if patience.expects_too_long(d, size)]
    quick = [d.name for d in spec.devices if d.name not in slow]
    found = profile(_part(spec, quick), accelerators, mode, effort)
    costs, counts = dict(found.costs), dict(found.n_iterations)
    if slow:
        # A kept measurement doesn't say that the learner was left out. The host comes along.
        fresh = replace(effort, is_cached=False)
        more = profile(
            _part(spec, [spec.host.name, *slow]), manager_only(accelerators), mode, fresh
        )
        costs |= {name: more.costs[name] for name in slow}
        counts |= {name: more.n_iterations[name] for name in slow}
    for device in spec.devices:
        patience.remember(device, size, costs[device.name].alone.train.value)
    in_order = {name: costs[name] for name in spec.names}
    present = _part(spec, [d.name for d in spec.devices if not d.is_modelled_fpga])
    placement, here = (
        compose(some, accelerators.workload, in_order, mode=mode) for some in (spec, present)
    )
    in_order_counts = {name: counts[name] for name in spec.names}
    return Cell(in_order, in_order_counts, placement, here, frozenset(slow))


def manager_only(accelerators: Accelerators) -> ManagerOnly:
    """Return the same primitives without learners but the host's."""
    a = accelerators
    return ManagerOnly(a.workload, a.interface, a.config, a.agent, a.user)


def _part(spec: HardwareSpec, names: Sequence[str]) -> HardwareSpec:
    links = tuple(link for link in spec.links if set(link.between) <= set(names))
    return HardwareSpec(tuple(d for d in spec.devices if d.name in names), links)


def assemble(
    spec: HardwareSpec,
    networks: Sequence[str],
    batch_sizes: Sequence[int],
    cells: Sequence[Sequence[Cell]],
    attributes: Mapping[str, str | int | float],
) -> DeviceStudy:
    """Return the study of cells by network and batch size."""

    def gather(take: Callable[[Cell], Any], kind: Any) -> Any:
        return np.array([[take(cell) for cell in row] for row in cells], kind)

    def by_share(take: Callable[[Cell, str], Any], kind: Any) -> dict[str, Any]:
        return {
            share: np.array([[take(cell, share) for cell in row] for row in cells], kind)
            for share in SHARES
        }

    return DeviceStudy(
        devices=spec.names,
        emulated=tuple(device.emulated for device in spec.devices),
        networks=tuple(networks),
        batch_sizes=tuple(batch_sizes),
        seconds=by_share(_values, np.float64),
        spread=by_share(_spreads, np.float64),
        origin=by_share(_origins, object),
        n_iterations=gather(lambda cell: list(cell.n_iterations.values()), np.int64),
        eps=gather(_eps, np.float64),
        eps_origin=gather(_eps_origins, object),
        choice=gather(lambda cell: _places(spec.names, cell.placement), np.int64),
        choice_here=gather(lambda cell: _places(spec.names, cell.here), np.int64),
        attributes=attributes,
    )


def _places(names: tuple[str, ...], placement: Placement) -> tuple[int, int]:
    return names.index(placement.replay_manager), names.index(placement.learner)


def _numbers(cell: Cell, share: str) -> list[list[Seconds]]:
    costs = [getattr(device, share) for device in cell.costs.values()]
    return [[getattr(of_device, name) for name in PRIMITIVES] for of_device in costs]


def _values(cell: Cell, share: str) -> Float64Array:
    """Return the seconds (devices, primitives), nan where a learner was left out."""
    values = np.array([[s.value for s in row] for row in _numbers(cell, share)])
    for place, name in enumerate(cell.costs):
        if name in cell.unlearnt:
            values[place, slice(None) if share == "shared" else PRIMITIVES.index("train")] = nan
    return values


def _spreads(cell: Cell, share: str) -> list[list[float]]:
    return [[s.spread for s in row] for row in _numbers(cell, share)]


def _origins(cell: Cell, share: str) -> list[list[str]]:
    return [[str(s.origin) for s in row] for row in _numbers(cell, share)]


def _eps(cell: Cell) -> Float64Array:
    """Return the throughput (replay managers, learners), nan where a learner was left out."""
    pairs = cell.placement.assignments
    eps = np.array([pair.eps for pair in pairs]).reshape(len(cell.costs), len(cell.costs))
    eps[:, [name in cell.unlearnt for name in cell.costs]] = nan
    return eps


def _eps_origins(cell: Cell) -> list[list[str]]:
    names = list(cell.costs)
    return [[_pair_origin(cell.costs, rm, learner) for learner in names] for rm in names]


def _pair_origin(costs: Costs, replay_manager: str, learner: str) -> str:
    is_one = replay_manager == learner
    replay = costs[replay_manager].shared if is_one else costs[replay_manager].alone
    train = costs[learner].shared.train if is_one else costs[learner].alone.train
    seconds = (replay.sample, replay.update, replay.insert, train)
    return joint_origin(number.origin for number in seconds)
