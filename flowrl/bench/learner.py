"""Time gradient steps of every algorithm: `python -m flowrl.bench learner`.

PPO: the native learner, with its rows cut into chunks of several sizes, beside the torch learner.
DQN, DDPG, TD3, SAC: the native learner beside libraries, those that are installed. The cores'
float32 peak beside all. Every time is the least of many, taken in turns, so that another process on
the core spoils some of them and not the ratios.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from accel import multiply_adds, variants
from flowrl.agents.ppo import PpoAgent
from flowrl.bench.learner_peers import PEERS
from flowrl.bench.off_policy_learner import NETWORKS, StepTimes, on_cores, show
from flowrl.bench.off_policy_learner import measure as measure_off_policy
from flowrl.bench.timing import least_seconds
from flowrl.bench.workloads import Workload
from flowrl.config import ConfigError, RunConfig, parse_options
from flowrl.config.options import check_fields, switch, whole, words
from flowrl.envs.interface import Interface
from flowrl.learners import Batch, Learner, Step
from flowrl.minibatches import CHUNK_ROWS, Minibatch
from flowrl.networks import Column, Layers
from flowrl.registry import LEARNERS, load
from flowrl.trajectory import IntArray

PROGRAM = "flowrl.bench learner"
ALGORITHMS = ("ppo", *dict(NETWORKS))
_N_PEAK = 200_000  # rounds of multiply-adds: about half a millisecond


@dataclass(frozen=True)
class LearnerBenchOptions:
    """Time gradient steps, native beside torch and other libraries."""

    algorithms: tuple[str, ...] = words("of ppo, dqn, ddpg, td3, sac; all unless given", "NAME ...")
    batches: tuple[str, ...] = words("off-policy batches; 32, 256 and 512 unless given", "N ...")
    peers: tuple[str, ...] = words(f"of {', '.join(PEERS)}, none; all unless given", "NAME ...")
    threads: int = whole(1, "threads of the off-policy learners, and of their peers", low=1)
    n_observations: int = whole(10, "observations of PPO's policy", low=1, high=10**4)
    n_actions: int = whole(1, "actions of PPO's policy", low=1, high=10**3)
    n_rows: int = whole(1600, "transitions of PPO's minibatch", low=1)
    repeats: int = whole(200, "measurements, of which the least counts", low=1)
    json: bool = switch(False, "print one JSON object instead of a table")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)
        for field, known in (("algorithms", ALGORITHMS), ("peers", (*PEERS, "none"))):
            for name in getattr(self, field):
                if name not in known:
                    raise ConfigError(f"{field} must be of {', '.join(known)}, got {name}")
        for size in self.batches:
            if not size.isdecimal() or int(size) < 1:
                raise ConfigError(f"batches must be whole numbers from 1, got {size}")


@dataclass(frozen=True)
class LearnerTimes:
    """Hold what was measured of one learner and one way to cut the minibatch."""

    learner: str
    chunk_rows: int
    gradient_ms: float
    apply_ms: float
    gflops: float  # of the gradient [10^9 operations/s]
    peak_share: float  # of the core's float32 peak
    torch_ratio: float  # torch's whole step over this one

    @property
    def step_ms(self) -> float:
        """Gradient and optimiser together."""
        return self.gradient_ms + self.apply_ms


def count_operations(layers: Layers) -> int:
    """Count the operations of a row's forward and backward pass, activations left out."""
    products = layers[:, Column.N_IN].astype(np.int64) * layers[:, Column.N_OUT]
    # Nobody asks for the gradient by the network's input.
    passes = np.where(layers[:, Column.SOURCE] < 0, 2, 3)
    return int(2 * (products * passes).sum())


def _agent(options: LearnerBenchOptions) -> PpoAgent:
    ones = np.ones(options.n_actions, np.float32)
    interface = Interface(
        n_observations=options.n_observations,
        is_box=True,
        n_choices=options.n_actions,
        n_actions=options.n_actions,
        action_scale=ones,
        action_offset=0 * ones,
        action_table=np.empty((0, options.n_actions), np.float32),
        episode_steps=None,
        agents_per_group=1,
    )
    return PpoAgent.build(RunConfig(), interface)


def _loaded(name: str, agent: PpoAgent, n_rows: int) -> Learner:
    """Make a learner with weights and a batch in it."""
    learner: Learner = load(LEARNERS[name])(agent, RunConfig().ppo)
    learner.load_parameters(agent.initial_parameters(0))
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(n_rows, int(agent.actor[0, Column.N_IN]))).astype(np.float32)
    n_actions = int(agent.actor[agent.actor[:, Column.OUTPUT] >= 0][0, Column.N_OUT])
    actions = rng.normal(size=(n_rows, n_actions)).astype(np.float32)
    log_probabilities = learner.log_probabilities(observations, actions)
    advantages, value_targets = rng.normal(size=(2, n_rows)).astype(np.float32)
    learner.load_batch(Batch(observations, actions, log_probabilities, advantages, value_targets))
    return learner


