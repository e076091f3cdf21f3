"""Measure and model all devices over batch sizes and networks: `python -m flowrl.bench devices`.

What `python -m flowrl.plot devices` draws. Devices that are here are measured, FPGAs that are only
described are modelled, and what is neither is left out with a line.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flowrl.bench.device_cells import Cell, Patience, assemble, measure_cell
from flowrl.composer.accelerators import Accelerators, configured_accelerators
from flowrl.composer.detection import absence
from flowrl.composer.hardware import Device, HardwareSpec
from flowrl.composer.output import check_output
from flowrl.composer.placement import Mode, Placement
from flowrl.composer.profile import Effort
from flowrl.composer.study import DeviceStudy, write_study
from flowrl.config import (
    ConfigError,
    NetworkConfig,
    ParallelConfig,
    ReplayConfig,
    RunConfig,
    parse_options,
)
from flowrl.config.names import shown, suggestion
from flowrl.config.options import (
    check_fields,
    choice,
    file,
    real,
    required_file,
    switch,
    whole,
    words,
)

PROGRAM = "flowrl.bench devices"
NETWORKS = {  # environment for the sizes, and units in each of two hidden layers
    "dqn": ("CartPole-v1", 64),
    "ddpg": ("Pendulum-v1", 256),
    "td3": ("Pendulum-v1", 256),
    "sac": ("Pendulum-v1", 256),
}
_NETWORKS = ("dqn", "sac")
_BATCH_SIZES = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class DevicesOptions:
    """Measure and model replay managers and learners on every device, at several batch sizes."""

    out: Path = required_file("study to write", "FILE.h5", positional=False, aliases=("-o",))
    hardware: Path | None = file("hardware file; without, this machine is looked at", "H.toml")
    detect: bool = switch(False, "add what this machine has to the hardware file's devices")
    networks: tuple[str, ...] = words(f"of {', '.join(NETWORKS)}; default dqn sac", "ALGO ...")
    batch_sizes: tuple[str, ...] = words("rows of an update; default 32 to 1024", "N ...")
    insert_size: int = whole(1, "new rows to an update", 1, 10**6)
    capacity: int = whole(100_000, "rows of the buffer", 1, 10**9)
    mode: str = choice("strict", "what runs at the same time", tuple(Mode))
    iterations: int = whole(300, "most iterations of each measurement", 1, 10**6)
    budget: float = real(2.0, "time of each, beyond which there are fewer [s]", above=True)
    longest: float = real(1.0, "expected time above which a batch is not learnt [s]", above=True)
    cached: bool = switch(True, "take what was measured before with the same settings")
    overwrite: bool = switch(False, "replace what --out names")

    def __post_init__(self) -> None:
        """Check every field, and fields against each other."""
        check_fields(self)
        for name in self.networks:
            if name not in NETWORKS:
                known = ", ".join(NETWORKS)
                raise ConfigError(
                    f"--networks must be of {known}, got {shown(name)}{suggestion(name, NETWORKS)}"
                )
        largest = max(self.sizes)
        if max(largest, self.insert_size) > self.capacity:
            raise ConfigError(
                f"--capacity must be at least the rows of an update and of an insert "
                f"({max(largest, self.insert_size)}), got {self.capacity}; raise it"
            )

    @property
    def algos(self) -> tuple[str, ...]:
        """Return the networks, each once."""
        return tuple(dict.fromkeys(self.networks)) or _NETWORKS

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the batch sizes, ascending [rows]."""
        for word in self.batch_sizes:
            if not (word.isascii() and word.isdigit() and 1 <= int(word) <= 10**6):
                raise ConfigError(
                    f"--batch-sizes must be whole numbers 1 to 1e6, got {shown(word)}"
                    "; write for instance 32 512"
                )
        return tuple(sorted({int(word) for word in self.batch_sizes})) or _BATCH_SIZES


