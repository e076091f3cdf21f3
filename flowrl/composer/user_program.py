"""The program for a trainer of the user's own."""

from __future__ import annotations

import sys
from dataclasses import replace
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from flowrl.composer.native_program import common_parts
from flowrl.composer.source_code import call, literal, plain
from flowrl.config import ConfigError, RunConfig
from flowrl.config.names import shown

if TYPE_CHECKING:
    from flowrl.composer.composer import CompositionResult

_PROGRAM = Template('''"""Train $trainer on $env. Written by flowrl's composer.

    python $name            train, score, write $results
    python $name --help     every option; those of the algorithm itself are the class's

$summary
"""

import flowrl.startup  # before NumPy and numba load

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch

from flowrl.comm import SerialCommunicator
from flowrl.composer.user_run import UserRun, user_primitives
from flowrl.config import $config_names, error_line, parse_options, run_command
from flowrl.recorder import RecorderError
from flowrl.registry import EnvironmentSource
from flowrl.seeding import Stream, integer_seed
from flowrl.session import open_session
from flowrl.trainer import TrainingError

$import_lines

PROGRAM = $program
# The training, and where it runs: the replay manager's sum tree, the learner, the stored rows. A
# part moves by the name of another device in `placement`; `python -m flowrl.compose` lists them.
CONFIG = $config
RESULTS = Path(__file__).with_suffix(".h5")
# The run ends when the latest episodes' mean return reaches this; None: at n_transitions.
TARGET_SCORE = $target
INPUT_SHAPE = $shape  # of an observation, as get_action sees it
ACTING = $acting  # networks that act


$make


def main(arguments: list[str]) -> int:
    """Train until the criterion, score on held-out starts; return the exit code."""
    defaults = replace(CONFIG, out=RESULTS)
    config = parse_options(RunConfig, arguments, PROGRAM, defaults).resolved()
    torch.manual_seed(integer_seed(config.seed, Stream.LEARNER))
    # One process: get_action acts, rows are stored and drawn, update_policy learns them, and its
    # errors become priorities, in turn.
    learner, primitives = user_primitives(config, make_trainer(config), INPUT_SHAPE, ACTING)
    run = UserRun(config, learner, INPUT_SHAPE, primitives)
    session = open_session(
        config, run, SerialCommunicator(), arguments, evaluate=run.evaluate, program=[PROGRAM]
    )
    try:
        with session:
            for report in run.updates():
                session.add(report)  # a row of the HDF5 file, a line on the screen
                if TARGET_SCORE is not None and session.score >= TARGET_SCORE:
                    break
    except (TrainingError, RecorderError) as error:
        sys.stderr.write(f"{error_line(PROGRAM, error)}\\n")
        return 1
    finally:
        run.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, PROGRAM))
''')

_MAKE = Template('''def make_trainer(config: RunConfig) -> TrainerClass:
    """Make the trainer; its spaces are those of the environment."""
    env = EnvironmentSource(config.env, config.env_args).make_single()
    try:
        return $call
    finally:
        env.close()''')


def user_program(
    result: CompositionResult, config: RunConfig, name: str, target_score: float | None
) -> str:
    """Return the source of a program that trains with a class of the user's own."""
    user = result.accelerators.user
    if user is None:
        raise ValueError("the trainer must be one of the user's own")
    # One process steps the environments: the trainer's get_action is asked for every action.
    config = replace(config, parallel=RunConfig().parallel)
    cls, description = user.trainer_class, user.description
    return _PROGRAM.substitute(
        common_parts(result, config, name, target_score),
        trainer=plain(cls.__name__),
        import_lines="\n".join(_imports(cls)),
        shape=literal(description.input_shape),
        acting=literal(description.acting_names),
        make=_MAKE.substitute(call=_construction(result, cls)),
    )


def _construction(result: CompositionResult, cls: type[Any]) -> str:
    """Return the call that makes the trainer, as the composer made it."""
    import inspect

    known = {
        "observation_space": "env.observation_space",
        "action_space": "env.action_space",
        "config": "config",
    }
    taken = inspect.signature(cls).parameters
    arguments = {name: source for name, source in known.items() if name in taken}
    for name, value in result.trainer_options.items():
        if not _is_name(name):  # what takes **options takes any text, which could be code
            raise ConfigError(
                f"options of {cls.__name__} must have Python names in a program, got "
                f"{shown(name)}; rename it"
            )
        arguments[name] = literal(value)
    return call("TrainerClass", arguments, 8)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not iskeyword(text)


def _imports(cls: type[Any]) -> list[str]:
    """Return the lines that import the class, from its module or from its file."""
    name = cls.__qualname__
    if not _is_name(name):
        raise ConfigError(
            f"the trainer class must be at the top of a module, got {name}; a program can't import "
            "what is made inside a function or another class"
        )
    module = cls.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise ConfigError(
            f"the trainer class {name} must be in a file, got one that was typed in; save it as a "
            "module and import it"
        )
    path = Path(file).resolve()
    # Of a script, without what it guards by __name__.
    module = path.stem if module == "__main__" else module
    if Path(sys.prefix).resolve() in path.parents:
        return [f"TrainerClass = import_module({literal(module)}).{name}"]
    folder = path.parents[module.count(".") + (path.name == "__init__.py")]
    return [
        f"sys.path.insert(0, {literal(str(folder))})",
        f"TrainerClass = import_module({literal(module)}).{name}",
    ]
