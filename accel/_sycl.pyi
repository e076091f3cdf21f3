"""Types of the compiled SYCL module; its use stands in `accel.sycl`."""

import numpy as np
from numpy.typing import NDArray

from accel.interfaces import OffPolicyLearner, Options, SumTree

Int32Array = NDArray[np.int32]

def list_devices() -> list[tuple[str, str]]:
    """Name the devices: "cpu" or "fpga_emulator", and what the driver calls it."""

class Device:
    """A device, its memory and its compiler."""

    def __init__(self, kind: str) -> None: ...
    @property
    def name(self) -> str:
        """Name that the driver gives."""
    @property
    def driver(self) -> str:
        """Version of the driver."""
    @property
    def has_float64(self) -> bool:
        """Whether it has double precision and atomics of that size."""
    def compile(self, source: str, options: list[str], kernel: str) -> bytes:
        """Compile SYCL source that has this kernel to SPIR-V; RuntimeError with the log."""

class Program:
    """Kernels, from SPIR-V or from what `binary` returned."""

    def __init__(self, device: Device, code: bytes, is_binary: bool) -> None: ...
    def binary(self) -> bytes:
        """Return the device's own code."""

def batched_tree(program: Program, capacity: int, fanout: int, float64: bool) -> SumTree:
    """Make a tree whose calls are kernels over ranges of work-items."""

def pipeline_tree(
    program: Program,
    capacity: int,
    fanout: int,
    float64: bool,
    n_levels: int,
    pipe_depth: int,
    concurrent: bool,
) -> SumTree:
    """Make a tree whose calls go through one kernel a level."""

def batched_learner(
    program: Program,
    options: Options,
    actor_layers: Int32Array | None,
    critic_layers: Int32Array,
    seed: int,
    n_pipelines: int,
) -> OffPolicyLearner:
    """Make a learner whose pipelines are work-groups."""

def pipeline_learner(
    program: Program,
    options: Options,
    critic_layers: Int32Array,
    n_pipelines: int,
    row_depth: int,
    concurrent: bool,
) -> OffPolicyLearner:
    """Make a DQN learner of one kernel a stage; the layers are a chain."""
