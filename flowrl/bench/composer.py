"""Hold the composer's predictions against measured iterations: `python -m flowrl.bench composer`.

Every assignment of replay manager and learner that can run on this machine.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.accelerators import native_accelerators
from flowrl.composer.agent_workload import agent_workload
from flowrl.composer.check import Comparison, compare
from flowrl.composer.hardware import HardwareSpec, Kind
from flowrl.composer.placement import Mode
from flowrl.composer.placement import compose as choose
from flowrl.composer.profile import Effort, profile
from flowrl.config import NetworkConfig, ReplayConfig, RunConfig, parse_options
from flowrl.config.options import check_fields, choice, real, switch, text, whole
from flowrl.registry import EnvironmentSource

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
    iterations: int = whole(300, "most iterations of each measurement", 1, 10**6)
    budget: float = real(10.0, "time of each measurement [s]", 0, 1e6, above=True)
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
        network=NetworkConfig(options.width, options.width),
        replay=ReplayConfig(
            capacity=options.capacity, batch_size=options.batch_size, priorities="prioritized"
        ),
    )
    interface = EnvironmentSource(config.env, {}).interface(1)
    agent = OffPolicyAgent.build(config, interface)
    accelerators = native_accelerators(
        agent_workload(config, agent, options.insert_size), interface, config
    )
    spec = HardwareSpec.detect()
    if options.cpu_only:
        spec = HardwareSpec(tuple(d for d in spec.devices if d.kind is Kind.CPU), ())
    effort = Effort(options.iterations, options.budget, is_cached=False)
    costs = profile(spec, accelerators, Mode(options.mode), effort).costs
    placement = choose(spec, accelerators.workload, costs, mode=options.mode)
    return list(compare(spec, accelerators, placement, options.iterations, options.budget))


def show(comparisons: Sequence[Comparison]) -> None:
    """Print a table, the fastest first."""
    table = Table(title="Seconds of an iteration", title_justify="left")
    for column in ("replay manager", "learner"):
        table.add_column(column)
    for column in ("predicted \\[ms]", "measured \\[ms]", "predicted / measured"):
        table.add_column(column, justify="right")
    for c in sorted(comparisons, key=lambda c: c.measured_s):
        predicted, measured = 1e3 * c.assignment.t_itr_s, 1e3 * c.measured_s
        names = c.assignment.replay_manager, c.assignment.learner
        table.add_row(*names, f"{predicted:.3f}", f"{measured:.3f}", f"{c.ratio:.2f}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(ComposerBenchOptions, arguments, PROGRAM)
    comparisons = measure(options)
    if options.json:
        found = [dataclasses.asdict(c) | {"ratio": c.ratio} for c in comparisons]
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        show(comparisons)
    return 0
