"""What a run would do, as `--dry-run` prints it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from flowrl.config import RunConfig, to_toml
from flowrl.envs.interface import Interface
from flowrl.schedule import Schedule
from flowrl.trajectory import IntArray


def print_plan(
    config: RunConfig, interface: Interface, schedule: Schedule, shares: IntArray
) -> None:
    """Print the resolved configuration, usable as a file for --config, and how work is spread."""
    console = Console(highlight=False)
    console.print(to_toml(replace(config, dry_run=False)).rstrip(), markup=False)
    first, last, n_updates = schedule.outline()
    table = Table(title="Plan", title_justify="left", show_header=False)
    table.add_column("quantity")
    table.add_column("value")
    table.add_row("results file", str(config.output))
    table.add_row("observation of an environment", f"{interface.n_observations} numbers")
    table.add_row("actions of an environment", _actions(interface))
    table.add_row("time limit of an episode", f"{interface.episode_steps or 'no'} steps")
    table.add_row("ranks", str(len(shares)))
    table.add_row("environments per rank", _spread(shares))
    table.add_row("steps per environment between two collections", _spread(first.lengths))
    table.add_row(
        "steps per rank between two collections", _spread(_per_rank(first.lengths, shares))
    )
    table.add_row("transitions per update", str(first.n_transitions // len(first.updates)))
    table.add_row("updates", f"{n_updates:,}")
    table.add_row("transitions", f"{config.n_transitions:,}")
    if last.n_transitions != first.n_transitions:
        table.add_row("transitions of the last collection", str(last.n_transitions))
    console.print(table)


def _actions(interface: Interface) -> str:
    if not interface.is_discrete:
        return f"{interface.n_actions} continuous"
    return f"one of {interface.n_choices}"


def _per_rank(lengths: IntArray, shares: IntArray) -> IntArray:
    edges = [0, *shares.cumsum().tolist()]
    sums = [int(lengths[begin:end].sum()) for begin, end in pairwise(edges)]
    return np.array(sums, np.int64)


def _spread(counts: IntArray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"
