"""Choose the devices for a training: `python -m flowrl.compose --hardware H.toml`."""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from flowrl.composer.accelerators import Accelerators, configured_accelerators
from flowrl.composer.cost_file import costs_toml, load_costs
from flowrl.composer.costs import Costs
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.output import check_output, is_matrix_file, write_text
from flowrl.composer.placement import DEFAULT_TIE, Metric, Mode, Placement, compose
from flowrl.composer.profile import profile
from flowrl.composer.report import as_json, as_tables
from flowrl.config import (
    ConfigError,
    NetworkConfig,
    ParallelConfig,
    ReplayConfig,
    RunConfig,
    parse_options,
    run_command,
)
from flowrl.config.off_policy import PRIORITIES
from flowrl.config.options import check_fields, choice, file, pairs, real, switch, text, whole

PROGRAM = "flowrl.compose"
_WIDTH = 120  # columns where the output is no terminal


@dataclass(frozen=True)
class ComposeOptions:
    """Choose the devices of replay manager, learner and data storage by PEARL's Algorithm 1."""

    hardware: Path | None = file("hardware file; without, this machine is looked at", "H.toml")
    costs: Path | None = file("cost file, of every device; without, costs are measured", "C.toml")
    algo: str = choice("dqn", "algorithm", ("dqn", "ddpg", "td3", "sac"))
    env: str = text(
        "CartPole-v1", "a Gymnasium id (MODULE:ID imports MODULE first) or PACKAGE:FUNCTION", "ENV"
    )
    env_args: dict[str, object] = pairs("arguments of the environment, as in n_jets=5")
    batch_size: int = whole(256, "rows of an update", 1, 10**6)
    insert_size: int = whole(1, "new rows to an update", 1, 10**6)
    capacity: int = whole(1_000_000, "rows of the replay buffer", 1, 10**12)
    fanout: int = whole(16, "children of a node of the sum tree: a power of two", 2, 64)
    priorities: str = choice("prioritized", "how the rows of an update are drawn", PRIORITIES)
    width: int = whole(0, "units in each hidden layer; 0: the algorithm's own", 0, 4096)
    metric: str = choice(
        "throughput", "what is maximised: samples a second, or a joule", tuple(Metric)
    )
    mode: str = choice(
        "strict", "what runs at the same time, see flowrl.composer.placement", tuple(Mode)
    )
    tie: float = real(
        DEFAULT_TIE, "relative difference up to which traffic decides; 0: none", 0, 1, below=True
    )
    json: bool = switch(False, "print one JSON object instead of tables")
    out: Path | None = file(
        "file for the matrix: a cost file, or group /composer of an .h5 file", "FILE"
    )
    detect: Path | None = file("write this machine's hardware file, and stop", "H.toml")
    overwrite: bool = switch(False, "replace what --out or --detect names")

    def __post_init__(self) -> None:
        """Check every field, and the fields against each other."""
        check_fields(self)
        for name, n_rows in (("batch", self.batch_size), ("insert", self.insert_size)):
            if n_rows > self.capacity:
                raise ConfigError(
                    f"--{name}-size must be at most --capacity ({self.capacity}), got {n_rows}"
                    "; lower it, or keep more rows"
                )
        if self.fanout & (self.fanout - 1):
            raise ConfigError(
                f"--fanout must be a power of two from 2 to 64, got {self.fanout}"
                "; the default is 16"
            )

    @property
    def run_config(self) -> RunConfig:
        """Return the training that is composed, actors beside."""
        return RunConfig(
            algo=self.algo,
            env=self.env,
            env_args=self.env_args,
            n_envs=1,
            parallel=ParallelConfig(workers=1),
            replay=ReplayConfig(
                capacity=self.capacity,
                batch_size=self.batch_size,
                fanout=self.fanout,
                priorities=self.priorities,
            ),
            network=NetworkConfig(self.width, self.width),
        )


def costs_of(options: ComposeOptions, spec: HardwareSpec, accelerators: Accelerators) -> Costs:
    """Return the given costs, or measure and model them."""
    if options.costs is not None:
        return load_costs(options.costs, spec)
    return profile(spec, accelerators, Mode(options.mode)).costs


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(ComposeOptions, arguments, PROGRAM)
    if options.detect is not None:
        _detect(options.detect, options.overwrite)
        return 0
    if options.out is not None:
        check_output("--out", options.out, options.overwrite)
    spec = (
        HardwareSpec.detect() if options.hardware is None else HardwareSpec.load(options.hardware)
    )
    accelerators = configured_accelerators(options.run_config, options.insert_size)
    costs = costs_of(options, spec, accelerators)
    placement = compose(
        spec, accelerators.workload, costs, options.metric, options.mode, options.tie
    )
    if options.out is not None:
        _write(options.out, costs, placement)
    _print(options, costs, placement)
    return 0


def _detect(path: Path, overwrite: bool) -> None:
    import tomli_w

    check_output("--detect", path, overwrite, takes_group=False)
    spec = HardwareSpec.detect()
    head = "# This machine, as python -m flowrl.compose --detect found it; links are measured.\n"
    write_text("--detect", path, head + tomli_w.dumps(spec.to_tables()))
    sys.stdout.write(f"{path}: {', '.join(spec.names)}\n")


def _write(path: Path, costs: Costs, placement: Placement) -> None:
    if not is_matrix_file(path):
        write_text("--out", path, costs_toml(costs))
        return
    from flowrl.composer.matrix_file import MatrixFileError, write_matrix

    try:
        write_matrix(path, costs, placement)
    except MatrixFileError as error:
        raise ConfigError(f"--out must be a file that can be written, but {path} {error}") from None


def _print(options: ComposeOptions, costs: Costs, placement: Placement) -> None:
    if options.json:
        sys.stdout.write(json.dumps(as_json(placement, costs), allow_nan=False) + "\n")
        return
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(as_tables(placement, costs))


if __name__ == "__main__":
    sys.exit(run_command(command, PROGRAM))
