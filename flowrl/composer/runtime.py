"""Write the program that trains as composed: PEARL's RuntimeGen.

The program is an assembly of flowrl's own parts, in the open: primitives on their devices, actors,
host and queues, the loop until the criterion, results, checkpoints and scores. It needs no
composer to run, and moving a part to another device is one word in it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from flowrl.composer.native_program import native_program
from flowrl.composer.output import replace_text
from flowrl.composer.runnable import runnable_places
from flowrl.config import ConfigError, RunConfig
from flowrl.config.names import shown

if TYPE_CHECKING:
    from flowrl.composer.composer import CompositionResult


def generate(result: CompositionResult, path: Path, target_score: float | None = None) -> None:
    """Write the program; raise ConfigError for what can't be written down or put there.

    With a target the run ends when the latest episodes' mean return reaches it.
    """
    if "\0" in str(path):
        raise ConfigError(f"the program must be a file, got {shown(str(path))}; name another")
    if path.suffix != ".py":
        raise ConfigError(f"the program must be a .py file, got {path}; name it {path}.py")
    if target_score is not None:
        target_score = _finite(target_score)
    config = composed_config(result)
    if result.accelerators.user is None:
        text = native_program(result, config, path.name, target_score)
    else:
        from flowrl.composer.user_program import user_program

        text = user_program(result, config, path.name, target_score)
    compile(text, str(path), "exec")  # what we write is always a program
    _write(path, text)


def composed_config(result: CompositionResult) -> RunConfig:
    """Return the run's configuration, with the devices and the mode that were composed.

    Relaxed and pipelined iterations need actors beside the learner, and two threads.
    """
    placement, config = result.placement, result.config
    places = runnable_places(placement, result.spec, result.workload.is_prioritized)
    parallel = config.parallel
    if placement.mode != "strict":
        parallel = replace(
            parallel,
            workers=max(1, parallel.workers),
            setting="relayed",
            iteration=str(placement.mode),
        )
    return replace(config, placement=str(places), parallel=parallel)


def _finite(target_score: object) -> float:
    is_number = isinstance(target_score, (int, float)) and not isinstance(target_score, bool)
    if not is_number or not abs(cast(float, target_score)) <= sys.float_info.max:
        raise ConfigError(
            f"target_score must be a finite number or None, got {shown(target_score)}; leave it out"
        )
    return float(cast(float, target_score))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror or error}") from error
