"""State in plain NumPy and float64 what the compiled primitives compute, for tests."""

from accel.reference.networks import (
    IDENTITY,
    RELU,
    SIGMOID,
    TANH,
    backward,
    forward,
    gradients,
    n_weights,
    split,
)
from accel.reference.off_policy import OffPolicyReference
from accel.reference.ppo import PpoReference
from accel.reference.sum_tree import SumTreeReference

__all__ = [
    "IDENTITY",
    "RELU",
    "SIGMOID",
    "TANH",
    "OffPolicyReference",
    "PpoReference",
    "SumTreeReference",
    "backward",
    "forward",
    "gradients",
    "n_weights",
    "split",
]
