"""Keep what was measured on one device, by hardware and workload, in the cache directory.

One JSON file a measurement; a file that is not what was written counts as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from flowrl.composer.costs import PRIMITIVES, SHARES, DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.composer.output import replace_text


@dataclass(frozen=True)
class DeviceProfile:
    """Costs of one device and from how many iterations they were taken."""

    costs: DeviceCosts
    n_iterations: int  # the fewest of any measurement


def folder() -> Path:
    """Return the directory of the measurements: below FLOWRL_CACHE, or the platform's own."""
    from flowrl.startup import cache_root  # sets up the threads of libraries when it is imported

    return cache_root() / "composer"


def load_profile(key: Mapping[str, Any]) -> DeviceProfile | None:
    """Return what was measured under this key, or None where nothing sound is kept."""
    try:
        kept = json.loads(_path(key).read_text("utf-8"))
        if kept["key"] != json.loads(json.dumps(key)):
            return None
        alone, shared = (_read(kept[share]) for share in SHARES)
        costs = DeviceCosts(alone, shared, bool(kept["in_turn"]))
        return DeviceProfile(costs, int(kept["n_iterations"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save_profile(key: Mapping[str, Any], profile: DeviceProfile) -> None:
    """Keep a measurement; where that can't be done it is made again next time."""
    path = _path(key)
    kept = {
        "key": key,
        "n_iterations": profile.n_iterations,
        "in_turn": profile.costs.in_turn,
        "alone": _table(profile.costs.alone),
        "shared": _table(profile.costs.shared),
    }
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(kept))


def _path(key: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return folder() / f"{digest[:32]}.json"


def _table(costs: PrimitiveCosts) -> dict[str, list[float]]:
    found = {name: getattr(costs, name) for name in PRIMITIVES}
    return {name: [cost.value, cost.spread, cost.n_iterations] for name, cost in found.items()}


def _read(table: Mapping[str, Any]) -> PrimitiveCosts:
    return PrimitiveCosts(**{name: _seconds(*table[name]) for name in PRIMITIVES})


def _seconds(value: Any, spread: Any, n_iterations: Any) -> Seconds:
    numbers = float(value), float(spread), int(n_iterations)
    if any(isnan(number) or number < 0 for number in numbers):
        raise ValueError
    return Seconds(numbers[0], Origin.MEASURED, *numbers[1:])
