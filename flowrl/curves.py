"""Group runs that differ in their seed only, and draw their learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flowrl.config import ConfigError, flat_toml
from flowrl.results import FloatArray, ResultError, Run

AXES = ("transitions", "time")
_LABELS = {"transitions": "transitions", "time": "wall time [s]"}
_SCORE = "score (return of an episode) [-]"

# Settings that leave the experiment as it is.
_INDIFFERENT = ("seed", "out", "overwrite", "dry_run", "progress", "record", "evaluation", "comm")

# Okabe and Ito (2008): told apart with any kind of colour vision, and in grey by their lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
GREY = "#555555"
_DASHES = ("-", "--", "-.", ":")
_BASELINE_DASHES = (0, (4, 3))
_N_POINTS = 400  # of a mean curve
_LEGEND_ROWS = 3  # more of them make the figure higher


@dataclass(frozen=True)
class Group:
    """Runs of one experiment, which differ in their seeds."""

    label: str
    runs: tuple[Run, ...]

    def curve(self, axis: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return x, mean score and its standard deviation, each (n,), over what all runs cover.

        With one run the deviation is that of its latest episodes, with several that of the runs.
        Several runs are averaged at equal numbers of transitions, their times too: a slow machine
        moves a run along the time axis and leaves the others as they are.
        """
        lines = [_line(run) for run in self.runs]
        if len(lines) == 1:
            line = lines[0]
            return line[axis], line["score"], line["spread"]
        begin = max(line["transitions"][0] for line in lines)
        end = min(line["transitions"][-1] for line in lines)
        if begin > end:
            raise ResultError(f"{self.runs[0].path}: runs of {self.label!r} do not overlap")
        grid = np.linspace(begin, end, _N_POINTS)
        x, scores = (
            np.stack([np.interp(grid, line["transitions"], line[name]) for line in lines])
            for name in (axis, "score")
        )
        return x.mean(axis=0), scores.mean(axis=0), scores.std(axis=0)

    def held_out(self, control: str) -> float | None:
        """Return the mean held-out score of one kind of control, None where no run has it."""
        means = [run.evaluation[control].mean for run in self.runs if control in run.evaluation]
        finite = [mean for mean in means if np.isfinite(mean)]
        return float(np.mean(finite)) if finite else None

    @property
    def band(self) -> str:
        """Return what the band around the line shows."""
        return "the latest episodes" if len(self.runs) == 1 else f"{len(self.runs)} runs"


def _line(run: Run) -> dict[str, FloatArray]:
    """Return the axes, the score and its deviation of one run, from the first ended episode on."""
    score = run.series("iterations", "score_mean").astype(float)
    line = {
        "transitions": run.series("iterations", "transitions").astype(float),
        "time": np.cumsum(np.nan_to_num(run.series("seconds", "total").astype(float))),
        "score": score,
        "spread": np.nan_to_num(run.series("iterations", "score_std").astype(float)),
    }
    known = np.isfinite(score)
    if not known.any():
        raise ResultError(f"{run.path}: holds no score yet: no episode has ended")
    return {name: values[known] for name, values in line.items()}


def group_runs(runs: Sequence[Run], labels: Sequence[str] = ()) -> list[Group]:
    """Return the runs grouped by experiment, in the order of their first appearance."""
    settings = [_settings(run) for run in runs]
    members: dict[str, list[int]] = {}
    for index, setting in enumerate(settings):
        members.setdefault(repr(sorted(setting.items())), []).append(index)
    groups = list(members.values())
    if labels and len(labels) != len(groups):
        raise ConfigError(
            f"--label must be given once for each of the {len(groups)} lines, got {len(labels)}"
        )
    names = list(labels) or _names([settings[group[0]] for group in groups])
    return [
        Group(name, tuple(runs[index] for index in group))
        for name, group in zip(names, groups, strict=True)
    ]


def _settings(run: Run) -> dict[str, Any]:
    """Return what makes a run's experiment, flat."""
    try:
        config = flat_toml(run.attributes.config)
    except ConfigError:
        raise ResultError(f"{run.path}: its configuration is not readable") from None
    kept = {
        name: value for name, value in config.items() if name.partition(".")[0] not in _INDIFFERENT
    }
    return {"env": run.attributes.env, "algo": run.attributes.algo, **kept}


