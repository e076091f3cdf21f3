"""What root's terminal shows while a run goes on: a live table, plain lines, or nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TextIO, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from flowrl.config import ProgressConfig
from flowrl.quantities import SHARES

Record = Mapping[str, float]  # one update: a row of the iterations and one of the seconds
Returns = Mapping[str, NDArray[np.float64]]

# Quantities of a record, the label and the format they are shown with.
_SHOWN = (
    ("score_mean", "score", "{:.4g}"),
    ("n_episodes", "episodes", "{:.0f}"),
    ("approximate_kl", "KL [nat]", "{:.2e}"),
    ("clip_fraction", "clip fraction", "{:.3f}"),
    ("critic_loss", "critic loss", "{:.3g}"),
    ("mean_value", "value", "{:.3g}"),
    ("entropy", "entropy [nat]", "{:.3f}"),
    ("exploration", "exploration", "{:.3f}"),
    ("update_ratio", "updates/transition", "{:.3f}"),
    ("blow_ups", "blow-ups", "{:.0f}"),
)


class Progress(Protocol):
    """One display of a run."""

    def __enter__(self) -> Self:
        """Start to show."""

    def __exit__(self, *ending: object) -> None:
        """Leave the last state on the screen."""

    def update(self, record: Record) -> None:
        """Show one update."""

    def note(self, text: str) -> None:
        """Show a line."""

    def show_evaluation(self, returns: Returns, gain: float | None) -> None:
        """Show the held-out scores."""


class NoProgress:
    """Show nothing."""

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(self, *ending: object) -> None:
        """End."""

    def update(self, record: Record) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def show_evaluation(self, returns: Returns, gain: float | None) -> None:
        """Show nothing."""


class Screen:
    """A stream that falls silent at the first write that fails, instead of ending the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_silent = False

    def write(self, text: str) -> int:
        """Write a text, or nothing."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Hand on what has been written."""
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        """Answer what else rich asks a stream: its encoding, whether it is a terminal."""
        return getattr(self._stream, name)

    def _try(self, action: Callable[[], object]) -> None:
        if self._is_silent:
            return
        try:
            action()
        except OSError:  # A full disk, or a pipe whose reader has gone.
            self._is_silent = True
            # Python would fail once more, at its end, on what is left in the stream's buffer.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())


class PlainProgress:
    """One line now and then: for log files and pipes."""

    def __init__(self, n_transitions: int, interval: float, n_before: int = 0) -> None:
        """Print at most one line per `interval` [s], and one for the last update.

        `n_before` transitions were made before the run was resumed.
        """
        self._total, self._interval, self._n_before = n_transitions, interval, n_before
        self._start = self._last = time.monotonic()
        self._screen = Screen(sys.stdout)

    def __enter__(self) -> Self:
        """Start the clock."""
        self._start = time.monotonic()
        self._last = -np.inf
        return self

    def __exit__(self, *ending: object) -> None:
        """End."""

    def update(self, record: Record) -> None:
        """Print a line if one is due."""
        now = time.monotonic()
        if now - self._last < self._interval and record["transitions"] < self._total:
            return
        self._last = now
        pace = (record["transitions"] - self._n_before) / max(now - self._start, 1e-9)
        numbers = " ".join(
            f"{label.split(' [')[0].replace(' ', '_')}={_shown(form, record[name])}"
            for name, label, form in _known(record)
        )
        shares = " ".join(f"{name}={record[name]:.3f}s" for name in SHARES if name in record)
        count = f"{record['transitions']:.0f}/{self._total}"
        self._print(f"transitions={count} {numbers} transitions/s={pace:.0f} {shares}")

    def note(self, text: str) -> None:
        """Print a line."""
        self._print(text)

    def show_evaluation(self, returns: Returns, gain: float | None) -> None:
        """Print the held-out scores in one line."""
        scores = " ".join(f"{control}={r.mean():.4g}" for control, r in returns.items())
        self._print(f"held-out: {scores} gain={_percent(gain)}")

    def _print(self, line: str) -> None:
        self._screen.write(f"{line}\n")
        self._screen.flush()


class RichProgress:
    """A bar and a table that change in place."""

    def __init__(self, n_transitions: int, console: Console, n_before: int = 0) -> None:
        """Show a run of which `n_before` transitions were made before it was resumed."""
        self._console, self._n_before = console, n_before
        self._bar = Bar(
            "[bold]transitions", BarColumn(40), MofNCompleteColumn(), TaskProgressColumn(),
            "left", TimeRemainingColumn(), console=console,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=n_transitions)
        self._live = Live(self._render(None), console=console, refresh_per_second=4)
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        """Start to show."""
        self._start = time.monotonic()
        self._live.start()
        return self

    def __exit__(self, *ending: object) -> None:
        """Leave the last state on the screen."""
        self._live.stop()

    def update(self, record: Record) -> None:
        """Show one update."""
        self._bar.update(self._task, completed=int(record["transitions"]))
        self._live.update(self._render(record))

    def _render(self, record: Record | None) -> RenderableType:
        if record is None:
            return Group(self._bar)
        table = Table(box=None, pad_edge=False)
        shares = [name for name in SHARES if name in record]
        for _, label, _ in _known(record):
            table.add_column(label.replace("[", "\\["), justify="right")
        table.add_column("transitions/s", justify="right")
        for share in shares:
            table.add_column(f"{share} \\[s]", justify="right")
        n_since = record["transitions"] - self._n_before
        pace = n_since / max(time.monotonic() - self._start, 1e-9)
        numbers = [_shown(form, record[name]) for name, _, form in _known(record)]
        table.add_row(*numbers, f"{pace:,.0f}", *(f"{record[name]:.3f}" for name in shares))
        return Group(self._bar, table)

    def note(self, text: str) -> None:
        """Print a line below the table."""
        self._console.print(text)

    def show_evaluation(self, returns: Returns, gain: float | None) -> None:
        """Show the held-out scores as a table."""
        table = Table(title="Held-out scores", title_justify="left", box=None, pad_edge=False)
        for control in returns:
            table.add_column(control, justify="right")
        table.add_column("gain", justify="right")
        table.add_row(*(f"{r.mean():.4g}" for r in returns.values()), _percent(gain))
        self._console.print(table)


def _known(record: Record) -> list[tuple[str, str, str]]:
    """Return what there is to show of a record: algorithms measure different things."""
    return [entry for entry in _SHOWN if entry[0] in record]


def _shown(form: str, value: float) -> str:
    return "-" if np.isnan(value) else form.format(value)  # no episode has ended yet, say


def _percent(gain: float | None) -> str:
    return "-" if gain is None else f"{100 * gain:.1f}%"


def make_progress(config: ProgressConfig, n_transitions: int, n_before: int = 0) -> Progress:
    """Return the display that the configuration asks for, or the one that fits the terminal.

    `n_before` transitions were made before the run was resumed.
    """
    display = config.display
    if display == "auto":
        display = "rich" if sys.stdout.isatty() else "plain"
    if display == "rich":
        console = Console(file=cast(TextIO, Screen(sys.stdout)))
        return RichProgress(n_transitions, console, n_before)
    if display == "plain":
        return PlainProgress(n_transitions, config.interval, n_before)
    return NoProgress()
