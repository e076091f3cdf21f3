"""Read and write the device assignment matrix as TOML.

Seconds of every primitive on every device of the hardware file, where the device has one of
replay manager and learner, and where it has both; inf where it can't do it:

    [costs.gpu0]
    sample = 25e-6
    update = 20e-6
    insert = 20e-6
    train = 150e-6

    [costs.gpu0.shared]
    sample = 30e-6
    ...
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, cast

from flowrl.composer.costs import (
    PRIMITIVES,
    SHARES,
    Costs,
    DeviceCosts,
    Origin,
    PrimitiveCosts,
    Seconds,
)
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.tables import check_names, checked, read_tables, table
from flowrl.config import ConfigError
from flowrl.config.kinds import Real
from flowrl.config.names import shown

_OPTION = "--costs"
_LEAST = 1e-30  # [s] but for 0: samples a second and a joule are finite


@dataclass(frozen=True)
class _Cost(Real):
    """A time, infinite where the device can't do it."""

    @property
    def rule(self) -> str:
        return f"0, a number of seconds from {_LEAST:g} to {self.high:g}, or inf"

    def convert(self, value: object) -> object:
        number = inf if value == inf else super().convert(value)
        if 0 < cast(float, number) < _LEAST:
            raise ValueError
        return number

    def way_out(self, value: object, default: object) -> str:
        del value, default
        return "; write inf where the device can't do it"


_COSTS = {name: _Cost(f"seconds of {name}", high=1e30) for name in PRIMITIVES}


def load_costs(path: Path | str, spec: HardwareSpec) -> Costs:
    """Return the given costs of every device, in the hardware's order; ConfigError in one line."""
    source = str(path)
    tables = read_tables(Path(path), _OPTION)
    check_names(source, tables, ("costs",))
    costs = table(f"{source}: costs", tables.get("costs", {}))
    check_names(f"{source}: costs", costs, spec.names)
    return {name: _device_costs(f"{source}: costs.{name}", costs, name) for name in spec.names}


def _device_costs(where: str, costs: dict[str, Any], name: str) -> DeviceCosts:
    if name not in costs:
        raise ConfigError(
            f"{where} must hold the seconds of {', '.join(PRIMITIVES)}, got nothing; add "
            f"[costs.{_key(name)}], or remove {shown(name)} from the hardware file"
        )
    values = dict(table(where, costs[name]))
    if "shared" not in values:
        raise ConfigError(
            f"{where}.shared must hold the seconds where the device has replay manager and "
            f"learner, got nothing; add [costs.{_key(name)}.shared]"
        )
    shared = table(f"{where}.shared", values.pop("shared"))
    return DeviceCosts(_primitives(where, values), _primitives(f"{where}.shared", shared))


def _primitives(where: str, values: dict[str, Any]) -> PrimitiveCosts:
    found = checked(where, values, _COSTS, required=PRIMITIVES)
    return PrimitiveCosts(**{name: Seconds(found[name], Origin.GIVEN) for name in PRIMITIVES})


def costs_toml(costs: Costs) -> str:
    """Return a cost file; comments keep the origin of every number."""
    lines = ["# Device assignment matrix: seconds of an iteration, see flowrl.composer.cost_file."]
    for name, device in costs.items():
        for share, section in zip(SHARES, ("", ".shared"), strict=True):
            lines += ["", f"[costs.{_key(name)}{section}]"]
            primitives: PrimitiveCosts = getattr(device, share)
            lines += [_line(primitive, getattr(primitives, primitive)) for primitive in PRIMITIVES]
    return "\n".join([*lines, ""])


def _line(name: str, seconds: Seconds) -> str:
    spread = f", interquartile range {seconds.spread:.3g}" if seconds.spread else ""
    return f"{name} = {float(seconds.value)!r} # {seconds.origin}{spread}"


def _key(name: str) -> str:
    """Return a name as a TOML key."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if bare else json.dumps(name, ensure_ascii=False)
