"""Make off-policy learners on SYCL devices: what to compile for which form and networks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.interfaces import OffPolicyLearner, Options
from accel.sycl import compiler, runtime
from accel.sycl.compiler import Source

_FILES = ("prelude.hpp", "block.hpp", "learner.hpp")


def make(
    options: Options,
    actor_layers: NDArray[np.int32] | None,
    critic_layers: NDArray[np.int32],
    seed: int,
    n_pipelines: int,
    device: str,
) -> OffPolicyLearner:
    """Make a learner; its program is compiled or loaded first."""
    runtime.load()
    from accel import _sycl

    program = compiler.program(device, batched_source())
    return _sycl.batched_learner(program, options, actor_layers, critic_layers, seed, n_pipelines)


def batched_source() -> Source:
    """Return the bodies that all devices share, a work-group a pipeline."""
    return Source(_FILES, (), "", "critic_gradient")
