"""What a run would do, as `--dry-run` prints it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from flowrl.config import RunConfig, to_toml
from flowrl.envs.interface import Interface
from flowrl.schedule import Schedule
from flowrl.trajectory import IntArray

PlanRows = list[tuple[str, str]]  # what, how much


def print_plan(config: RunConfig, interface: Interface, rows: PlanRows) -> None:
    """Print the resolved configuration, usable as a file for --config, and how work is spread."""
    console = Console(highlight=False)
    text = to_toml(replace(config, dry_run=False)).rstrip()
    table = Table(title="Plan", title_justify="left", show_header=False)
    table.add_column("quantity")
    table.add_column("value")
    table.add_row("results file", str(config.output))
    table.add_row("observation of an environment", f"{interface.n_observations} numbers")
    table.add_row("actions of an environment", _actions(interface))
    table.add_row("time limit of an episode", f"{interface.episode_steps or 'no'} steps")
    for name, value in rows:
        table.add_row(name, value)
    # rich answers so to a reader that has gone, as in `| head`: what is left is for nobody.
    with contextlib.suppress(SystemExit):
        console.print(text, markup=False)
        console.print(table)


def plan_rows(schedule: Schedule, shares: IntArray, n_transitions: int) -> PlanRows:
    """Say how an on-policy run is spread over updates and ranks."""
    first, last, n_updates = schedule.outline()
    rows = [
        ("ranks", str(len(shares))),
        ("environments per rank", spread(shares)),
        ("steps per environment between two collections", spread(first.lengths)),
        ("steps per rank between two collections", spread(_per_rank(first.lengths, shares))),
        ("transitions per update", str(first.n_transitions // len(first.updates))),
        ("updates", f"{n_updates:,}"),
        ("transitions", f"{n_transitions:,}"),
    ]
    if last.n_transitions != first.n_transitions:
        rows.append(("transitions of the last collection", str(last.n_transitions)))
    return rows


def _actions(interface: Interface) -> str:
    if not interface.is_discrete:
        return f"{interface.n_actions} continuous"
    return f"one of {interface.n_choices}"


def _per_rank(lengths: IntArray, shares: IntArray) -> IntArray:
    edges = [0, *shares.cumsum().tolist()]
    sums = [int(lengths[begin:end].sum()) for begin, end in pairwise(edges)]
    return np.array(sums, np.int64)


def spread(counts: IntArray) -> str:
    """Return the smallest and the largest count, or the one that all are."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"
