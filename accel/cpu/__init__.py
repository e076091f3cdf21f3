"""Run the primitives on this processor, with the widest vectors it has."""

from accel._native import OffPolicyLearner, SumTree

__all__ = ["OffPolicyLearner", "SumTree", "devices"]


def devices() -> list[str]:
    """Name the devices: the processor."""
    return ["cpu"]
