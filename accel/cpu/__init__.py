"""Run the primitives on this processor, with the widest vectors it has."""

from accel._native import SumTree

__all__ = ["SumTree", "devices"]


def devices() -> list[str]:
    """Name the devices: the processor."""
    return ["cpu"]
