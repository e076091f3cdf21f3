"""Continue a run: its configuration from its results file, its state from its newest checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flowrl.checkpoint import Checkpoint, Header
from flowrl.claim import is_locked
from flowrl.comm import Communicator
from flowrl.config import ConfigError, RunConfig, flat_toml, from_toml, parse_options, to_toml
from flowrl.config.command_line import given_value
from flowrl.config.names import shown
from flowrl.results import ResultError, Run, RunAttributes
from flowrl.shelf import Shelf
from flowrl.state import take
from flowrl.trajectory import Float64Array
from flowrl.trust import require_trust

LATEST = "session/latest"  # the latest returns
# Options that change nothing of the experiment, and sections of such.
_FREE = ("n_transitions", "resume", "out", "dry_run", "replay.file", "parallel.max_replacements")
_FREE_SECTIONS = ("progress.", "checkpoint.", "comm.", "record.", "evaluation.")


@dataclass(frozen=True)
class Resumption:
    """From where a run goes on, as its results file needs to know it."""

    header: Header
    latest: Float64Array  # latest returns (n,)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Resumption:
        """Read it from a checkpoint; raise StateError where that lacks it."""
        return cls(checkpoint.header, take(checkpoint.state, LATEST, np.float64, (None,)))


def resumed_config(arguments: Sequence[str], path: Path, program: str) -> RunConfig:
    """Return the configuration of a results file, with what the command line may change of it.

    Raises ConfigError for any other option, and for a run that can't be continued.
    """
    attributes = RunAttributes.read(path)
    of_file = from_toml(attributes.config, str(path))
    before = replace(of_file, resume=None, dry_run=False, overwrite=False, out=path)
    _refuse_config_file(arguments)
    config = replace(parse_options(RunConfig, arguments, program, before), out=before.out)
    _refuse_other_options(before, config, arguments)
    _require_trust(before, arguments)
    if attributes.status == "finished" and config.n_transitions == before.n_transitions:
        raise ConfigError(
            f"--resume {path}: the run has finished; give more --n-transitions than its "
            f"{before.n_transitions} to go on"
        )
    _refuse_running(path, attributes)
    return config


def _refuse_config_file(arguments: Sequence[str]) -> None:
    if given_value(arguments, "config") is not None:
        raise ConfigError("--config can't be given with --resume: the run keeps its options")


def _refuse_other_options(before: RunConfig, config: RunConfig, arguments: Sequence[str]) -> None:
    """Raise ConfigError for an option that would make another experiment of the run."""
    if given_value(arguments, "out") is not None:
        raise ConfigError("--out can't be given with --resume, which writes on in the run's file")
    old, new = flat_toml(to_toml(before)), flat_toml(to_toml(config))
    for name in (*old, *new):
        is_free = name in _FREE or name.startswith(_FREE_SECTIONS)
        if not is_free and old.get(name) != new.get(name):
            option = "--" + name.replace("_", "-")
            raise ConfigError(
                f"{option} must be as in the run, {shown(str(old.get(name)))}, got "
                f"{shown(str(new.get(name)))}: it would change the experiment; leave it out, or "
                "start another run"
            )
    if config.n_transitions < before.n_transitions:
        raise ConfigError(
            f"--n-transitions must be at least the {before.n_transitions} of the run, got "
            f"{config.n_transitions}; leave it out"
        )


def _require_trust(config: RunConfig, arguments: Sequence[str]) -> None:
    """Ask for what a stranger's file could misuse: a function to call, a file to overwrite."""
    require_trust(config.env, [given_value(arguments, "env") or ""])
    if config.replay.storage == "file" and given_value(arguments, "replay.file") is None:
        raise ConfigError(
            f"--replay.file must be given with --resume, as the run's file names one to be "
            f"written, {shown(str(config.replay.file))}; give that or another one"
        )


def _refuse_running(path: Path, attributes: RunAttributes) -> None:
    try:
        is_running = is_locked(path)
    except OSError as error:
        raise ResultError(f"{path}: can't be written: {os.strerror(error.errno or 0)}") from error
    if is_running:
        raise ConfigError(
            f"--resume {path}: is being written by a run in progress (process "
            f"{attributes.process} on {attributes.host}) or held open by another program"
        )


def find_checkpoint(config: RunConfig, path: Path, warn: Callable[[str], None]) -> Checkpoint:
    """Return the newest sound checkpoint of the run in a results file; raise ConfigError."""
    run = Run.open(path)
    if not run.attributes.run_id:
        raise ConfigError(f"--resume {path}: written by an older flowrl, which kept no checkpoints")
    shelf = Shelf(path, config.checkpoint.keep)
    checkpoint = shelf.newest(run.attributes.run_id, run.n_rows, warn)
    Resumption.of(checkpoint)  # what it lacks is better known before anything is loaded
    return checkpoint


def resumption_lines(header: Header, comm: Communicator, notes: Sequence[str]) -> list[str]:
    """Say from where a run goes on, and what is not as it was."""
    lines = [f"going on after update {header.update}, {header.transitions} transitions"]
    if header.n_ranks != comm.size:
        lines.append(f"the run was on {header.n_ranks} ranks, it goes on with {comm.size}")
    return [*lines, *notes]
