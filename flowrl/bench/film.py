"""Time the film: `python -m flowrl.bench film`.

The film is reached by its Gymnasium name and moved the way a rollout moves it, by its compiled step
inside a compiled loop. Every time is the least of many short ones, taken in turns, so that another
process on the core spoils some of them and not the result.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numba
import numpy as np
from numba import types
from rich.console import Console
from rich.table import Table

from accel import multiply_adds
from flowrl.bench.timing import least_seconds
from flowrl.config import parse_options
from flowrl.config.options import check_fields, switch, whole
from flowrl.envs.compiled import step_type

PROGRAM = "flowrl.bench film"
ENV = "shkadov:Shkadov-v0"
BATCH = 16
# microseconds an action on one quiet core, for 1 jet
TARGETS = {"paper": 10.0, "beacon": 100.0}
AUTHORS = {"beacon": 1885.0}  # the authors' environment, on a quiet core of another machine
_N_PEAK = 200_000  # multiply-adds in one look at the core's peak


@dataclass(frozen=True)
class FilmBenchOptions:
    """Time the film on one core."""

    n_jets: int = whole(1, "jets of the film", low=1, high=100)
    repeats: int = whole(1000, "measurements, of which the least counts", low=1)
    json: bool = switch(False, "print one JSON object instead of a table")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True)
class FilmTimes:
    """Hold what was measured of one preset."""

    preset: str
    n_jets: int
    alone_us: float  # one film, microseconds an action
    batch_us: float  # one of BATCH films, microseconds an action
    step_us: float  # env.step() of one film from Python, microseconds
    gflops: float  # of one film, 10^9 operations a second
    peak_gflops: float  # of the core, 10^9 float64 operations a second

    @property
    def peak_share(self) -> float:
        """Share of the core's float64 peak that one film reaches."""
        return self.gflops / self.peak_gflops


def _run_films(step: Any, state: Any, n_films: int, n: int, shape: tuple[int, int]) -> None:
    actions = np.zeros((1, shape[0]), np.float32)
    observations = np.zeros((1, shape[1]), np.float32)
    final = np.zeros((1, shape[1]), np.float32)
    rewards = np.zeros(1)
    for _ in range(n):
        for film in range(n_films):
            step(state, film, actions, observations, final, rewards)


def _compile_films(env: Any) -> Callable[[int], None]:
    """Return a call that moves every film of a vector environment by n actions."""
    film, n_films = env.unwrapped, env.num_envs
    state = numba.typeof(film.compiled_state)
    pair = types.UniTuple(types.int64, 2)
    signature = types.void(step_type(state), state, types.int64, types.int64, pair)
    run = numba.njit(signature, nogil=True)(_run_films)
    shape = (env.single_action_space.shape[0], env.single_observation_space.shape[0])
    return lambda n: run(film.compiled_step, film.compiled_state, n_films, n, shape)


def measure(preset: str, n_jets: int, repeats: int) -> FilmTimes:
    """Time one preset of the film, and the core's peak beside it."""
    alone, batch = (
        # A few start states do for a time, and are made in a second.
        gymnasium.make_vec(
            ENV, num_envs=n, preset=preset, n_jets=n_jets, n_starts=16, n_realisations=4
        )
        for n in (1, BATCH)
    )
    alone.reset(seed=0)
    batch.reset(seed=0)
    run_alone, run_batch = _compile_films(alone), _compile_films(batch)
    actions = np.zeros(alone.action_space.shape or (), np.float32)
    # Windows of a millisecond slip between what else runs; handing a compiled function over takes a
    # tenth of one, and is measured by itself to be taken off.
    (seconds,) = least_seconds([lambda: run_alone(BATCH)], 3)
    n, n_python = BATCH * math.ceil(1e-3 / seconds), 10
    in_loop, in_batch, in_call, at_peak, from_python = least_seconds(
        [
            lambda: run_alone(n),
            lambda: run_batch(n // BATCH),
            lambda: run_alone(0),
            lambda: multiply_adds(_N_PEAK),
            lambda: [alone.step(actions) for _ in range(n_python)],
        ],
        repeats,
    )
    in_loop, in_batch = in_loop - in_call, in_batch - in_call
    n_flops: int = alone.unwrapped.n_flops_per_action  # type: ignore[attr-defined]
    return FilmTimes(
        preset=preset,
        n_jets=n_jets,
        alone_us=1e6 * in_loop / n,
        batch_us=1e6 * in_batch / n,
        step_us=1e6 * from_python / n_python,
        gflops=1e-9 * n_flops * n / in_loop,
        # A vector holds half as many float64 numbers as float32 ones.
        peak_gflops=0.5e-9 * multiply_adds(_N_PEAK) / at_peak,
    )


def show(measured: Sequence[FilmTimes]) -> None:
    """Print a table of what was measured."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title="The film on one core", title_justify="left")
    columns = (
        "preset", "jets", "one film \\[us/action]", f"of {BATCH} films \\[us/action]", "ratio",
        "env.step() \\[us]", "GFLOP/s", "peak GFLOP/s", "share", "target \\[us]",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    for times in measured:
        target = TARGETS[times.preset] if times.n_jets == 1 else None
        table.add_row(
            times.preset,
            str(times.n_jets),
            f"{times.alone_us:.2f}",
            f"{times.batch_us:.2f}",
            f"{times.batch_us / times.alone_us:.2f}",
            f"{times.step_us:.1f}",
            f"{times.gflops:.1f}",
            f"{times.peak_gflops:.1f}",
            f"{times.peak_share:.0%}",
            "-" if target is None else f"{target:g}",
        )
    console.print(table)
    console.print(
        "Operations counted: 38 a node and step, a minimum, a maximum and a division as one each; "
        "observation, reward and jets are left out. The peak is that of fused multiply-adds, two "
        "operations each."
    )
    for times in measured:
        if times.n_jets == 1 and times.preset in AUTHORS:
            console.print(
                f"The authors' environment takes {AUTHORS[times.preset]:g} us an action on the "
                f"{times.preset} grid: {AUTHORS[times.preset] / times.alone_us:.0f} times as long."
            )


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(FilmBenchOptions, arguments, PROGRAM)
    measured = [measure(preset, options.n_jets, options.repeats) for preset in TARGETS]
    if options.json:
        rows = [{**dataclasses.asdict(m), "peak_share": m.peak_share} for m in measured]
        sys.stdout.write(json.dumps(rows, allow_nan=False) + "\n")
    else:
        show(measured)
    return 0
