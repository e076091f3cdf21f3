"""Make off-policy learners on SYCL devices: what to compile for which form and networks."""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.typing import NDArray

from accel.checks import require
from accel.interfaces import Dqn, OffPolicyLearner, Options
from accel.sycl import compiler, runtime
from accel.sycl.compiler import Source

Int32Array = NDArray[np.int32]

_FILES = ("prelude.hpp", "block.hpp", "step.hpp")
# Rows that a pipe holds: whole batches, so that kernels that take turns have room. On an FPGA the
# depth is the stages that a row is ahead of its gradient.
_ROW_DEPTH = 512
_MOST_COLUMNS = 512  # of a chain's layers: weights are arrays on the stack of the emulator's thread


def make_batched(
    options: Options,
    actor_layers: Int32Array | None,
    critic_layers: Int32Array,
    seed: int,
    n_pipelines: int,
    device: str,
) -> OffPolicyLearner:
    """Make a learner whose pipelines are work-groups; its program is compiled or loaded first."""
    runtime.load()
    from accel import _sycl

    program = compiler.program(device, batched_source())
    return _sycl.batched_learner(program, options, actor_layers, critic_layers, seed, n_pipelines)


def make_pipeline(
    options: Options, layers: Int32Array, n_pipelines: int, device: str, concurrent: bool
) -> OffPolicyLearner:
    """Make a DQN learner of one kernel a stage; compiled for its layers and pipelines."""
    runtime.load()
    from accel import _sycl

    require(device == "fpga_emulator", "device", "'fpga_emulator' for form 'pipeline'", device)
    require(isinstance(options, Dqn), "options", "Dqn for form 'pipeline'", options)
    n_pipelines = index(n_pipelines)
    require(1 <= n_pipelines <= 4, "n_pipelines", "1 to 4 for form 'pipeline'", n_pipelines)
    _check_chain(layers)
    if concurrent:
        runtime.check_threads(n_pipelines * (3 * len(layers) + 1) + 1)
    program = compiler.program(device, pipeline_source(layers, n_pipelines))
    return _sycl.pipeline_learner(program, options, layers, n_pipelines, _ROW_DEPTH, concurrent)


def batched_source() -> Source:
    """Return the bodies that all devices share, a work-group a pipeline."""
    return Source((*_FILES, "learner.hpp"), (), "", "critic_gradient")


def pipeline_source(layers: Int32Array, n_pipelines: int) -> Source:
    """Return the stages of a chain of layers beside the bodies that end a step."""
    widths = [int(layers[0, 2]), *layers[:, 3].tolist()]
    definitions: tuple[tuple[str, int | str], ...] = (
        ("N_LAYERS", len(layers)),
        ("WIDTHS", _braces(widths)),
        ("ACTIVATIONS", _braces(layers[:, 4].tolist())),
        ("N_PIPELINES", n_pipelines),
        ("ROW_DEPTH", _ROW_DEPTH),
        ("UNROLL", 8),  # multipliers of a stage on an FPGA
    )
    lines = []
    for p in range(n_pipelines):
        lines.append(f"PIPELINE_KERNELS({p})")
        lines += [f"LAYER_KERNELS({p}, {layer})" for layer in range(1, len(layers) + 1)]
        lines += [f"BACKWARD_KERNEL({p}, {layer})" for layer in range(2, len(layers) + 1)]
    files = (*_FILES, "learner_pipeline.hpp")
    return Source(files, definitions, "\n".join(lines), "learner_update")


def _braces(values: list[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _check_chain(layers: Int32Array) -> None:
    right = isinstance(layers, np.ndarray) and layers.dtype == np.int32 and layers.ndim == 2
    require(right and layers.shape[1] == 6, "critic_layers", "an int32 array (n, 6)", layers)
    require(1 <= len(layers) <= 6, "critic_layers", "1 to 6 layers for 'pipeline'", len(layers))
    for i, (source, begin, n_in, n_out, activation, output) in enumerate(layers.tolist()):
        before = n_in if i == 0 else int(layers[i - 1, 3])
        last = i == len(layers) - 1
        chained = (source, begin, n_in, output) == (i - 1, 0, before, 0 if last else -1)
        require(chained, f"critic_layers[{i}]", "the next of a chain", layers[i])
        fits = 1 <= n_in <= _MOST_COLUMNS and 1 <= n_out <= _MOST_COLUMNS
        require(fits, f"critic_layers[{i}]", f"at most {_MOST_COLUMNS} wide", layers[i])
        require(0 <= activation <= 3, f"critic_layers[{i}]: activation", "0 to 3", activation)
