"""Score a trained policy on held-out starts: `python -m flowrl.evaluate run.h5`."""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flowrl.config import ConfigError, parse_options, run_command
from flowrl.config.options import check_fields, required_file, switch, whole, words
from flowrl.evaluation import Evaluation, Evaluator
from flowrl.playback import load_policy
from flowrl.quantities import CONTROLS
from flowrl.recorder import RecorderError, record_evaluation
from flowrl.results import Run
from flowrl.trust import require_trust

PROGRAM = "flowrl.evaluate"


@dataclass(frozen=True)
class EvaluateOptions:
    """Score a trained policy, no control, random and constant actions on held-out starts."""

    run: Path = required_file("results file of the run")
    n_episodes: int = whole(64, "episodes of each kind of control", 1, 10**6)
    seed: int = whole(0, "seed of the held-out starts; equal for runs to compare", 0, 2**31)
    env: tuple[str, ...] = words(
        "the environment that the file names, where that names a module", "ENV"
    )
    write: bool = switch(True, "write the evaluation into the results file")
    json: bool = switch(False, "print one JSON object instead of a table")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


def evaluate_run(path: Path, n_episodes: int, seed: int, trusted: Sequence[str] = ()) -> Evaluation:
    """Score the policy of a results file and all baselines; `trusted` as in `require_trust`."""
    run = Run.open(path)
    config = run.config
    require_trust(config.env, trusted)
    evaluator = Evaluator(config, n_episodes, seed)
    return evaluator.evaluate(load_policy(run, config, evaluator.interface))


def _summary(evaluation: Evaluation) -> dict[str, Any]:
    """Return the scores as the JSON output and the notes hold them."""
    summary: dict[str, Any] = {
        control: {"mean": float(r.mean()), "std": float(r.std()), "n": len(r)}
        for control, r in evaluation.returns.items()
    }
    return {**summary, "gain": evaluation.gain, "constant_action": evaluation.constant}


def _print_table(path: Path, summary: Mapping[str, Any]) -> None:
    table = Table(title=f"Held-out scores of {path.name}", title_justify="left")
    for column in ("control", "mean", "standard deviation", "episodes"):
        table.add_column(column, justify="left" if column == "control" else "right")
    for control in CONTROLS:
        row = summary[control]
        name = f"constant {summary['constant_action']:g}" if control == "constant" else control
        table.add_row(name, f"{row['mean']:.4f}", f"{row['std']:.4f}", str(row["n"]))
    console = Console()
    console.print(table)
    if summary["gain"] is not None:
        console.print(f"gain over no control: {100 * summary['gain']:.1f} % of its score")


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(EvaluateOptions, arguments, PROGRAM)
    evaluation = evaluate_run(options.run, options.n_episodes, options.seed, options.env)
    summary = _summary(evaluation)
    if options.json:
        sys.stdout.write(json.dumps(summary, allow_nan=False) + "\n")
    else:
        _print_table(options.run, summary)
    if options.write:
        try:
            notes = {"constant_action": evaluation.constant, "seed": float(options.seed)}
            record_evaluation(options.run, evaluation.returns, evaluation.gain, notes)
        except RecorderError as error:
            raise ConfigError(f"{error}; the scores above were not written") from None
    return 0


if __name__ == "__main__":
    sys.exit(run_command(command, PROGRAM))
