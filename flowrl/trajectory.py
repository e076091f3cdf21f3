"""What a rank's environments did since the last update."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Trajectory:
    """The transitions of n_envs environments over at most n_steps steps each.

    Row i is one environment's unroll; its first `lengths[i]` columns are filled. Observations are
    raw, as the environment gave them; `next_observations` is the true observation after the
    action, never the first one of the next episode.
    """

    observations: Float32Array  # (n_envs, n_steps, n_observations)
    next_observations: Float32Array  # (n_envs, n_steps, n_observations)
    actions: Float32Array  # (n_envs, n_steps, n_actions) as sampled
    rewards: Float64Array  # (n_envs, n_steps)
    terminated: BoolArray  # (n_envs, n_steps) the task ended
    truncated: BoolArray  # (n_envs, n_steps) only the clock ended
    lengths: IntArray  # (n_envs,) steps filled

    @classmethod
    def allocate(cls, n_envs: int, n_steps: int, n_observations: int, n_actions: int) -> Self:
        """Allocate room for n_envs unrolls of n_steps."""
        return cls(
            observations=np.zeros((n_envs, n_steps, n_observations), np.float32),
            next_observations=np.zeros((n_envs, n_steps, n_observations), np.float32),
            actions=np.zeros((n_envs, n_steps, n_actions), np.float32),
            rewards=np.zeros((n_envs, n_steps), np.float64),
            terminated=np.zeros((n_envs, n_steps), np.bool_),
            truncated=np.zeros((n_envs, n_steps), np.bool_),
            lengths=np.zeros(n_envs, np.int64),
        )

    def of(self, envs: IntArray) -> Trajectory:
        """Return the unrolls of some environments, given by their local index."""
        return Trajectory(**{f.name: getattr(self, f.name)[envs] for f in fields(self)})

    @property
    def ended(self) -> BoolArray:
        """Mark where an episode ended, by itself or by the clock: (n_envs, n_steps)."""
        return self.terminated | self.truncated

    @property
    def filled(self) -> BoolArray:
        """Mark the filled columns: (n_envs, n_steps)."""
        filled: BoolArray = np.arange(self.rewards.shape[1])[None, :] < self.lengths[:, None]
        return filled

    @property
    def cut(self) -> BoolArray:
        """Mark each environment's last transition, where its partial trajectory is cut."""
        last: BoolArray = np.arange(self.rewards.shape[1])[None, :] == self.lengths[:, None] - 1
        return last
