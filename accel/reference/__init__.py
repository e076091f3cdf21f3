"""State in plain NumPy and float64 what the compiled primitives compute, for tests."""

from accel.reference.networks import (
    IDENTITY,
    RELU,
    SIGMOID,
    TANH,
    backward,
    forward,
    n_weights,
    split,
)
from accel.reference.ppo import PpoReference

__all__ = [
    "IDENTITY",
    "RELU",
    "SIGMOID",
    "TANH",
    "PpoReference",
    "backward",
    "forward",
    "n_weights",
    "split",
]
