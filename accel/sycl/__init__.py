"""Sum trees and learners on SYCL devices: the processor, and Intel's FPGA emulator.

Needs the extra [sycl], three wheels with Intel's SYCL runtime, its compiler and OpenCL drivers, and
the extension ``accel._sycl``, which is built where they are found (``ACCEL_SYCL=1 pip install
".[sycl]"`` brings them to the build, too). ``devices`` says why where something is missing.

**Devices**: "fpga_emulator" runs kernels and pipes as an FPGA would, so it shows that they are
right, not how fast an FPGA is. "cpu" is the processor, without pipes.

**Forms**: "batched" are the bodies in ``include/accel/portable``, the same as for CUDA, each a
kernel over work-groups. "pipeline" (emulator) are single-task kernels joined by pipes, one a level
of a sum tree, one a stage and layer of a DQN learner, as PEARL puts them on an FPGA: bounded loops,
on-chip arrays of sizes known when compiling. Its kernels take turns by default, the pipes holding
whole batches: an emulated kernel that waits for a pipe keeps a core busy, and on two cores all at
the same time (``concurrent=True``, as on an FPGA) took 10 to 200 times as long (medians, two busy
cores). A tree's results are equal to the bit in all forms.

**Compiling** happens when a size, type or form is first used, and takes seconds; what was compiled
is kept in ``ACCEL_CACHE``, or in the platform's cache directory (see ``compiler``). It needs the
headers of a C++ standard library on the machine.

What the wheels need, and ``runtime`` and ``compiler`` do:

    OCL_ICD_FILENAMES         names both drivers; the wheels' own files hold a place of Intel's
    libraries loaded first,   libOpenCL has no search path, and libsycl-jit finds its headers from
    by full path              its own path, which must hold no ".."
    DPCPP_CPU_NUM_CUS=32      threads of the emulator; concurrent kernels need one each
    -fno-sycl-device-lib=all  there are none beside this compiler: sycl:: mathematics, not std::
    -fsycl-device-code-split=off  one program, whichever kernels use float64
    -fno-sycl-dead-args-optimization  kernels that are loaded again keep every argument
"""

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
    """Make a sum tree, see `accel.interfaces.SumTree`.

    ``dtype``: float32, or float64 where the device has it (the emulator lacks 64-bit atomics):
    the type of priorities and sums. ``form`` and ``concurrent``: see above; a
    pipeline has at most 2^20 rows. ValueError names what does not fit.
    """
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
    """Make a learner, see `accel.interfaces.OffPolicyLearner`.

    ``n_pipelines`` split a batch: work-groups, or in form "pipeline" copies of all stages, 1 to 4.
    Form "pipeline" takes `Dqn` and a chain of at most 6 layers of at most 512 columns, and at most
    512 rows a pipeline. ValueError names what does not fit.
    """
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
