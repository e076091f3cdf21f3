"""Show what a results file holds: `python -m flowrl.inspect run.h5`."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from flowrl.config import ConfigError, RunConfig, flat_toml, parse_options, run_command, to_toml
from flowrl.config.options import check_fields, required_file, switch
from flowrl.quantities import SHARES
from flowrl.results import Run

PROGRAM = "flowrl.inspect"
_SECONDS = (*SHARES, "record")
_WIDTH = 120  # columns where the output is no terminal


@dataclass(frozen=True)
class InspectOptions:
    """Show what a results file holds, also while the run goes on."""

    run: Path = required_file("results file of the run")
    json: bool = switch(False, "print one JSON object instead of tables")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


def summarise(run: Run) -> dict[str, Any]:
    """Return what there is to know about a run as plain values; what is not known is None."""
    attributes = dataclasses.asdict(run.attributes)
    config = attributes.pop("config")
    return {
        "path": str(run.path),
        **{name: _plain(value) for name, value in attributes.items()},
        "progress": _progress(run),
        "last": {name: _last(values) for name, values in run.iterations.items()},
        "seconds": _seconds(run),
        "evaluation": _evaluation(run),
        "config": config,
        "datasets": [dataclasses.asdict(dataset) for dataset in run.datasets],
    }


def _progress(run: Run) -> dict[str, Any]:
    try:
        planned = run.config.n_transitions
    except ConfigError:  # Written by another version: the rest can be shown all the same.
        planned = None
    transitions = _last(run.iterations.get("transitions", np.zeros(0))) or 0
    wall = _seconds(run).get("total", 0.0)
    return {
        "updates": _last(run.iterations.get("updates", np.zeros(0))) or 0,
        "transitions": transitions,
        "planned_transitions": planned,
        "episodes": max(map(len, run.episodes.values()), default=0),
        "seconds": wall,
        "transitions_per_second": transitions / wall if wall > 0 else None,
    }


def _seconds(run: Run) -> dict[str, float]:
    """Return the seconds of the whole run by what they were spent on."""
    with np.errstate(all="ignore"):
        sums = {name: float(np.nansum(values)) for name, values in run.seconds.items()}
    return {name: total if math.isfinite(total) else 0.0 for name, total in sums.items()}


def _evaluation(run: Run) -> dict[str, Any] | None:
    if not run.evaluation:
        return None
    scores = {
        name: {"mean": _plain(control.mean), "std": _plain(control.std), "n": len(control.returns)}
        for name, control in run.evaluation.items()
        if len(control.returns)
    }
    notes = {name: _plain(note) for name, note in run.evaluation_notes.items()}
    return {**scores, **notes}


def _last(values: Any) -> float | int | None:
    return _plain(values[-1].item()) if len(values) else None


def _plain(value: Any) -> Any:
    """Return a value that JSON knows: it has neither NaN nor infinity."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _clean(text: str) -> str:
    """Return a text from a file without what would steer the terminal or rich."""
    return escape(
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )


def show(run: Run, summary: dict[str, Any]) -> None:
    """Print the tables of a run."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    for table in (_overview(summary), _scores(summary), _shares(summary), _listing(run)):
        if table is not None:
            console.print(table)
            console.print()


def _overview(summary: dict[str, Any]) -> RenderableType:
    table = Table(title=_clean(summary["path"]), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    progress, last = summary["progress"], summary["last"]
    status = summary["status"]
    planned = progress["planned_transitions"]
    share = f" of {planned:,} ({progress['transitions'] / planned:.0%})" if planned else ""
    pace = progress["transitions_per_second"]
    rows = {
        "status": "running, or killed" if status == "running" else status,
        "algorithm": f"{summary['algo']} on {summary['env']}, seed {summary['seed']}",
        "started": f"{summary['start_time']} on {summary['host']}, {summary['n_ranks']} ranks",
        "ended": summary["end_time"] or "-",
        "command": summary["command"],
        "transitions": f"{progress['transitions']:,}{share}",
        "updates": f"{progress['updates']:,}, {progress['episodes']:,} episodes",
        "wall time": f"{progress['seconds']:.1f} s"
        + (f", {pace:,.0f} transitions/s" if pace else ""),
        "score": _score(last.get("score_mean"), last.get("score_std")),
        "settings": _settings(summary["config"]),
        "environment": _pairs(summary["environment_parameters"]),
        "versions": ", ".join(f"{name} {text}" for name, text in summary["versions"].items()),
        "commit": summary["git_commit"] or "-",
    }
    for name, value in rows.items():
        table.add_row(name, _clean(value))
    return table


def _score(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "no episode has ended yet"
    return f"{mean:.4g}" + (f" ± {std:.2g}" if std is not None else "") + " (latest episodes)"


def _pairs(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items()) or "-"


def _settings(config: str) -> str:
    """Return the configuration in brief: what differs from the defaults."""
    try:
        own, usual = flat_toml(config), flat_toml(to_toml(RunConfig()))
    except ConfigError:
        return "not readable"
    differing = [f"{name}={value}" for name, value in own.items() if usual.get(name) != value]
    return " ".join(differing) or "all at their defaults"


def _scores(summary: dict[str, Any]) -> RenderableType | None:
    evaluation = summary["evaluation"]
    if evaluation is None:
        return None
    table = Table(title="Held-out scores", title_justify="left")
    table.add_column("control")
    for column in ("mean", "standard deviation", "episodes"):
        table.add_column(column, justify="right")
    for name, score in evaluation.items():
        if isinstance(score, dict):
            mean, std = (
                score[key] if score[key] is not None else math.nan for key in ("mean", "std")
            )
            table.add_row(name, f"{mean:.4f}", f"{std:.4f}", str(score["n"]))
    gain = evaluation.get("gain")
    if isinstance(gain, float):
        table.caption = f"gain over no control: {gain:.1%}"
    return table


def _shares(summary: dict[str, Any]) -> RenderableType | None:
    seconds = summary["seconds"]
    total = seconds.get("total", 0.0)
    if not total:
        return None
    table = Table(title="Wall time of the root rank", title_justify="left")
    table.add_column("spent on")
    table.add_column("time \\[s]", justify="right")
    table.add_column("share", justify="right")
    parts = {name: seconds[name] for name in _SECONDS if name in seconds}
    parts["other"] = max(total - sum(parts.values()), 0.0)
    for name, value in parts.items():
        table.add_row(name, f"{value:.2f}", f"{value / total:.1%}")
    return table


def _listing(run: Run) -> RenderableType:
    table = Table(title="Datasets", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("shape", no_wrap=True)
    table.add_column("type", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("description")
    group = ""
    for dataset in run.datasets:
        if group and not dataset.name.startswith(f"{group}/"):
            table.add_section()
        group = dataset.name.partition("/")[0]
        shape = "x".join(map(str, dataset.shape)) or "scalar"
        texts = (dataset.name, shape, dataset.dtype, dataset.unit, dataset.description)
        table.add_row(*map(_clean, texts))
    return table


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(InspectOptions, arguments, PROGRAM)
    run = Run.open(options.run)
    summary = summarise(run)
    if options.json:
        sys.stdout.write(json.dumps(summary, allow_nan=False) + "\n")
    else:
        show(run, summary)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(command, PROGRAM))
