"""Sum trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.interfaces import OffPolicyLearner as _OffPolicyLearner
from accel.interfaces import Options as _Options
from accel.interfaces import SumTree as _SumTree

__all__ = ["OffPolicyLearner", "SumTree", "devices"]


def devices() -> list[str]:
    """Name the usable devices: "fpga_emulator", "cpu".

    ImportError where a wheel is missing or the extension was not built.
    """
    from accel.sycl import runtime

    runtime.load()
    from accel._sycl import list_devices

    return [kind for kind, _ in list_devices()]


def SumTree(
    capacity: int,
    fanout: int = 16,
    *,
    device: str = "",
    dtype: str = "float32",
    form: str = "batched",
    concurrent: bool = False,
) -> _SumTree:
    """Make a tree."""
    from accel.sycl import sum_tree

    return sum_tree.make(capacity, fanout, _chosen(device), dtype, form, concurrent)


def OffPolicyLearner(
    options: _Options,
    actor_layers: NDArray[np.int32] | None,
    critic_layers: NDArray[np.int32],
    *,
    seed: int = 0,
    n_pipelines: int = 1,
    device: str = "",
    form: str = "batched",
    concurrent: bool = False,
) -> _OffPolicyLearner:
    """Make a learner."""
    from accel.sycl import off_policy

    chosen = _chosen(device)
    if form == "batched":
        return off_policy.make_batched(
            options, actor_layers, critic_layers, seed, n_pipelines, chosen
        )
    if form != "pipeline":
        raise ValueError(f"form must be 'batched' or 'pipeline', got {form!r}")
    if actor_layers is not None:
        raise ValueError("actor_layers must be None for form 'pipeline', got a layer table")
    return off_policy.make_pipeline(options, critic_layers, n_pipelines, chosen, concurrent)


def _chosen(device: str) -> str:
    found = devices()
    if device and device not in found:
        raise ValueError(f"device must be one of {', '.join(found)}, got {device!r}")
    return device or found[0]
