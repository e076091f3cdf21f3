"""A Gymnasium environment whose every number is known: for tests, and as a user's factory."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np


class Counting(gymnasium.Env[np.ndarray, Any]):
    """The observation counts steps; the first component names the episode.

    Episode k ends after `limit` steps, by the clock; every third episode (k = 2, 5, ...) ends by
    itself after `limit` - 1 steps. The reward is the step number.
    """

    def __init__(self, limit: int = 5, discrete: bool = False) -> None:
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space: Any = gymnasium.spaces.Box(-2.0, 4.0, (1,), np.float32)
        if discrete:
            self.action_space = gymnasium.spaces.Discrete(3, start=5)
        self.episode_steps = limit
        self.limit, self.episode, self.step_number = limit, -1, 0
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed, options=options)
        self.episode, self.step_number = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.actions.append(action)
        self.step_number += 1
        terminated = self.episode % 3 == 2 and self.step_number == self.limit - 1
        truncated = self.step_number == self.limit
        return self._observation(), float(self.step_number), terminated, truncated, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.episode, self.step_number], np.float32)


def make(limit: int = 5, discrete: bool = False) -> Counting:
    """Make one."""
    return Counting(limit, discrete)


def fails_on_last_rank() -> Counting:
    """Make one whose 40th step fails, on the last rank alone."""
    env = Counting(limit=1000)
    step = env.step
    rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])

    def failing(action: Any) -> Any:
        if rank == size - 1 and env.step_number >= 39:
            raise ZeroDivisionError("the solver broke")
        return step(action)

    env.step = failing  # type: ignore[method-assign]
    return env
