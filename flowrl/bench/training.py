"""Time whole off-policy trainings: acting, storing, learning; ours beside other code, in one run.

Same environment, network, batch, random transitions at first, and one update a transition.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from flowrl.bench.training_peers import PEERS, PeerMissing
from flowrl.comm import SerialCommunicator
from flowrl.config import (
    EvaluationConfig,
    NetworkConfig,
    OffPolicyConfig,
    ProgressConfig,
    ReplayConfig,
    RunConfig,
    parse_options,
)
from flowrl.config.options import check_fields, choice, whole, words
from flowrl.quantities import OFF_POLICY_SHARES
from flowrl.registry import ALGORITHMS, load
from flowrl.trainer import Trainer

OURS = "flowrl"
_ENVIRONMENTS = ("Pendulum-v1", "shkadov:Shkadov-v0")


@dataclass(frozen=True)
class TrainingBenchOptions:
    """Time whole trainings of one algorithm beside Stable-Baselines3 and a plain torch script."""

    algo: str = choice("sac", "algorithm", ("sac", "td3"))
    env: tuple[str, ...] = words("environments; by default Pendulum-v1 and the film", "ENV ...")
    n_transitions: int = whole(1500, "transitions of one training", 200, 10**6)
    width: int = whole(256, "units of each of the two hidden layers", 1, 4096)
    batch_size: int = whole(256, "rows of an update", 1, 10**5)
    threads: int = whole(1, "threads of every learner", 1, 1024)
    repeats: int = whole(2, "rounds in which all take turns; the least time counts", 1, 100)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True)
class TrainingTimes:
    """Hold what was measured of one library on one environment."""

    env: str
    library: str
    seconds: float
    shares: tuple[float, ...] | None  # of the time, by OFF_POLICY_SHARES; None: not told


def configuration(options: TrainingBenchOptions, env: str) -> RunConfig:
    """Return the training as a configuration of ours, from which the peers take their numbers."""
    return RunConfig(
        algo=options.algo,
        env=env,
        n_envs=1,
        n_transitions=options.n_transitions,
        network=NetworkConfig(options.width, options.width),
        off_policy=OffPolicyConfig(
            learning_starts=100, report_interval=10**9, threads=options.threads
        ),
        replay=ReplayConfig(batch_size=options.batch_size),
        evaluation=EvaluationConfig(at_end=False),
        progress=ProgressConfig(display="none"),
    )


def train(config: RunConfig) -> tuple[float, tuple[float, ...]]:
    """Train once; return the seconds of the loop and the share of each primitive in them."""
    trainer: Trainer = load(ALGORITHMS[config.algo])(config, SerialCommunicator())
    try:
        trainer.warm_up()
        begin = time.perf_counter()
        reports = [report for report in trainer.updates() if report is not None]
        seconds = time.perf_counter() - begin
    finally:
        trainer.close()
    spent = [sum(report.seconds()[name] for report in reports) for name in OFF_POLICY_SHARES]
    return seconds, tuple(part / seconds for part in spent)


def measure(options: TrainingBenchOptions, env: str) -> tuple[list[TrainingTimes], list[str]]:
    """Time all libraries on one environment, in turns; return also why some were left out."""
    config, skipped = configuration(options, env), []
    calls: dict[str, Callable[[RunConfig], tuple[float, tuple[float, ...] | None]]] = {OURS: train}
    for name, peer in PEERS.items():
        try:
            peer(replace(config, n_transitions=config.off_policy.learning_starts + 300))
            calls[name] = peer
        except PeerMissing as error:
            skipped.append(str(error))
    train(config)  # compiles
    best: dict[str, tuple[float, tuple[float, ...] | None]] = {}
    for _ in range(options.repeats):
        for name, call in calls.items():
            found = call(config)
            if name not in best or found[0] < best[name][0]:
                best[name] = found
    return [TrainingTimes(env, name, *found) for name, found in best.items()], skipped


def show(options: TrainingBenchOptions, times: Sequence[TrainingTimes]) -> None:
    """Print a table."""
    n_updates = options.n_transitions - 100
    title = (
        f"{options.algo}, two layers of {options.width}, batch {options.batch_size}, "
        f"{options.n_transitions} transitions, {n_updates} updates, {options.threads} threads"
    )
    table = Table(title=title, title_justify="left")
    for column in ("environment", "library"):
        table.add_column(column)
    for column in ("steps/s", "updates/s", "time / ours", *(f"{n} %" for n in OFF_POLICY_SHARES)):
        table.add_column(column, justify="right")
    own = {row.env: row.seconds for row in times if row.library == OURS}
    for row in times:
        shares = ["-"] * len(OFF_POLICY_SHARES)
        if row.shares is not None:
            shares = [f"{100 * share:.0f}" for share in row.shares]
        table.add_row(
            row.env,
            row.library,
            f"{options.n_transitions / row.seconds:.0f}",
            f"{n_updates / row.seconds:.0f}",
            f"{row.seconds / own[row.env]:.2f}",
            *shares,
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(TrainingBenchOptions, arguments, "flowrl.bench offpolicy")
    times: list[TrainingTimes] = []
    for env in options.env or _ENVIRONMENTS:
        measured, skipped = measure(options, env)
        times += measured
        sys.stdout.write("".join(f"{line}\n" for line in skipped))
    show(options, times)
    return 0
