"""Show a placement and the matrix it was chosen from: plain values, or tables for a terminal."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from flowrl.composer.costs import PRIMITIVES, SHARES, Costs, Origin, Seconds
from flowrl.composer.placement import Assignment, Placement

_MARKS = {Origin.MEASURED: "m", Origin.MODELLED: "~", Origin.GIVEN: "g"}
_LEGEND = "m measured (median), ~ modelled, g given"


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
    cell = {"seconds": _finite(seconds.value), "origin": str(seconds.origin)}
    return cell | ({"spread_s": seconds.spread} if seconds.origin is Origin.MEASURED else {})


def _assignment(item: Assignment) -> dict[str, Any]:
    return {
        "replay_manager": item.replay_manager,
        "learner": item.learner,
        "storage": item.storage,
        "t_itr_s": item.t_itr_s,
        "eps": _finite(item.eps),
        "traffic_s": item.traffic_s,
    }


def _matrix(costs: Costs) -> Table:
    table = Table(title="Device assignment matrix", title_justify="left", caption=_LEGEND)
    table.add_column("device")
    table.add_column("holds")
    for primitive in PRIMITIVES:
        table.add_column(f"{primitive} \\[us]", justify="right")
    for name, device in costs.items():
        for share, holds in zip(SHARES, ("one part", "both"), strict=True):
            primitives = getattr(device, share)
            cells = [_shown(getattr(primitives, primitive)) for primitive in PRIMITIVES]
            table.add_row(escape(name) if share == "alone" else "", holds, *cells)
        table.add_section()
    return table


def _shown(seconds: Seconds) -> str:
    number = f"{1e6 * seconds.value:.4g}" if isfinite(seconds.value) else "never"
    spread = f" ± {1e6 * seconds.spread:.2g}" if seconds.spread else ""
    return f"{number}{spread} {_MARKS[seconds.origin]}"


def _choice(placement: Placement) -> Table:
    table = Table(title="Choice", title_justify="left", show_header=False)
    origins = ", ".join(placement.cost_origins)
    watts = "unknown" if placement.watts is None else f"{placement.watts:.4g} W"
    rows = {
        "replay manager": placement.replay_manager,
        "learner": placement.learner,
        "storage": placement.storage,
        "iteration": f"{1e6 * placement.t_itr_s:.4g} us ({placement.mode}; costs {origins})",
        "throughput": f"{placement.eps:.4g} samples/s",
        "power": watts,
        "traffic of the storage": f"{1e6 * placement.traffic_s:.4g} us an iteration",
        "chosen for": f"{placement.metric}, ties within {placement.tie:.3g}",
        "as good": _others(placement),
    }
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table


def _others(placement: Placement) -> str:
    others = [f"{item.replay_manager} + {item.learner}" for item in placement.ties[1:]]
    return ", ".join(others) or "-"
