"""Draw figures from results: `python -m flowrl.plot curves|film|devices FILE.h5 ... -o x.png`."""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowrl.config import ConfigError, nearest, parse_options, run_command
from flowrl.config.options import check_fields, choice, real, required_file, required_files, words
from flowrl.curves import AXES, draw_curves, group_runs
from flowrl.results import Run

PROGRAM = "flowrl.plot"
_STILL = (".png", ".pdf", ".svg")
_MOVING = (".gif", ".mp4")


@dataclass(frozen=True)
class CurvesOptions:
    """Draw the score against transitions and wall time.

    Runs that differ in their seed only are drawn as one line, their mean, with a band of one
    standard deviation.
    """

    runs: tuple[Path, ...] = required_files("results files")
    out: Path = required_file("figure to write", "FILE.png", positional=False, aliases=("-o",))
    x: str = choice("both", "axis to draw against", (*AXES, "both"))
    lowest: float = real(-1e9, "score below which nothing is shown", -1e9, 1e9)
    label: tuple[str, ...] = words(
        "name of a line in the legend, one for each in the order of the files", "TEXT ..."
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)
        _check_suffix(self.out, _STILL)


@dataclass(frozen=True)
class FilmOptions:
    """Draw the environment uncontrolled and controlled by the trained policy, from one start.

    A file that ends in .gif or .mp4 (with ffmpeg) is an animation.
    """

    run: Path = required_file("results file of the run")
    out: Path = required_file("figure to write", "FILE.png", positional=False, aliases=("-o",))
    env: tuple[str, ...] = words(
        "the environment that the file names, where that names a module", "ENV"
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)
        _check_suffix(self.out, _STILL + _MOVING)


@dataclass(frozen=True)
class DevicesOptions:
    """Draw what `python -m flowrl.bench devices` has measured and modelled.

    Times of replay managers and learners against the batch size, and the throughput of all
    assignments with the composer's choice.
    """

    study: Path = required_file("study of devices", "STUDY.h5")
    out: Path = required_file("figure to write", "FILE.png", positional=False, aliases=("-o",))

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)
        _check_suffix(self.out, _STILL)


def curves(arguments: Sequence[str]) -> int:
    """Run `curves`; return the exit code."""
    options = parse_options(CurvesOptions, arguments, f"{PROGRAM} curves")
    groups = group_runs([Run.open(path) for path in options.runs], options.label)
    axes = AXES if options.x == "both" else (options.x,)
    _write(options.out, lambda path: draw_curves(groups, axes, path, options.lowest))
    return 0


def film(arguments: Sequence[str]) -> int:
    """Run `film`; return the exit code."""
    options = parse_options(FilmOptions, arguments, f"{PROGRAM} film")
    # The environment and the policy's code are needed for this figure only.
    from flowrl.playback import record_episodes

    env, recordings = record_episodes(options.run, options.env)
    try:
        _write(options.out, lambda path: _draw_film(env, recordings, path))
    finally:
        env.close()
    return 0


def devices(arguments: Sequence[str]) -> int:
    """Run `devices`; return the exit code."""
    options = parse_options(DevicesOptions, arguments, f"{PROGRAM} devices")
    from flowrl.composer.figures import draw_devices
    from flowrl.composer.study import read_study

    study = read_study(options.study)
    _write(options.out, lambda path: draw_devices(study, path))
    return 0


FIGURES: dict[str, Callable[[Sequence[str]], int]] = {
    "curves": curves,
    "film": film,
    "devices": devices,
}


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    names = ", ".join(FIGURES)
    if not arguments:
        raise ConfigError(
            f"the figure must be one of {names}, got nothing; try {PROGRAM} curves --help"
        )
    if arguments[0] in ("-h", "--help"):
        sys.stdout.write(_HELP)
        return 0
    figure = FIGURES.get(arguments[0])
    if figure is None:
        close = nearest(arguments[0], FIGURES) or "curves"
        raise ConfigError(
            f"the figure must be one of {names}, got {arguments[0]!r}; did you mean {close}?"
        )
    return figure(arguments[1:])


def _check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    if path.suffix.lower() not in suffixes:
        raise ConfigError(f"--out must end in {', '.join(suffixes)}, got {str(path)!r}")


def _draw_film(env: Any, recordings: Mapping[str, Any], path: Path) -> None:
    try:
        env.unwrapped.draw_episodes(recordings, path)
    except ConfigError:
        raise
    except ValueError as error:  # What the environment says of a file that it cannot draw.
        raise ConfigError(f"--out: {error}") from error


def _write(path: Path, draw: Callable[[Path], None]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"--out {path}: cannot be written: {reason}") from error


_HELP = f"""usage: {PROGRAM} FIGURE FILE.h5 ... -o FILE.png

Draw figures from results files.

figures:
  curves RUN.h5 ...  the score against transitions and wall time
  film RUN.h5        the environment uncontrolled and controlled, from one start
  devices STUDY.h5   times and throughput of devices, from python -m flowrl.bench devices

{PROGRAM} FIGURE --help shows the options of a figure.
"""

if __name__ == "__main__":
    sys.exit(run_command(command, PROGRAM))