def _names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each experiment: what tells it from the others."""
    first = settings[0]
    if len(settings) == 1:
        return [f"{first['algo']}, {str(first['env']).rpartition(':')[2]}"]
    keys = sorted({key for setting in settings for key in setting})
    varying = [key for key in keys if len({repr(setting.get(key)) for setting in settings}) > 1]
    return [
        ", ".join(f"{key.rpartition('.')[2]}={setting.get(key, '-')}" for key in varying)
        for setting in settings
    ]


def draw_curves(
    groups: Sequence[Group], axes: Sequence[str], path: Path, lowest: float = -np.inf
) -> None:
    """Draw one panel for each axis into a file, cut off below the lowest score to show."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        handles = _legend(groups)
        n_columns = min(len(handles), 2 if len(axes) > 1 else 1)
        rows_beyond = max(-(-len(handles) // n_columns) - _LEGEND_ROWS, 0)
        width = 3.6 * len(axes) + (1.0 if len(axes) == 1 else 0.0)
        figure = Figure(figsize=(width, 3.1 + 0.18 * rows_beyond), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(axes), sharey=True, squeeze=False)[0]
        for panel, axis in zip(panels, axes, strict=True):
            _draw_panel(panel, groups, axis)
        panels[0].set_ylabel(_SCORE)
        _cut_off(panels[0], lowest)
        figure.legend(handles=handles, loc="outside upper center", ncols=n_columns)
        figure.savefig(path)


def _cut_off(panel: Any, lowest: float) -> None:
    """Show nothing below a score, and as little above all as if nothing were below."""
    bottom, top = panel.get_ylim()
    if bottom < lowest:
        margin = panel.margins()[1]
        highest = top - margin / (1.0 + 2.0 * margin) * (top - bottom)
        panel.set_ylim(lowest, highest + margin * (highest - lowest))


def _draw_panel(panel: Any, groups: Sequence[Group], axis: str) -> None:
    from matplotlib.ticker import EngFormatter

    for index, group in enumerate(groups):
        colour, dashes = _colour(index), _DASHES[index // len(COLOURS) % len(_DASHES)]
        x, mean, spread = group.curve(axis)
        panel.plot(x, mean, dashes, color=colour, lw=1.6)
        panel.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)
        trained = group.held_out("trained")
        if trained is not None:
            mark = {"marker": "o", "ms": 5, "mec": "white", "mew": 0.8}
            panel.plot(x[-1:], [trained], color=colour, zorder=5, clip_on=False, **mark)
    for level, colour in _baselines(groups):
        panel.axhline(level, ls=_BASELINE_DASHES, lw=1.1, color=colour, zorder=1)
    panel.set_xlabel(_LABELS[axis])
    panel.set_xlim(left=0)
    if axis == "transitions":
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))


def _legend(groups: Sequence[Group]) -> list[Any]:
    """Return what the legend shows: the lines, then what the marks mean."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=_colour(index),
            lw=1.6,
            ls=_DASHES[index // len(COLOURS) % len(_DASHES)],
            label=f"{group.label} (mean ± std of {group.band})",
        )
        for index, group in enumerate(groups)
    ]
    if any(group.held_out("trained") is not None for group in groups):
        dot = Line2D([], [], color=GREY, marker="o", ms=5, ls="", label="held-out, deterministic")
        handles.append(dot)
    if _baselines(groups):
        line = Line2D([], [], color=GREY, lw=1.1, ls=_BASELINE_DASHES, label="held-out, no control")
        handles.append(line)
    return handles


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _baselines(groups: Sequence[Group]) -> list[tuple[float, str]]:
    """Return the uncontrolled scores to draw: in grey where several groups share one."""
    held_out = [group.held_out("uncontrolled") for group in groups]
    levels = {i: level for i, level in enumerate(held_out) if level is not None}
    baselines = []
    while levels:
        first, level = next(iter(levels.items()))
        equal = [i for i, other in levels.items() if abs(other - level) <= 0.02 * abs(level)]
        is_shared = len(equal) > 1 or len(groups) == 1
        mean = float(np.mean([levels.pop(i) for i in equal]))
        baselines.append((mean, GREY if is_shared else _colour(first)))
    return baselines
