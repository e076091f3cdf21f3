"""Sum tree and off-policy learner on NVIDIA devices.

The methods of `accel.interfaces` take and give NumPy arrays, which go through pinned memory. Those
that end in ``_device`` take anything with ``__dlpack__`` that lies on the device (torch, CuPy, JAX)
and give arrays with ``__dlpack__``, without a copy and without waiting for the device: work is put
on the object's own stream, behind what the arrays' owners started, and ``stream`` (a cudaStream_t
as an integer, the default stream unless given) goes on behind it. Arrays are contiguous, indices
int64, priorities, targets and uniforms of the tree's ``dtype``, all else float32.

    tree = accel.cuda.SumTree(2**20)
    uniforms = torch.rand(256, device="cuda")
    rows, weights = tree.sample_stratified_device(uniforms, beta=0.4)
    errors = learner.learn_device(buffer._replace(weights=weights), rows)
    tree.set_td_errors_device(rows, errors, alpha=0.6, epsilon=1e-6)
    rows = torch.from_dlpack(rows)

Values on the device are checked there: a bad index or priority leaves the tree as it is and is told
by the next ``check_device()``; a row or an action that is not there leaves the learner as it is
(``last_step().applied``).

A tree's inner nodes are computed from their children at every change, so float32 sums do not drift
and need no rebuild now and then; ``dtype="float64"`` keeps 53 bits in twice the memory.

A learner's whole step is recorded as one CUDA graph for each number of rows; ``graphs=False``
launches its kernels one by one. ``n_pipelines`` thread blocks share the rows of a batch.
"""

from accel._cuda import (
    DeviceArray,
    OffPolicyLearner,
    SumTree,
    device_names,
    why_no_device,
)

__all__ = ["DeviceArray", "OffPolicyLearner", "SumTree", "devices"]


def devices() -> list[str]:
    """Name the devices; RuntimeError with the reason where there is none."""
    names = device_names()
    if not names:
        raise RuntimeError(why_no_device())
    return [f"{number}: {name}" for number, name in enumerate(names)]
