"""Show a placement and the matrix it was chosen from: plain values, or tables for a terminal."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from flowrl.composer.costs import PRIMITIVES, SHARES, Costs, Origin, Seconds
from flowrl.composer.placement import Assignment, Placement

_MARKS = {Origin.MEASURED: "m", Origin.MODELLED: "~", Origin.GIVEN: "g"}
_UNITS = (("us", 1e6), ("ms", 1e3), ("s", 1.0))
_LARGE = 999.5  # of a unit; three digits of more need the next
_MOST_DECIMALS = 3


def as_json(placement: Placement, costs: Costs) -> dict[str, Any]:
    """Return the placement and its matrix as JSON values; what is infinite is None."""
    return {
        "replay_manager": placement.replay_manager,
        "learner": placement.learner,
        "storage": placement.storage,
        "t_itr_s": placement.t_itr_s,
        "eps": _finite(placement.eps),
        "traffic_s": placement.traffic_s,
        "mode": str(placement.mode),
        "metric": str(placement.metric),
        "matrix": {
            name: {
                share: {
                    primitive: _cell(getattr(getattr(device, share), primitive))
                    for primitive in PRIMITIVES
                }
                for share in SHARES
            }
            for name, device in costs.items()
        },
        "ties": [_assignment(item) for item in placement.ties],
        "tie": placement.tie,
        "watts": placement.watts,
        "eps_per_watt": placement.eps_per_watt,
        "cost_origins": list(map(str, placement.cost_origins)),
        "link_origins": list(map(str, placement.link_origins)),
    }


def as_tables(placement: Placement, costs: Costs) -> RenderableType:
    """Return the matrix and the choice for a terminal."""
    return Group(_matrix(costs), _choice(placement))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _cell(seconds: Seconds) -> dict[str, Any]:
    cell: dict[str, Any] = {"seconds": _finite(seconds.value), "origin": str(seconds.origin)}
    if seconds.origin is Origin.MEASURED:
        cell |= {"spread_s": seconds.spread, "iterations": seconds.n_iterations}
    return cell


def _assignment(item: Assignment) -> dict[str, Any]:
    return {
        "replay_manager": item.replay_manager,
        "learner": item.learner,
        "storage": item.storage,
        "t_itr_s": item.t_itr_s,
        "eps": _finite(item.eps),
        "traffic_s": item.traffic_s,
    }


def _legend(costs: Costs) -> str:
    """Say what the marks mean, and in how many iterations was measured."""
    parts = [part for device in costs.values() for part in (device.alone, device.shared)]
    counts = {getattr(part, name).n_iterations for part in parts for name in PRIMITIVES} - {0}
    several = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else "".join(map(str, counts))
    of = f" and interquartile range of {several} iterations" if counts else ""
    return f"m measured (median{of}), ~ modelled, g given"


def _matrix(costs: Costs) -> Table:
    table = Table(title="Device assignment matrix", title_justify="left", caption=_legend(costs))
    table.add_column("device")
    table.add_column("holds")
    for primitive in PRIMITIVES:
        table.add_column(primitive, justify="right")
    for name, device in costs.items():
        for share, holds in zip(SHARES, ("one part", "both"), strict=True):
            primitives = getattr(device, share)
            cells = [_shown(getattr(primitives, primitive)) for primitive in PRIMITIVES]
            table.add_row(escape(name) if share == "alone" else "", holds, *cells)
        table.add_section()
    return table


def _shown(seconds: Seconds) -> str:
    mark = _MARKS[seconds.origin]
    if not isfinite(seconds.value):
        return f"never {mark}"
    return f"{readable_time(seconds.value, seconds.spread)} {mark}"


def readable_time(seconds: float, spread: float = 0.0) -> str:
    """Return a time [s], and its spread if any, with three digits in the unit that suits it."""
    unit, factor = next((item for item in _UNITS if seconds * item[1] < _LARGE), _UNITS[-1])
    numbers = [seconds] + [spread] * bool(spread)
    return " ± ".join(_three_digits(factor * number) for number in numbers) + f" {unit}"


def _three_digits(number: float) -> str:
    """Return a number with three significant digits and without an exponent."""
    number = float(f"{number:.3g}")
    decimals = 2 - floor(log10(number)) if number else 0
    rounded = f"{number:.{max(0, min(decimals, _MOST_DECIMALS))}f}"
    return rounded if float(rounded) else "0"


def _choice(placement: Placement) -> Table:
    table = Table(title="Choice", title_justify="left", show_header=False)
    origins = ", ".join(placement.cost_origins)
    watts = "unknown" if placement.watts is None else f"{placement.watts:.4g} W"
    rows = {
        "replay manager": placement.replay_manager,
        "learner": placement.learner,
        "storage": placement.storage,
        "iteration": f"{readable_time(placement.t_itr_s)} ({placement.mode}; costs {origins})",
        "throughput": f"{placement.eps:.4g} samples/s",
        "power": watts,
        "traffic of the storage": f"{readable_time(placement.traffic_s)} an iteration",
        "chosen for": f"{placement.metric}, ties within {placement.tie:.3g}",
        "as good": _others(placement),
    }
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table


def _others(placement: Placement) -> str:
    others = [f"{item.replay_manager} + {item.learner}" for item in placement.ties[1:]]
    return ", ".join(others) or "-"