def _minibatch(n_rows: int, chunk_rows: int) -> Minibatch:
    rows = np.random.default_rng(1).permutation(n_rows)
    chunks = np.append(np.arange(0, n_rows, chunk_rows), n_rows)
    return Minibatch(rows, chunks, n_rows)


def _settled(learner: Learner, minibatch: Minibatch) -> IntArray:
    """Step until the unit of the fixed-point sums fits; return the sums' buffer."""
    accumulators = np.zeros(learner.n_accumulators, np.int64)
    for _ in range(10):
        learner.gradient(minibatch, accumulators)
        if learner.apply(accumulators, 0.0).step is Step.APPLIED:
            break
    learner.gradient(minibatch, accumulators)
    return accumulators


def _calls(learner: Learner, minibatch: Minibatch) -> list[Callable[[], object]]:
    """Return a gradient and an optimiser step as calls; the parameters stay where they are."""
    sums = _settled(learner, minibatch)
    kept = sums.copy()
    return [lambda: learner.gradient(minibatch, sums), lambda: learner.apply(kept, 0.0)]


def measure(options: LearnerBenchOptions) -> tuple[list[LearnerTimes], float]:
    """Time all learners; return them, torch last, and the core's float32 peak [GFLOP/s]."""
    agent = _agent(options)
    n_rows = options.n_rows
    sizes = sorted({min(n_rows, size) for size in (25, CHUNK_ROWS, n_rows)})
    cases = [("native", size) for size in sizes] + [("torch", n_rows)]
    calls: list[Callable[[], object]] = []
    for name, size in cases:
        calls += _calls(_loaded(name, agent, n_rows), _minibatch(n_rows, size))
    n_peak = multiply_adds(_N_PEAK)
    *seconds, peak_seconds = least_seconds(
        [*calls, lambda: multiply_adds(_N_PEAK)], options.repeats
    )
    peak = 1e-9 * n_peak / peak_seconds
    n_operations = n_rows * (count_operations(agent.actor) + count_operations(agent.critic))
    times = []
    for (name, size), gradient, apply in zip(cases, seconds[::2], seconds[1::2], strict=True):
        gflops = 1e-9 * n_operations / gradient
        ratio = (seconds[-2] + seconds[-1]) / (gradient + apply)
        times.append(
            LearnerTimes(name, size, 1e3 * gradient, 1e3 * apply, gflops, gflops / peak, ratio)
        )
    return times, peak


def _torch_version() -> str:
    import torch

    return f"torch {torch.__version__} on {torch.get_num_threads()} thread"


def _print(
    console: Console, options: LearnerBenchOptions, times: Sequence[LearnerTimes], peak: float
) -> None:
    table = Table(title=f"PPO gradient step, {options.n_rows} transitions", title_justify="left")
    columns = (
        "learner", "rows a chunk", "gradient \\[ms]", "apply \\[ms]", "step \\[ms]", "GFLOP/s",
        "share of peak", "torch / this",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    for t in times:
        table.add_row(
            t.learner,
            str(t.chunk_rows),
            f"{t.gradient_ms:.3f}",
            f"{t.apply_ms:.3f}",
            f"{t.step_ms:.3f}",
            f"{t.gflops:.1f}",
            f"{t.peak_share:.0%}",
            f"{t.torch_ratio:.2f}",
        )
    console.print(table)
    floor = times[0].gradient_ms * times[0].peak_share
    console.print(
        f"Float32 multiply-adds of this core: {peak:.1f} GFLOP/s ({variants()[0]}); at that rate "
        f"the products alone take {floor:.3f} ms. Activations are not counted. {_torch_version()}."
    )


def _off_policy(options: LearnerBenchOptions, console: Console) -> list[StepTimes]:
    """Time the off-policy algorithms asked for; say which peers are not there, each once."""
    wanted = options.algorithms or ALGORITHMS
    peers = [name for name in options.peers or PEERS if name != "none"]
    said: set[str] = set()

    def tell(line: str) -> None:
        if line not in said and not options.json:
            console.print(line, markup=False)
        said.add(line)

    times: list[StepTimes] = []
    with on_cores(options.threads):
        for algorithm, width in NETWORKS:
            if algorithm not in wanted:
                continue
            for size in options.batches or ("32", "256", "512"):
                work = Workload(algorithm, width, int(size))
                times += measure_off_policy(work, options.repeats, options.threads, peers, tell)
    return times


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(LearnerBenchOptions, arguments, PROGRAM)
    console = Console(width=None if sys.stdout.isatty() else 120)
    times, peak = measure(options) if "ppo" in (options.algorithms or ALGORITHMS) else ([], 0.0)
    if times and not options.json:
        _print(console, options, times, peak)
    steps = _off_policy(options, console)
    if options.json:
        rows = [{**dataclasses.asdict(t), "step_ms": t.step_ms} for t in times]
        report = {"peak_gflops": peak, "learners": rows}
        report["off_policy"] = [dataclasses.asdict(t) for t in steps]
        sys.stdout.write(json.dumps(report) + "\n")
    elif steps:
        show(console, steps, options.threads)
    return 0
