"""The environments of a rank that has none: more ranks than environments."""

from __future__ import annotations

import numpy as np

from flowrl.envs.interface import Interface
from flowrl.policies import PolicyArrays
from flowrl.trajectory import Float32Array, IntArray, Trajectory


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

    def close(self) -> None:
        """Do nothing."""
