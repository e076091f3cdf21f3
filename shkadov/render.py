"""Pictures of the film: maps over time and space, single frames, and animations.

The only file of this package that loads matplotlib, and never its windows: figures are made on
their own canvas, so this works without a display and beside any other use of matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from shkadov.params import FilmParams

Snapshot = Mapping[str, NDArray[Any]]
Recordings = Mapping[str, Sequence[Snapshot]]

# White where the film is flat; told apart with any colour vision.
HEIGHT_MAP: Final = "RdBu_r"
ACTION_MAP: Final = "PuOr_r"
FILM_COLOR: Final = "#2f6f9f"
JET_COLOR: Final = "#b5446e"
UPSTREAM: Final = 60.0  # length shown ahead of the first jet [L]
SPEED: Final = 2.0  # time units of the film that an animation shows in a second
FRAMES: Final = 100  # about so many in an animation
MOVING: Final = (".gif", ".mp4")


def draw_episodes(recordings: Recordings, film: FilmParams, path: str | Path) -> None:
    """Draw recorded films one above the other into a file: h over t and x, below it the actions.

    All share one colour scale. The score in a title is the sum of the rewards of the snapshots
    after the first. A file that ends in .gif or .mp4 becomes an animation.
    """
    if Path(path).suffix.lower() in MOVING:
        animate(recordings, film, path)
        return
    _check(recordings)
    n = len(recordings)
    figure = Figure(figsize=(8.0, 0.5 + 2.9 * n), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 * n, 1, sharex=True, height_ratios=n * (4.0, 1.0))
    reach = _reach(recordings, film)
    for k, (name, snapshots) in enumerate(recordings.items()):
        heights = _draw_map(axes[2 * k], snapshots, film, reach)
        title = f"{name}: score {episode_score(snapshots):.3f}"
        axes[2 * k].set_title(title, loc="left", fontsize=10)
        bar = figure.colorbar(heights, ax=axes[2 * k], pad=0.01, aspect=15, extend="both")
        bar.set_label("film height h [-]")
        actions = _draw_actions(axes[2 * k + 1], snapshots, film)
        if actions is not None:
            bar = figure.colorbar(actions, ax=axes[2 * k + 1], pad=0.01, aspect=4)
            bar.set_label("action")
    axes[-1].set_xlabel("time t [-]")
    figure.savefig(path, dpi=150)


def draw_film(snapshots: Sequence[Snapshot], film: FilmParams, path: str | Path) -> None:
    """Draw one recorded film into a file: h over t and x, below it the actions."""
    draw_episodes({f"{film.n_jets} jet{'s' * (film.n_jets > 1)}": snapshots}, film, path)


def animate(
    recordings: Recordings, film: FilmParams, path: str | Path, every: int | None = None
) -> None:
    """Write films of the film one above the other, a GIF or (with ffmpeg) an MP4.

    There is one frame every few snapshots, about FRAMES in all if `every` is not given. A film
    that ended before the others stands still.
    """
    _check(recordings)
    longest = max(recordings.values(), key=len)
    every = max(1, len(longest) // FRAMES) if every is None else every
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    writer = _make_writer(Path(path), max(1, round(SPEED / (every * film.dt_action))))
    stage = _Stage(recordings, film, _times(longest))
    # The writers draw a figure anew for every frame: this one is only the finished picture.
    shown = Figure(figsize=stage.size, dpi=100)
    FigureCanvasAgg(shown)
    image = shown.figimage(stage.frame(0))
    with writer.saving(shown, str(path), dpi=100):
        for k in range(0, len(longest), every):
            image.set_data(stage.frame(k))
            writer.grab_frame()


def picture(snapshot: Snapshot, film: FilmParams) -> NDArray[np.uint8]:
    """Return a picture of the film as it is (height, width, 3), the jets with their actions."""
    figure = Figure(figsize=(8.0, 3.0), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.08, 0.16, 0.9, 0.74))
    _Scene(axes, film, 0.0, 2.5).show(snapshot)
    canvas.draw()
    return np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[:, :, :3])


class _Stage:
    """The scenes of all recordings; what stands still is drawn once, which takes the longest."""

    def __init__(
        self, recordings: Recordings, film: FilmParams, times: NDArray[np.float64]
    ) -> None:
        n = len(recordings)
        self.size = (8.0, 3.6 * n)
        self.figure = Figure(figsize=self.size, dpi=100, layout="constrained")
        self.canvas = FigureCanvasAgg(self.figure)
        axes = self.figure.subplots(2 * n, 1, height_ratios=n * (3.0, 1.0))
        reach = _reach(recordings, film)
        self.recordings = list(recordings.values())
        self.scenes, self.cursors = [], []
        for k, (name, snapshots) in enumerate(recordings.items()):
            scene = _Scene(axes[2 * k], film, 1.0 - 1.1 * reach, 1.0 + 1.8 * reach, name)
            _draw_actions(axes[2 * k + 1], snapshots, film)
            axes[2 * k + 1].set_xlim(times[0], times[-1])
            self.scenes.append(scene)
            self.cursors.append(axes[2 * k + 1].axvline(0.0, color="black", linewidth=1.2))
        axes[-1].set_xlabel("time t [-]")
        self.moving = [artist for scene in self.scenes for artist in scene.moving] + self.cursors
        for artist in self.moving:
            artist.set_animated(True)
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(self.figure.bbox)

    def frame(self, k: int) -> NDArray[np.uint8]:
        """Return the picture of all recordings at snapshot k, (height, width, 4)."""
        for scene, cursor, snapshots in zip(
            self.scenes, self.cursors, self.recordings, strict=True
        ):
            snapshot = snapshots[min(k, len(snapshots) - 1)]
            scene.show(snapshot)
            cursor.set_xdata([float(snapshot["time"])] * 2)
        self.canvas.restore_region(self.background)
        for artist in self.moving:
            self.figure.draw_artist(artist)
        return np.array(self.canvas.buffer_rgba())


class _Scene:
    """The film as seen from the side, with a bar at each jet for its action."""

    def __init__(
        self, axes: Axes, film: FilmParams, low: float, high: float, name: str = ""
    ) -> None:
        self.name = f"{name}: " if name else ""
        self.title = axes.set_title(" ", loc="left", fontsize=10)
        self.low, self.high = low, high
        self.x = np.arange(film.n_nodes) * film.dx
        self.body = axes.fill_between(self.x, 1.0, low, color=FILM_COLOR, alpha=0.35, linewidth=0.0)
        (self.surface,) = axes.plot(self.x, np.ones(film.n_nodes), color=FILM_COLOR, linewidth=1.5)
        axes.axhline(1.0, color="0.4", linewidth=0.8, linestyle=":")
        self.unit = 0.13 * (high - low)
        base = high - 1.25 * self.unit
        positions = list(film.jet_positions)
        self.bars = axes.bar(positions, 0.0, film.jet_width, bottom=base, color=JET_COLOR)
        axes.hlines(
            [base - self.unit, base, base + self.unit],
            positions[0] - film.jet_width,
            positions[-1] + film.jet_width,
            colors=["0.8", "0.5", "0.8"],
            linewidths=0.8,
        )
        axes.text(positions[0] - 1.3 * film.jet_width, base, "action", ha="right", va="center")
        axes.set_xlim(*_window(film))
        axes.set_ylim(low, high)
        axes.set_xlabel("distance x [-]")
        axes.set_ylabel("film height h [-]")
        self.moving: list[Artist] = [self.body, self.surface, *self.bars, self.title]

    def show(self, snapshot: Snapshot) -> None:
        """Change what is drawn to a snapshot."""
        h = np.asarray(snapshot["h"])
        self.surface.set_ydata(h)
        outline = np.concatenate([np.full(h.size, self.low), h[::-1]])
        along = np.concatenate([self.x, self.x[::-1]])
        self.body.set_verts([np.column_stack([along, outline])])
        for bar, u in zip(self.bars, snapshot["action"], strict=True):
            bar.set_height(self.unit * float(u))
        self.title.set_text(f"{self.name}t = {float(snapshot['time']):.2f}")


def episode_score(snapshots: Sequence[Snapshot]) -> float:
    """Return the sum of the rewards of all snapshots but the first."""
    return sum(float(snapshot["reward"]) for snapshot in snapshots[1:])


def _check(recordings: Recordings) -> None:
    if not recordings or not all(len(snapshots) > 1 for snapshots in recordings.values()):
        lengths = {name: len(snapshots) for name, snapshots in recordings.items()}
        raise ValueError(f"recordings must hold lists of two or more snapshots, got {lengths}")


def _make_writer(path: Path, fps: int) -> AbstractMovieWriter:
    if path.suffix.lower() == ".gif":
        return PillowWriter(fps=fps)
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"path must end in .gif or .mp4, got {path}")
    if not FFMpegWriter.isAvailable():
        raise ValueError(f"path must end in .gif, since ffmpeg is not installed, got {path}")
    return FFMpegWriter(fps=fps)


def _window(film: FilmParams) -> tuple[float, float]:
    return max(0.0, film.first_jet - UPSTREAM), film.length


def _reach(recordings: Recordings, film: FilmParams) -> float:
    # How far nearly all heights are from flat: a single crest must not wash out the map.
    shown = [_heights(snapshots, film).ravel() for snapshots in recordings.values()]
    return max(float(np.nanquantile(np.abs(np.concatenate(shown) - 1.0), 0.995)), 1e-3)


def _heights(snapshots: Sequence[Snapshot], film: FilmParams) -> NDArray[np.float64]:
    x = np.asarray(snapshots[0]["x"])
    inside = (x >= _window(film)[0]) & (x <= _window(film)[1])
    return np.stack([np.asarray(snapshot["h"])[inside] for snapshot in snapshots])


def _times(snapshots: Sequence[Snapshot]) -> NDArray[np.float64]:
    return np.array([float(snapshot["time"]) for snapshot in snapshots])


def _draw_map(
    axes: Axes, snapshots: Sequence[Snapshot], film: FilmParams, reach: float
) -> AxesImage:
    times = _times(snapshots)
    begin, end = _window(film)
    image = axes.imshow(
        _heights(snapshots, film).T,
        origin="lower",
        aspect="auto",
        extent=(times[0], times[-1], begin, end),
        cmap=HEIGHT_MAP,
        vmin=1.0 - reach,
        vmax=1.0 + reach,
        interpolation="bilinear",
    )
    for x in film.jet_positions:
        axes.axhline(x, color="black", linewidth=0.8, linestyle=(0, (4, 4)))
        # Outside the frame, at its right edge.
        edge = axes.get_yaxis_transform()
        axes.plot([1.0], [x], "<", color=JET_COLOR, clip_on=False, transform=edge)
    axes.set_ylabel("distance x [-]")
    return image


def _draw_actions(axes: Axes, snapshots: Sequence[Snapshot], film: FilmParams) -> QuadMesh | None:
    times = _times(snapshots)
    axes.set_xlim(times[0], times[-1])
    actions = np.stack([np.asarray(snapshot["action"]) for snapshot in snapshots[1:]])
    if film.n_jets == 1:
        axes.axhline(0.0, color="0.7", linewidth=0.8)
        axes.stairs(actions[:, 0], times, color=JET_COLOR, baseline=None, linewidth=1.2)
        axes.set_ylim(-1.15, 1.15)
        axes.set_ylabel("action")
        return None
    jets = np.arange(film.n_jets + 1) + 0.5
    mesh = axes.pcolormesh(times, jets, actions.T, cmap=ACTION_MAP, vmin=-1.0, vmax=1.0)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_ylabel("jet")
    return mesh
