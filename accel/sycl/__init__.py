"""Sum trees."""

from __future__ import annotations

from accel.interfaces import SumTree as _SumTree

__all__ = ["SumTree", "devices"]


def devices() -> list[str]:
    """Name the usable devices: "fpga_emulator", "cpu".

    ImportError where a wheel is missing or the extension was not built.
    """
    from accel.sycl import runtime

    return [kind for kind, _ in runtime.load().list_devices()]


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

    return sum_tree.make(capacity, fanout, device or devices()[0], dtype, form, concurrent)
