"""A task that only an agent who looks past its own partial trajectory can solve."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

TOP = 4


class Ladder(gymnasium.Env[np.ndarray, int]):
    """Climb for a cost now, or stay for a little: only the top pays, and it pays for ever.

    The episode never terminates; the clock stops it after `limit` steps, which the observation
    does not show. Actions: 0 stays and pays 0.2 (1 at the top), 1 climbs and costs 0.2.
    """

    def __init__(self, limit: int = 12) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (TOP + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.episode_steps = limit
        self._rung = self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed, options=options)
        self._rung, self._steps = int(self.np_random.integers(TOP)), 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = 1.0 if self._rung == TOP else 0.2
        if action == 1:
            reward = -0.2
            self._rung = min(self._rung + 1, TOP)
        self._steps += 1
        return self._observation(), reward, False, self._steps == self.episode_steps, {}

    def _observation(self) -> np.ndarray:
        return np.eye(TOP + 1, dtype=np.float32)[self._rung]


def make(limit: int = 12) -> Ladder:
    """Make one."""
    return Ladder(limit)