def hardware_of(path: Path | None, detect: bool) -> tuple[HardwareSpec, list[str]]:
    """Return the devices to study, and a line for each that is left out."""
    if path is None:
        return HardwareSpec.detect(), []
    spec = HardwareSpec.load(path)
    if detect:
        spec = with_own(spec, HardwareSpec.detect())
    reasons = {device.name: _absence(device) for device in spec.devices}
    kept = [name for name, reason in reasons.items() if reason is None]
    if spec.host.name not in kept:
        raise ConfigError(f"{path}: {spec.host.name} must run here: {reasons[spec.host.name]}")
    lines = [f"{name} is left out: {why}" for name, why in reasons.items() if why is not None]
    links = tuple(link for link in spec.links if set(link.between) <= set(kept))
    return HardwareSpec(tuple(d for d in spec.devices if d.name in kept), links), lines


def with_own(described: HardwareSpec, own: HardwareSpec) -> HardwareSpec:
    """Return a described machine with another's devices after its host, where names are new.

    The other's host, which is measured, takes the place of the described one.
    """
    name = described.host.name
    host = replace(own.host, name=name)
    more = tuple(d for d in own.devices if d != own.host and d.name not in described.names)
    rest = tuple(d for d in described.devices if d != described.host)
    links = tuple(replace(own.route(own.host.name, d.name), between=(name, d.name)) for d in more)
    return HardwareSpec((host, *more, *rest), described.links + links)


def _absence(device: Device) -> str | None:
    """Return in a line why a device can be neither measured nor modelled."""
    reason = None if device.is_modelled_fpga else absence(device)
    return None if reason is None else f"it is not here ({reason}) and has no model"


def accelerators_of(options: DevicesOptions, algo: str, batch_size: int) -> Accelerators:
    """Return what makes the primitives of one network at one batch size, actors beside."""
    env, width = NETWORKS[algo]
    config = RunConfig(
        algo=algo,
        env=env,
        n_envs=1,
        network=NetworkConfig(width, width),
        parallel=ParallelConfig(workers=1),
        replay=ReplayConfig(
            capacity=options.capacity, batch_size=batch_size, priorities="prioritized"
        ),
    )
    return configured_accelerators(config, options.insert_size)


def cells_of(options: DevicesOptions, spec: HardwareSpec, algo: str) -> Iterator[Cell]:
    """Yield what one network takes at each batch size, and say so."""
    effort = Effort(options.iterations, options.budget, options.cached)
    patience = Patience(options.longest)
    for size in options.sizes:
        accelerators = accelerators_of(options, algo, size)
        cell = measure_cell(spec, accelerators, Mode(options.mode), effort, patience)
        _say(
            f"{algo}, batch {size}: {_names(cell.placement)}"
            f"; of what is here {_names(cell.here)} (replay manager + learner)"
        )
        for name in spec.names:
            if name in cell.unlearnt:
                _say(f"  {name} is left out as a learner: expected over {options.longest:g} s")
        yield cell


def _names(placement: Placement) -> str:
    return f"{placement.replay_manager} + {placement.learner}"


def study(options: DevicesOptions) -> DeviceStudy:
    """Measure and model all that is asked for."""
    spec, left_out = hardware_of(options.hardware, options.detect)
    for line in left_out:
        _say(line)
    cells = [list(cells_of(options, spec, algo)) for algo in options.algos]
    attributes: dict[str, str | int | float] = {
        "mode": options.mode,
        "insert_size": options.insert_size,
        "capacity": options.capacity,
        "longest_s": options.longest,
        "left_out": "; ".join(left_out),
        "machine": platform.machine(),
        "n_cores": spec.host.cores or 0,
    }
    labels = tuple(f"{algo.upper()}, {_shape(algo)}" for algo in options.algos)
    return assemble(spec, labels, options.sizes, cells, attributes)


def _shape(algo: str) -> str:
    env, width = NETWORKS[algo]
    return f"{width} x {width}, {env}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _check_out(path: Path, overwrite: bool) -> None:
    if path.suffix not in (".h5", ".hdf5"):
        raise ConfigError(f"--out must end in .h5, got {shown(str(path))}; name it {path.stem}.h5")
    check_output("--out", path, overwrite, takes_group=False)


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    options = parse_options(DevicesOptions, arguments, PROGRAM)
    _check_out(options.out, options.overwrite)
    write_study(options.out, study(options))
    _say(f"{options.out}: python -m flowrl.plot devices {options.out} -o devices.png")
    return 0
