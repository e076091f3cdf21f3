"""Time prioritized replay: `python -m flowrl.bench replay`.

Drawing indices with importance weights, changing priorities by errors, setting them and inserting,
all through the calls from Python and without the rows, ours beside other libraries (the extra
`bench`). Every time is the least of many, taken in turns, so that another process on the core
spoils some of them and not the ratios.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from flowrl.bench.memory import descent_seconds
from flowrl.bench.replay_peers import Contender, make_peers, ours
from flowrl.bench.timing import least_seconds
from flowrl.config import parse_options
from flowrl.config.options import check_fields, switch, whole

PROGRAM = "flowrl.bench replay"
CAPACITIES = (2**16, 2**20)
BATCHES = (32, 256, 512, 4096)
FANOUTS = (8, 16)
OPERATIONS = ("indices + weights", "update", "set", "insert")
# times the best peer's rate, by operation and batch
TARGETS = {
    "indices + weights": {32: 5.0, 256: 5.0, 512: 5.0, 4096: 3.0},
    "update": dict.fromkeys(BATCHES, 3.0),
}
_N_CALLS = 16  # in one measurement, each with rows of its own


@dataclass(frozen=True)
class ReplayBenchOptions:
    """Time the sum tree of prioritized replay on one core beside other libraries."""

    repeats: int = whole(100, "measurements, of which the least counts", low=1)
    json: bool = switch(False, "print one JSON object instead of tables")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True)
class Rate:
    """Hold what was measured of one call."""

    capacity: int
    operation: str
    batch: int
    contender: str
    items_per_us: float  # million items a second


@dataclass(frozen=True)
class Floor:
    """Hold what memory allows one fanout: an access in each level of the tree."""

    capacity: int
    fanout: int
    items_per_us: float  # with many accesses under way
    alone_per_us: float  # one after the other


def _call(contender: Contender, operation: str, capacity: int, n: int) -> Callable[[], object]:
    """Return a call that does an operation _N_CALLS times, each on other rows."""
    rng = np.random.default_rng(n)
    # Lists, because taking a row of an array takes time.
    rows = list(rng.integers(0, capacity, (_N_CALLS, n)).astype(contender.indices))
    errors = list(np.abs(rng.normal(size=(_N_CALLS, n)).astype(np.float32)))
    priorities = [row.astype(np.float64) for row in errors]
    runs = [np.arange(begin, begin + n) for begin in rng.integers(0, capacity - n, _N_CALLS)]
    sample, update, replace, insert = (
        contender.sample, contender.update, contender.set, contender.insert
    )  # fmt: skip
    if operation == "indices + weights":
        return lambda: [sample(n) for _ in range(_N_CALLS)]
    if operation == "update":
        return lambda: [update(i, e) for i, e in zip(rows, errors, strict=True)]
    if operation == "insert" or replace is None:
        return lambda: [insert(run) for run in runs]
    return lambda: [replace(i, p) for i, p in zip(rows, priorities, strict=True)]


def measure(capacity: int, repeats: int) -> tuple[list[Rate], list[str]]:
    """Time all contenders at one capacity; return also why peers were left out."""
    priorities = np.random.default_rng(0).random(capacity) + 0.01
    peers, skipped = make_peers(priorities)
    contenders = [ours(fanout)(priorities) for fanout in FANOUTS] + peers
    rates = []
    for operation in OPERATIONS:
        able = [c for c in contenders if operation != "set" or c.set is not None]
        for n in BATCHES:
            calls = [_call(contender, operation, capacity, n) for contender in able]
            for contender, seconds in zip(able, least_seconds(calls, repeats), strict=True):
                rate = 1e-6 * n * _N_CALLS / seconds
                rates.append(Rate(capacity, operation, n, contender.name, rate))
    return rates, skipped


def measure_floors(capacity: int) -> list[Floor]:
    """Time what memory allows, for each fanout."""
    floors = []
    for fanout in FANOUTS:
        together, alone = descent_seconds(capacity, fanout)
        floors.append(Floor(capacity, fanout, 1e-6 / together, 1e-6 / alone))
    return floors


def ratio(rates: Sequence[Rate], operation: str, batch: int) -> float | None:
    """Return our best rate over the best peer's; None where there is no peer."""
    mine: list[float] = []
    theirs = [0.0]
    for rate in rates:
        if (rate.operation, rate.batch) == (operation, batch):
            (mine if rate.contender.startswith("accel") else theirs).append(rate.items_per_us)
    return max(mine) / max(theirs) if max(theirs) > 0 else None


def _rows(rates: Sequence[Rate], operation: str) -> dict[str, list[str]]:
    """Return the cells of one operation by contender, the ratios last."""
    rows: dict[str, list[str]] = {}
    for rate in rates:
        if rate.operation == operation:
            rows.setdefault(rate.contender, []).append(f"{rate.items_per_us:.2f}")
    ratios = [ratio(rates, operation, n) for n in BATCHES]
    if None not in ratios:
        rows["ours / best peer"] = [f"{value:.1f}" for value in ratios if value is not None]
    if operation in TARGETS:
        rows["target"] = [f"{TARGETS[operation][n]:g}" for n in BATCHES]
    return rows


def show(rates: Sequence[Rate], floors: Sequence[Floor]) -> None:
    """Print a table of one capacity."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    title = f"{rates[0].capacity} priorities, million items a second by batch"
    table = Table(title=title, title_justify="left")
    for column in ("operation", "library"):
        table.add_column(column)
    for n in BATCHES:
        table.add_column(str(n), justify="right")
    for operation in OPERATIONS:
        for number, (name, cells) in enumerate(_rows(rates, operation).items()):
            table.add_row(operation if number == 0 else "", name, *cells)
        table.add_section()
    console.print(table)
    for floor in floors:
        best = max(
            rate.items_per_us
            for rate in rates
            if rate.contender == f"accel K={floor.fanout}" and rate.operation == OPERATIONS[0]
        )
        console.print(
            f"K={floor.fanout}: one memory access a level and item allows "
            f"{floor.items_per_us:.0f} million items/s ({floor.alone_per_us:.1f} where each waits "
            f"for the last); indices + weights reach {best / floor.items_per_us:.0%} of it."
        )


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(ReplayBenchOptions, arguments, PROGRAM)
    all_rates: list[Rate] = []
    all_floors: list[Floor] = []
    skipped: list[str] = []
    for capacity in CAPACITIES:
        rates, skipped = measure(capacity, options.repeats)
        floors = measure_floors(capacity)
        if not options.json:
            show(rates, floors)
        all_rates += rates
        all_floors += floors
    if options.json:
        found = {
            "rates": [dataclasses.asdict(rate) for rate in all_rates],
            "floors": [dataclasses.asdict(floor) for floor in all_floors],
            "skipped": skipped,
        }
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write("".join(line + "\n" for line in skipped))
    return 0
