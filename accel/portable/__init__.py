"""The kernel bodies that CUDA and SYCL run, run by plain C++ on the host: for tests, not for speed.

Blocks, threads and lanes take turns. ``order`` says in which order: 0 forward, 1 backward, others
are seeds that shuffle anew at each turn. Results that differ between orders show a missing barrier
or a race in the bodies, without a device. A tree's ``dtype`` is float64 unless given; the rows of a
batch are shared out among ``n_pipelines`` blocks.
"""

from accel._native import PortableOffPolicyLearner as OffPolicyLearner
from accel._native import PortableSumTree as SumTree

__all__ = ["OffPolicyLearner", "SumTree", "devices"]


def devices() -> list[str]:
    """Name the only device."""
    return ["host"]
