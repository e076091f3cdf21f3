"""Types of the compiled CUDA module; its use stands in `accel.cuda`."""

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from accel import interfaces
from accel.interfaces import LearningStep, Options

Int32Array = NDArray[np.int32]

class ArrayThere(Protocol):
    """An array on a device, of any library that speaks DLPack."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

class BatchThere(Protocol):
    """What `accel.interfaces.Batch` holds, on the device."""

    @property
    def observations(self) -> ArrayThere: ...
    @property
    def actions(self) -> ArrayThere: ...
    @property
    def rewards(self) -> ArrayThere: ...
    @property
    def next_observations(self) -> ArrayThere: ...
    @property
    def discounts(self) -> ArrayThere: ...
    @property
    def weights(self) -> ArrayThere: ...

class DeviceArray:
    """An array on the device for other libraries to take: torch.from_dlpack(array)."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class CudaSumTree(interfaces.SumTree, Protocol):
    """A sum tree on the device, with calls on arrays that are there."""

    def sample_device(
        self, targets: ArrayThere, stream: int | None = None
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return index and priority for each target (n,); -1 and NaN from an empty tree."""

    def sample_stratified_device(
        self, uniforms: ArrayThere, beta: float, stream: int | None = None
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return one index a stratum, and importance weights."""

    def retrieve_device(self, indices: ArrayThere, stream: int | None = None) -> DeviceArray:
        """Return the priorities of rows; NaN for one that is not there."""

    def set_device(
        self, indices: ArrayThere, priorities: ArrayThere, stream: int | None = None
    ) -> None:
        """Replace priorities."""

    def update_device(
        self, indices: ArrayThere, deltas: ArrayThere, stream: int | None = None
    ) -> None:
        """Add to priorities."""

    def set_td_errors_device(
        self,
        indices: ArrayThere,
        td_errors: ArrayThere,
        alpha: float,
        epsilon: float,
        stream: int | None = None,
    ) -> None:
        """Replace priorities by (|td error| + epsilon)^alpha."""

    def check_device(self) -> None:
        """Wait; ValueError where a call on arrays of the device since the last check was wrong."""

class CudaOffPolicyLearner(interfaces.OffPolicyLearner, Protocol):
    """An off-policy learner on the device, with calls on batches that are there."""

    @property
    def n_skipped(self) -> int:
        """Steps left out because a gradient or a loss was not finite."""

    def learn_device(
        self, batch: BatchThere, rows: ArrayThere | None = None, stream: int | None = None
    ) -> DeviceArray:
        """Start one whole step; return |TD errors| (n,)."""

    def last_step(self) -> LearningStep:
        """Wait for the last step and return what it measured."""

def SumTree(
    capacity: int,
    fanout: int = 16,
    *,
    device: str = "",
    dtype: Literal["float32", "float64"] = "float32",
) -> CudaSumTree: ...
def OffPolicyLearner(
    options: Options,
    actor_layers: Int32Array | None,
    critic_layers: Int32Array,
    *,
    seed: int = 0,
    n_pipelines: int = 16,
    device: str = "",
    graphs: bool = True,
) -> CudaOffPolicyLearner: ...
def device_names() -> list[str]:
    """Name the devices that the CUDA runtime finds."""

def why_no_device() -> str:
    """Say why there is no device; empty where there is one."""
