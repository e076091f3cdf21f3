"""The program for the project's own algorithms."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from flowrl.composer.source_code import dataclass_names, dataclass_source, literal, plain
from flowrl.config import RunConfig
from flowrl.config.placement import Places, read_placement

if TYPE_CHECKING:
    from flowrl.composer.composer import CompositionResult

_PROGRAM = Template('''"""Train $algo on $env. Written by flowrl's composer.

    python $name            train, score, write $results
    python $name --help     every option

$summary
"""

import flowrl.startup  # before NumPy and numba load

import sys
from dataclasses import replace
from pathlib import Path

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.comm import SerialCommunicator
from flowrl.config import $config_names, error_line, parse_options, run_command
from flowrl.keeping import Keeper
from flowrl.parallel.trainer import make_trainer
from flowrl.placed import Placed, Primitives
from flowrl.recorder import RecorderError
from flowrl.registry import EnvironmentSource
from flowrl.session import open_session
from flowrl.stopping import REQUEUE, heeding_signals
from flowrl.trainer import TrainingError

PROGRAM = $program
# The training, and where it runs: the replay manager's sum tree, the learner, the stored rows. A
# part moves by the name of another device in `placement`; `python -m flowrl.compose` lists them.
CONFIG = $config
RESULTS = Path(__file__).with_suffix(".h5")
# The run ends when the latest episodes' mean return reaches this; None: at n_transitions.
TARGET_SCORE = $target


def make_primitives(config: RunConfig) -> Primitives:
    """Make data storage, replay manager and learner, each on its device."""
    interface = EnvironmentSource(config.env, config.env_args).interface(config.n_envs)
    agent = OffPolicyAgent.build(config, interface)
    places = Placed.find(config.placement)
    storage = places.storage(config, agent.interface)
    replay_manager = places.replay_manager(config.replay, storage)
    learner = places.learner(config, agent)
    return Primitives(places, storage, replay_manager, learner)


def main(arguments: list[str]) -> int:
    """Train until the criterion, score on held-out starts; return the exit code."""
    defaults = replace(CONFIG, out=RESULTS)
    config = parse_options(RunConfig, arguments, PROGRAM, defaults).resolved()
    # $protocol
    trainer = make_trainer(config, SerialCommunicator(), make_primitives(config))
    session = open_session(config, trainer, SerialCommunicator(), arguments, program=[PROGRAM])
    keeper = Keeper(config.checkpoint, trainer, session)
    trainer.warm_up()
    try:
        with session, heeding_signals(trainer.wishes, True, trainer.can_be_saved):
            for report in trainer.updates():
                session.add(report)  # a row of the HDF5 file, a line on the screen
                if keeper.after_report():  # writes checkpoints; true after a signal
                    session.stop()
                    return REQUEUE
                if TARGET_SCORE is not None and session.score >= TARGET_SCORE:
                    break
            if trainer.can_be_saved:
                keeper.save()
    except (TrainingError, RecorderError) as error:
        sys.stderr.write(f"{error_line(PROGRAM, error)}\\n")
        return 1
    finally:
        trainer.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, PROGRAM))
''')

# How the parts talk, by who acts and by how replay manager and learner are joined.
_TURNS = """One process: it acts, stores, draws, learns and sets priorities in turn."""
_JOINED = """Actors are processes of their own. They send transitions to the host (DCQ), which
    # hands them to the one thread of replay manager and learner (setting 2)."""
_RELAYED = """Actors are processes of their own. They send transitions to the host (DCQ). It relays
    # between two threads (setting 1): new rows, draws and priorities to the replay manager (RRQ),
    # batches to the learner (LAQ), errors back (LDQ). Every message carries its number."""


def native_program(
    result: CompositionResult, config: RunConfig, name: str, target_score: float | None
) -> str:
    """Return the source of a program that trains one of the project's algorithms."""
    parts = common_parts(result, config, name, target_score)
    return _PROGRAM.substitute(parts, algo=config.algo.upper(), protocol=_protocol(config))


def common_parts(
    result: CompositionResult, config: RunConfig, name: str, target_score: float | None
) -> dict[str, str]:
    """Return the pieces of source that every program holds, by their names in the templates."""
    return {
        "env": plain(config.env),
        "name": plain(name),
        "results": plain(name).removesuffix(".py") + ".h5",
        "summary": _summary(result, _places(config)),
        "config_names": ", ".join(sorted(dataclass_names(config))),
        "program": literal(plain(name)),
        "config": dataclass_source(config),
        "target": literal(target_score),
    }


def _protocol(config: RunConfig) -> str:
    if not config.parallel.workers:
        return _TURNS
    places = _places(config)
    is_joined = places.replay == places.learner and config.parallel.setting != "relayed"
    return _JOINED if is_joined else _RELAYED


def _places(config: RunConfig) -> Places:
    """Return the devices of a composed configuration."""
    places = read_placement(config.placement)
    if places is None:
        raise ValueError("a composed configuration names its devices")
    return places


def _summary(result: CompositionResult, places: Places) -> str:
    """Return what was composed, for a reader of the program."""
    placement = result.placement
    costs = ", ".join(sorted(str(origin) for origin in placement.cost_origins))
    rows = [
        ("replay manager", plain(places.replay)),
        ("learner", plain(places.learner)),
        ("data storage", plain(places.storage)),
        (
            "iteration",
            f"{placement.mode}; {placement.t_itr_s * 1e6:.4g} us by costs that are {costs}",
        ),
        ("chosen for", f"{placement.metric}: {placement.eps:.4g} rows learnt a second"),
    ]
    return "\n".join(f"{name:16}{value}" for name, value in rows)
