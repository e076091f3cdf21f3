"""Hold the composer's predictions against measured iterations: `python -m flowrl.bench composer`.

Every assignment of replay manager and learner that can run on this machine, in the form that a
training takes: with workers messages lead to and from the learner, without any all goes in turn.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from flowrl.composer.accelerators import configured_accelerators
from flowrl.composer.check import Comparison, compare
from flowrl.composer.hardware import HardwareSpec, Kind
from flowrl.composer.placement import Mode
from flowrl.composer.profile import Effort
from flowrl.config import NetworkConfig, ParallelConfig, ReplayConfig, RunConfig, parse_options
from flowrl.config.options import check_fields, choice, real, switch, text, whole

PROGRAM = "flowrl.bench composer"


@dataclass(frozen=True)
class ComposerBenchOptions:
    """Compare the predicted with the measured time of an iteration on this machine."""

    algo: str = choice("dqn", "algorithm", ("dqn", "ddpg", "td3", "sac"))
    env: str = text("CartPole-v1", "environment, for its sizes", "ENV")
    width: int = whole(64, "units in each hidden layer", 1, 4096)
    batch_size: int = whole(32, "rows of an update", 1, 10**6)
    insert_size: int = whole(1, "new rows to an update", 1, 10**6)
    capacity: int = whole(100_000, "rows of the buffer", 1, 10**9)
    mode: str = choice("strict", "what runs at the same time", tuple(Mode))
    workers: int = whole(1, "processes that act beside (not run here); 0: all in turn", 0, 4096)
    iterations: int = whole(200, "most iterations of each measurement", 1, 10**6)
    budget: float = real(0.5, "time of each measurement [s]", 0, 1e6, above=True)
    rounds: int = whole(15, "rounds of profiling and measuring in turns", 1, 1000)
    cpu_only: bool = switch(False, "leave other devices than the processor's own backend out")
    json: bool = switch(False, "print one JSON object instead of a table")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


def measure(options: ComposerBenchOptions) -> list[Comparison]:
    """Profile, predict and measure."""
    config = RunConfig(
        algo=options.algo,
        env=options.env,
        n_envs=1,
        network=NetworkConfig(options.width, options.width),
        parallel=ParallelConfig(workers=options.workers),
        replay=ReplayConfig(
            capacity=options.capacity, batch_size=options.batch_size, priorities="prioritized"
        ),
    )
    accelerators = configured_accelerators(config, options.insert_size)
    spec = HardwareSpec.detect()
    if options.cpu_only:
        spec = HardwareSpec(tuple(d for d in spec.devices if d.kind is Kind.CPU), ())
    effort = Effort(options.iterations, options.budget, is_cached=False)
    return compare(spec, accelerators, Mode(options.mode), effort, options.rounds, _log)


def best(comparisons: Sequence[Comparison]) -> tuple[Comparison, float]:
    """Return the predicted best, and its measured time over that of the measured best."""
    chosen = min(comparisons, key=lambda c: c.predicted_s)
    return chosen, chosen.measured_s / min(c.measured_s for c in comparisons)


def _log(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")


def show(comparisons: Sequence[Comparison]) -> None:
    """Print a table, the fastest first."""
    table = Table(title="An iteration", title_justify="left")
    for column in ("replay manager", "learner", "form"):
        table.add_column(column)
    for column in ("predicted \\[ms]", "measured \\[ms]", "predicted / measured", "quartiles"):
        table.add_column(column, justify="right")
    for c in sorted(comparisons, key=lambda c: c.measured_s):
        table.add_row(
            c.replay_manager,
            c.learner,
            c.form,
            f"{1e3 * c.predicted_s:.3g}",
            f"{1e3 * c.measured_s:.3g}",
            f"{c.ratio:.2f}",
            "{:.2f} - {:.2f}".format(*c.ratio_quartiles),
        )
    chosen, excess = best(comparisons)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(
        f"Chosen: {chosen.replay_manager} + {chosen.learner}, {excess:.2f} of the measured best. "
        f"Medians and quartiles of {len(chosen.measured)} rounds."
    )


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(ComposerBenchOptions, arguments, PROGRAM)
    comparisons = measure(options)
    if options.json:
        found = [
            dataclasses.asdict(c)
            | {"predicted_s": c.predicted_s, "measured_s": c.measured_s, "ratio": c.ratio}
            for c in comparisons
        ]
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        show(comparisons)
    return 0
