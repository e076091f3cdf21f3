"""Time whole gradient steps of DQN, DDPG, TD3 and SAC, the native learner beside its peers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from accel import multiply_adds
from accel.cpu import OffPolicyLearner
from flowrl.bench.learner_peers import PEERS, PeerMissing, Steps
from flowrl.bench.timing import least_seconds
from flowrl.bench.workloads import Workload

NATIVE = "native"
NETWORKS = (("dqn", 64), ("dqn", 256), ("ddpg", 256), ("td3", 256), ("sac", 256))
_N_PEAK = 200_000  # rounds of multiply-adds: about half a millisecond
_LEAST_SECONDS = 2e-3  # of a native measurement, so that the clock's own time does not count


@dataclass(frozen=True)
class StepTimes:
    """Hold what was measured of one learner on one workload."""

    algorithm: str
    width: int
    n_rows: int
    learner: str
    step_us: float
    native_ratio: float  # this learner's step over the native one
    gflops: float  # of the products [10^9 operations/s]
    peak_share: float  # of the float32 peak of the cores in use


def native(workload: Workload, n_threads: int) -> Steps:
    """Learn a ready batch, as the peers do; one part of the batch a thread."""
    rng = np.random.default_rng(0)
    learner = OffPolicyLearner(
        workload.options,
        workload.actor,
        workload.critic,
        n_pipelines=n_threads,
        n_threads=n_threads,
    )
    learner.load_parameters(workload.parameters(rng))
    batch = workload.batch(rng)

    def run(n: int) -> None:
        for _ in range(n):
            learner.learn(batch)

    run(2)
    begin = time.perf_counter()
    run(2)
    n = 2 * max(1, round(_LEAST_SECONDS / (time.perf_counter() - begin)))
    return Steps(lambda: run(n), n)


@contextmanager
def on_cores(n: int) -> Iterator[None]:
    """Keep the libraries' threads to so many cores; jax asks only how many it may use."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure(
    workload: Workload,
    repeats: int,
    n_threads: int,
    peers: Sequence[str],
    tell: Callable[[str], None],
    budget: float = 10.0,
) -> list[StepTimes]:
    """Time the native learner and the peers that are there, within a budget [s].

    `tell` hears which are not there, and why.
    """
    names, steps = [NATIVE], [native(workload, n_threads)]
    for name in peers:
        try:
            peer = PEERS[name](workload)
            peer.run()
        except PeerMissing as missing:
            tell(str(missing))
        except Exception as error:  # such as no compiler for torch.compile
            tell(f"{name} is left out of {workload.algorithm}: {type(error).__name__}: {error}")
        else:
            names.append(name)
            steps.append(peer)
    calls = [*(s.run for s in steps), lambda: multiply_adds(_N_PEAK)]
    *least, peak_seconds = least_seconds(calls, repeats, budget)
    seconds = [of_call / s.n_steps for of_call, s in zip(least, steps, strict=True)]
    peak_gflops = 1e-9 * n_threads * multiply_adds(_N_PEAK) / peak_seconds
    times = []
    for name, of_step in zip(names, seconds, strict=True):
        gflops = 1e-9 * workload.n_operations / of_step
        times.append(
            StepTimes(
                workload.algorithm,
                workload.width,
                workload.n_rows,
                name,
                1e6 * of_step,
                of_step / seconds[0],
                gflops,
                gflops / peak_gflops,
            )
        )
    return times


def show(console: Console, times: Sequence[StepTimes], n_threads: int) -> None:
    """Print a table of what was measured."""
    cores = "1 core" if n_threads == 1 else f"{n_threads} cores"
    table = Table(title=f"Gradient steps of off-policy learners on {cores}", title_justify="left")
    columns = (
        "algorithm", "network", "batch", "learner", "step \\[us]", "steps/s", "this / native",
        "GFLOP/s", "share of peak",
    )  # fmt: skip
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in (0, 3) else "right")
    for t in times:
        is_native = t.learner == NATIVE
        table.add_row(
            t.algorithm if is_native else "",
            f"{t.width}x{t.width}" if is_native else "",
            str(t.n_rows) if is_native else "",
            t.learner,
            f"{t.step_us:.1f}",
            f"{1e6 / t.step_us:.0f}",
            f"{t.native_ratio:.2f}",
            f"{t.gflops:.1f}",
            f"{t.peak_share:.0%}",
        )
    console.print(table)
    console.print(
        "A step with all that belongs to it, from a ready batch: targets, losses, gradients, Adam, "
        "moving targets. Counted are the operations of the products that no implementation can "
        "leave out; the peak is that of fused multiply-adds."
    )
