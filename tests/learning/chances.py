"""A task of rare rewards, whose mean is hard to keep where their errors are favoured."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

CHANCE, PRIZE, SURE = 0.1, 10.0, 0.5


class Lottery(gymnasium.Env[np.ndarray, int]):
    """One choice, then the end: 0 is a ticket that pays PRIZE by CHANCE, 1 pays SURE."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed, options=options)
        return np.ones(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = SURE if action == 1 else PRIZE * (self.np_random.random() < CHANCE)
        return np.ones(1, np.float32), reward, True, False, {}


def lottery() -> Lottery:
    """Make one."""
    return Lottery()
