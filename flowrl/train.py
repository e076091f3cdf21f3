"""Train a policy: `python -m flowrl.train`, alone or under `mpirun -n N`."""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from flowrl.comm import Communicator, abort_on_error, connect
from flowrl.config import ConfigError, RunConfig, error_line, from_toml, parse, to_toml
from flowrl.config.command_line import given_value
from flowrl.config.placement import AUTO
from flowrl.keeping import Keeper
from flowrl.plan import print_plan
from flowrl.recorder import RecorderError
from flowrl.registry import ALGORITHMS, load
from flowrl.resuming import Resumption, find_checkpoint, resumed_config, resumption_lines
from flowrl.session import Session, open_session
from flowrl.startup import has_compiled_code
from flowrl.stopping import REQUEUE, heeding_signals
from flowrl.trainer import Trainer, TrainingError

PROGRAM = "flowrl.train"
_USAGE = 2

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the command line says; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        comm = connect()
    except ConfigError as error:
        sys.stderr.write(f"{error_line(PROGRAM, error)}\n")
        return _USAGE
    try:
        return _run(arguments, comm)
    except BaseException as error:
        # Whatever it is, the other ranks may wait for this one for ever.
        abort_on_error(comm, error)
    return 1


class _LeaveTogether(Exception):
    """Every rank leaves with this exit code.

    Not SystemExit: one that a user's environment raises on one rank must end the others too.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _run(arguments: Sequence[str], comm: Communicator) -> int:
    """Train on this rank; every rank returns the same exit code."""
    try:
        config = _configuration(arguments, comm)
        trainer = _root_first(comm, lambda: _make_trainer(config, comm))
        if config.dry_run:
            if comm.rank == 0:
                print_plan(config, trainer.agent.interface, trainer.plan())
            return 0
        resumption = _resume(config, trainer, comm)
        session = _root_first(
            comm, lambda: open_session(config, trainer, comm, arguments, resumption)
        )
        _root_first(comm, lambda: _warm_up(config, trainer, comm))
    except _LeaveTogether as leaving:
        return leaving.code
    try:
        with session or contextlib.nullcontext():
            return _train(config, trainer, session, comm)
    except (TrainingError, RecorderError) as error:
        # Every rank of PPO sees the same sums, so every rank is here; the file is root's alone.
        if comm.rank == 0:
            _complain(error)
            if config.algo != "ppo" and comm.size > 1:
                comm.abort(1)  # the other ranks act, and wait for root
        return 1
    finally:
        trainer.close()


def _train(config: RunConfig, trainer: Trainer, session: Session | None, comm: Communicator) -> int:
    """Train to the end, or until a signal comes; return the exit code."""
    keeper = Keeper(config.checkpoint, trainer, session)
    # A trainer that can't be saved has nothing to stop for: signals end it as they end any program.
    with heeding_signals(trainer.wishes, comm.rank == 0, trainer.can_be_saved):
        for report in trainer.updates():
            if session is not None and report is not None:
                session.add(report)
            if keeper.after_report():
                if session is not None:
                    session.stop()
                return REQUEUE if keeper.is_sound else 1
        if trainer.can_be_saved:
            keeper.save()
    return 0


def _resume(config: RunConfig, trainer: Trainer, comm: Communicator) -> Resumption | None:
    """Load the newest checkpoint into all ranks' trainers, or leave together."""
    path = config.resume
    if path is None:
        return None
    if not trainer.can_be_saved:
        _together(comm, lambda: trainer.load_state({}, 0))  # says why, before files are looked for
    checkpoint = _together(
        comm, lambda: find_checkpoint(config, path, _warn) if comm.rank == 0 else None
    )
    life = int(comm.broadcast_text(str(checkpoint.header.n_resumes + 1) if checkpoint else ""))
    state = checkpoint.state if checkpoint else {}
    notes = _together(comm, lambda: trainer.load_state(state, life))
    if checkpoint is None:
        return None
    for line in resumption_lines(checkpoint.header, comm, notes):
        _warn(line)
    return Resumption.of(checkpoint)


def _make_trainer(config: RunConfig, comm: Communicator) -> Trainer:
    trainer: Trainer = load(ALGORITHMS[config.algo])(config, comm)
    return trainer


def _warm_up(config: RunConfig, trainer: Trainer, comm: Communicator) -> None:
    if comm.rank == 0 and not has_compiled_code():
        _say(config, "compiling, once: about 20 s; later runs load the result")
    trainer.warm_up()


def _configuration(arguments: Sequence[str], comm: Communicator) -> RunConfig:
    """Read the command line on root and share it, or leave together with one message."""
    text = ""
    if comm.rank == 0:
        try:
            text = to_toml(_placed(_parse(arguments).resolved(), comm))
        except ConfigError as error:
            _complain(error)
            text = _EXIT + str(_USAGE)
        except SystemExit as stop:  # --help has been printed
            text = _EXIT + str(stop.code or 0)
    text = comm.broadcast_text(text)
    if text.startswith(_EXIT):
        raise _LeaveTogether(int(text.removeprefix(_EXIT)))
    config = from_toml(text)
    if config.comm.polite != "auto":
        comm.wait_politely(config.comm.polite == "on")
    return config


def _parse(arguments: Sequence[str]) -> RunConfig:
    path = given_value(arguments, "resume")
    if path is None:
        return parse(arguments, PROGRAM)
    return resumed_config(arguments, Path(path), PROGRAM)


def _placed(config: RunConfig, comm: Communicator) -> RunConfig:
    """Choose the devices where that is left to the composer."""
    if config.placement != AUTO:
        return config
    # Only here: most runs need nothing of it.
    from flowrl.composer.automatic import place

    _say(config, "measuring the devices: up to a minute, once for trainings of this size")
    placed, line = place(config, comm.size == 1 and not config.parallel.workers)
    _say(config, line)
    return placed


def _say(config: RunConfig, line: str) -> None:
    """Print a line before there is a display, where one is wanted."""
    if config.progress.display == "none":
        return
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


# No TOML text begins like this.
_EXIT = "\0exit "


def _root_first(comm: Communicator, build: Callable[[], T]) -> T:
    """Build on root, then on all others at once; leave together where it cannot be built.

    What root compiles and computes lies in caches when the others come for it.
    """
    built: T | None = None
    error: ConfigError | None = None
    for is_turn in (comm.rank == 0, comm.rank != 0):
        if is_turn:
            try:
                built = build()
            except ConfigError as caught:
                error = caught
        comm.barrier()
    _leave_together(comm, error)
    return cast(T, built)


def _together(comm: Communicator, build: Callable[[], T]) -> T:
    """Build on all ranks at once; leave together where any cannot."""
    built: T | None = None
    error: ConfigError | None = None
    try:
        built = build()
    except ConfigError as caught:
        error = caught
    _leave_together(comm, error)
    return cast(T, built)


def _leave_together(comm: Communicator, error: ConfigError | None) -> None:
    """Exit on every rank if any has an error; the first rank that has one reports it."""
    failed = np.zeros(comm.size, np.int64)
    failed[comm.rank] = error is not None
    comm.sum_integers(failed)
    if failed.any():
        if error is not None and comm.rank == np.flatnonzero(failed)[0]:
            _complain(error)
        raise _LeaveTogether(_USAGE)


def _warn(line: str) -> None:
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{PROGRAM}: {line}\n")


def _complain(error: BaseException) -> None:
    sys.stderr.write(f"{error_line(PROGRAM, error)}\n")


if __name__ == "__main__":
    sys.exit(main())
