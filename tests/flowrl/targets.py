"""A task of one step that is learnt in a second: act as the observation says."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Target(gymnasium.Env[np.ndarray, Any]):
    """The reward is minus the squared distance of the action from half the observation."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._target = np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed, options=options)
        self._target = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self._target, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = -float(((action - 0.5 * self._target) ** 2).sum())
        return self._target, reward, True, False, {}


def make() -> Target:
    """Make one."""
    return Target()
