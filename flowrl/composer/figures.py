"""Draw a study of devices: latencies over batch sizes, and throughput of all assignments."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from flowrl.composer.costs import Origin
from flowrl.composer.study import JOINT, DeviceStudy
from flowrl.curves import COLOURS, GREY, STYLE
from flowrl.trajectory import Float64Array

MAP_BATCHES = (32, 512)  # batch sizes of the maps, where the study has them [rows]
_MANAGING, _TRAINING = slice(0, 3), slice(3, 4)  # of PRIMITIVES
_MARKERS = "osD^vPX"
# line style, filled markers
_LINES: dict[Origin, tuple[Any, bool]] = {
    Origin.MEASURED: ("-", True),
    Origin.MODELLED: ((0, (4, 2)), False),
    Origin.GIVEN: ((0, (1, 1.5)), False),
}
_HATCHES = {Origin.MODELLED: "////", Origin.GIVEN: "...."}
_COLOUR_MAP = "cividis"  # made to look alike with any kind of colour vision
_MAPS_IN_A_ROW = 4
_WIDTH = 10.0  # [inches]
_NO_NUMBER = "#e6e6e6"


def draw_devices(study: DeviceStudy, path: Path) -> None:
    """Draw the three kinds of panel into a file."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    batches = map_batches(study)
    n_rows = -(-len(batches) * len(study.networks) // _MAPS_IN_A_ROW)
    heights = [3.3, 3.1 * n_rows + 1.1]
    with mpl.rc_context(STYLE | {"hatch.linewidth": 0.5}):
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        parts: Any = figure.subfigures(2, 1, height_ratios=heights)
        _draw_latencies(parts[0], study)
        _draw_maps(parts[1], study, batches)
        figure.savefig(path)


def map_batches(study: DeviceStudy) -> tuple[int, ...]:
    """Return the batch sizes whose assignments are drawn: 32 and 512, else the ends [rows]."""
    found = tuple(size for size in MAP_BATCHES if size in study.batch_sizes)
    return found or tuple(sorted({study.batch_sizes[0], study.batch_sizes[-1]}))


def latency(
    study: DeviceStudy, network: int, device: int, primitives: slice
) -> tuple[Float64Array, Float64Array]:
    """Return times and their interquartile ranges over the batch sizes, nan where none [s]."""
    place = (network, slice(None), device, primitives)
    seconds = study.seconds["alone"][place].sum(axis=-1)
    seconds[np.isinf(seconds)] = np.nan
    return seconds, study.spread["alone"][place].sum(axis=-1)


def _draw_latencies(figure: Any, study: DeviceStudy) -> None:
    panels = figure.subplots(1, 1 + len(study.networks), squeeze=False)[0]
    new = study.attributes.get("insert_size", "?")
    _draw_lines(panels[0], study, 0, _MANAGING)
    rows = "row" if new == 1 else "rows"
    panels[0].set_title(
        f"(a) replay manager\nsample, update, insert ({new} new {rows})", fontsize=9
    )
    panels[0].set_ylabel("time in an iteration [s]")
    for network, panel in enumerate(panels[1:]):
        if network:
            panel.sharey(panels[1])
        _draw_lines(panel, study, network, _TRAINING)
        panel.set_title(f"(b) learner\n{study.networks[network]}", fontsize=9)
    panels[1].set_ylabel("time of an update [s]")
    figure.legend(handles=_line_legend(study), loc="outside upper center", ncols=4)


def _draw_lines(panel: Any, study: DeviceStudy, network: int, primitives: slice) -> None:
    from matplotlib.ticker import EngFormatter, NullFormatter, NullLocator

    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    for device in range(len(study.devices)):
        seconds, spread = latency(study, network, device, primitives)
        # On a logarithmic axis there is no place for a bar that reaches 0.
        below = np.minimum(spread / 2, 0.9 * np.nan_to_num(seconds, nan=inf))
        bars = np.stack([below, spread / 2])
        style = _style(device, study.origin_of(device, network, primitives))
        panel.errorbar(study.batch_sizes, seconds, yerr=bars, elinewidth=0.8, **style)
    panel.set_xticks(study.batch_sizes, [str(size) for size in study.batch_sizes])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(EngFormatter(unit="s"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("batch size [rows]")


def _style(device: int, origin: Origin) -> dict[str, Any]:
    dashes, is_filled = _LINES[origin]
    colour = COLOURS[device % len(COLOURS)]
    return {
        "color": colour,
        "ls": dashes,
        "lw": 1.5,
        "marker": _MARKERS[device % len(_MARKERS)],
        "ms": 5,
        "mfc": colour if is_filled else "white",
    }


def _line_legend(study: DeviceStudy) -> list[Any]:
    """Return what tells the devices apart, each with the origin of its numbers."""
    from matplotlib.lines import Line2D

    handles = []
    for device, name in enumerate(study.devices):
        origin = study.origin_of(device, 0, slice(None))
        what = f"{origin}, emulated on the CPU" if study.emulated[device] else str(origin)
        style = _style(device, origin)
        handles.append(Line2D([], [], label=f"{name} ({what})", **style))
    return handles


def _draw_maps(figure: Any, study: DeviceStudy, batches: Sequence[int]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import EngFormatter

    cells = [(network, size) for network in range(len(study.networks)) for size in batches]
    n_columns = min(len(cells), _MAPS_IN_A_ROW)
    n_rows = -(-len(cells) // n_columns)
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    scale = ScalarMappable(_norm(study, cells), _COLOUR_MAP)
    for panel, (network, size) in zip(panels.flat, cells, strict=False):
        _draw_map(panel, study, network, study.batch_sizes.index(size), scale)
        algo, _, sizes = study.networks[network].partition(", ")
        panel.set_title(f"(c) {algo}, batch {size}\n{sizes}", fontsize=9)
    for panel in panels.flat[len(cells) :]:
        panel.set_visible(False)
    for row in panels:
        row[0].set_ylabel("replay manager")
    bar = figure.colorbar(scale, ax=panels, format=EngFormatter(sep=""), aspect=30, pad=0.01)
    bar.set_label("predicted throughput [samples/s]")
    legend = figure.legend(
        handles=_map_legend(study),
        loc="outside lower center",
        ncols=3,
        borderaxespad=0.0,
        title=_note(study),
    )
    legend.get_title().set_fontsize(8)


def _note(study: DeviceStudy) -> str:
    """Return what holds for the whole figure."""
    of = study.attributes
    return (
        "Bars: half the interquartile range of measured times to each side, "
        "cut off at a tenth of the median.\n"
        f"Predictions for iterations in mode {of.get('mode', '?')} of prioritized replay "
        f"({of.get('capacity', '?')} rows)."
    )


def _norm(study: DeviceStudy, cells: Sequence[tuple[int, int]]) -> Any:
    """Return one logarithmic scale for all maps."""
    from matplotlib.colors import LogNorm

    values = np.array([study.eps[n, study.batch_sizes.index(size)] for n, size in cells])
    known = values[np.isfinite(values) & (values > 0)]
    low, high = (known.min(), known.max()) if known.size else (1.0, 1.0)
    return LogNorm(low, high if high > low else 10 * low)


def _draw_map(panel: Any, study: DeviceStudy, network: int, batch: int, scale: Any) -> None:
    n = len(study.devices)
    panel.grid(False)
    panel.set_aspect("equal")
    panel.spines[:].set_visible(False)
    panel.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), xlabel="learner")
    for row in range(n):
        for column in range(n):
            value = float(study.eps[network, batch, row, column])
            origin = str(study.eps_origin[network, batch, row, column])
            _draw_cell(panel, (row, column), value, origin, scale)
    _mark(panel, study.choice_here[network, batch], "--")
    _mark(panel, study.choice[network, batch], "-")
    panel.set_xticks(range(n), study.devices, rotation=35, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(n), study.devices)
    panel.tick_params(length=0, labelleft=panel.get_subplotspec().is_first_col())


def _draw_cell(panel: Any, place: tuple[int, int], value: float, origin: str, scale: Any) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    row, column = place
    is_number = value > 0
    colour = to_rgb(scale.to_rgba(value) if is_number else _NO_NUMBER)
    ink = "black" if _lightness(colour) > 0.45 else "white"
    corner = (column - 0.5, row - 0.5)
    panel.add_patch(Rectangle(corner, 1, 1, fc=colour, ec="white", lw=1.0))
    if is_number:
        for name in origin.split(JOINT):
            hatch = _HATCHES.get(Origin(name))
            panel.add_patch(Rectangle(corner, 1, 1, fill=False, ec=ink, lw=0, hatch=hatch))
    box = {"boxstyle": "round,pad=0.15", "fc": colour, "ec": "none"}
    panel.text(column, row, cell_text(value), color=ink, fontsize=8, bbox=box, ha="center",
               va="center")  # fmt: skip


def cell_text(value: float) -> str:
    """Return a throughput with three digits, or why there is none."""
    from matplotlib.ticker import EngFormatter

    if isnan(value):
        return "n/m"
    if value == 0:
        return "0"
    return str(EngFormatter(sep="").format_eng(float(f"{value:.3g}")))


def _lightness(colour: Sequence[float]) -> float:
    return float(np.dot(colour[:3], (0.299, 0.587, 0.114)))


def _mark(panel: Any, place: Any, dashes: str) -> None:
    """Frame the cell of a choice."""
    from matplotlib.patches import Rectangle

    row, column = (int(x) for x in place)
    frame: Any = {"fill": False, "clip_on": False, "zorder": 4}
    corner = (column - 0.46, row - 0.46)
    panel.add_patch(Rectangle(corner, 0.92, 0.92, ec="white", lw=3.6, **frame))
    panel.add_patch(Rectangle(corner, 0.92, 0.92, ec=COLOURS[1], lw=2.0, ls=dashes, **frame))


def _map_legend(study: DeviceStudy) -> list[Any]:
    """Return what frames, hatches and missing numbers mean, as far as they occur."""
    from matplotlib.patches import Patch

    def frame(dashes: str, label: str) -> Any:
        return Patch(fc="white", ec=COLOURS[1], lw=2.0, ls=dashes, label=label)

    found = {name for text in study.eps_origin.flat for name in str(text).split(JOINT)}
    handles = [frame("-", "the composer's choice")]
    if (study.choice != study.choice_here).any():
        handles.append(frame("--", "its choice without modelled devices"))
    handles.append(Patch(fc="white", ec=GREY, label="from measured times"))
    for origin, hatch in _HATCHES.items():
        if origin in found:
            label = f"from {origin} times, in whole or in part"
            handles.append(Patch(fc="white", ec=GREY, hatch=hatch, label=label))
    if np.isnan(study.eps).any():
        handles.append(Patch(fc=_NO_NUMBER, ec=GREY, label="n/m: not measured"))
    return handles
