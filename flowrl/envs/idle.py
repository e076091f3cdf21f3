"""The environments of a rank that has none: more ranks than environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flowrl.envs.interface import Interface
from flowrl.policies import PolicyArrays
from flowrl.state import State
from flowrl.trajectory import BoolArray, Float32Array, IntArray, Trajectory


class NoEnvironments:
    """No environment; its rank still takes part in every collective."""

    n_envs = 0

    def __init__(self, interface: Interface) -> None:
        self.interface = interface

    @property
    def parameters(self) -> dict[str, object]:
        """Return nothing."""
        return {}

    @property
    def n_blow_ups(self) -> IntArray:
        """Return an empty array."""
        return np.zeros(0, np.int64)

    def compile(self, policy: PolicyArrays) -> None:
        """Do nothing."""

    def unroll(self, policy: PolicyArrays, noise: Float32Array, trajectory: Trajectory) -> None:
        """Do nothing."""

    def state(self) -> State:
        """Return nothing."""
        return {}

    def load_state(self, state: State, seeds: Sequence[int]) -> BoolArray:  # noqa: ARG002
        """Do nothing."""
        return np.zeros(0, np.bool_)

    def close(self) -> None:
        """Do nothing."""
