"""A Gymnasium environment whose every number is known: for tests, and as a user's factory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
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


class Stateful(Counting):
    """One whose start is random, and whose state can be kept."""

    offset = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed, options=options)
        self.offset = float(self.np_random.standard_normal())
        return self._observation(), {}

    def _observation(self) -> np.ndarray:
        return np.array([self.offset, self.step_number], np.float32)

    def get_state(self) -> dict[str, Any]:
        generator = self.np_random.bit_generator.state
        return {"counts": np.array([self.episode, self.step_number]), "offset": self.offset,
                "generator": generator}  # fmt: skip

    def set_state(self, state: dict[str, Any]) -> None:
        self.episode, self.step_number = map(int, state["counts"])
        self.offset = state["offset"]
        self.np_random.bit_generator.state = state["generator"]


def make_stateful(limit: int = 5, discrete: bool = False, wrapped: bool = False) -> Any:
    """Make one that can be kept; `wrapped` in a time limit."""
    env = Stateful(limit, discrete)
    return gymnasium.wrappers.TimeLimit(env, 3) if wrapped else env


def make_signalled(signal_name: str, at: int, rank: int = 0, limit: int = 50) -> Stateful:
    """Make one that sends its process a signal in its step number `at` of all, on one rank."""
    env = Stateful(limit)
    step, n_steps = env.step, 0

    def signalling(action: Any) -> Any:
        nonlocal n_steps
        n_steps += 1
        if n_steps == at and int(os.environ.get("PMI_RANK", "0")) == rank:
            os.kill(os.getpid(), signal.Signals[signal_name])
        return step(action)

    env.step = signalling  # type: ignore[method-assign]
    return env


def fails(rank: int, how: str, at: str = "step") -> Counting:
    """Make one that fails on one rank alone (-1 is the last): when made, or at the 40th step."""
    env = Counting(limit=1000)
    if int(os.environ["PMI_RANK"]) != rank % int(os.environ["PMI_SIZE"]):
        return env
    if at == "make":
        _FAILURES[how]()
    step = env.step

    def failing(action: Any) -> Any:
        if env.step_number >= 39:
            _FAILURES[how]()
        return step(action)

    env.step = failing  # type: ignore[method-assign]
    return env


def _break() -> None:
    raise ZeroDivisionError("the solver broke")


def _refuse() -> None:
    raise ValueError("how must be another")


_FAILURES: dict[str, Callable[[], None]] = {
    "break": _break,
    "refuse": _refuse,
    "sys.exit": lambda: sys.exit(3),
    "sys.exit 0": lambda: sys.exit(0),
    "os._exit": lambda: os._exit(1),
    "os._exit 0": lambda: os._exit(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def fails_once(marker: str, how: str, always: bool = False) -> Counting:
    """Make one that fails at the 40th step of an episode; once among all that share a marker."""
    env = Counting(limit=60)
    step = env.step

    def failing(action: Any) -> Any:
        if env.step_number >= 39 and (always or not Path(marker).exists()):
            Path(marker).touch()
            _FAILURES[how]()
        return step(action)

    env.step = failing  # type: ignore[method-assign]
    return env


def far_too_large() -> Counting:
    """Make one whose rewards are finite, but not their squares."""
    env = Counting()
    step = env.step

    def enlarged(action: Any) -> Any:
        observation, reward, *flags = step(action)
        return observation, 1e29 * reward, *flags

    env.step = enlarged  # type: ignore[method-assign]
    return env


def made_by_host(limit: int = 5) -> Counting:
    """Make one, but in a local worker fail to."""
    if multiprocessing.parent_process() is not None:
        _break()
    return Counting(limit)


def fails_held_out(limit: int = 5, held_out: bool = False) -> Counting:
    """Make one that trains, but whose held-out twin fails at its first step."""
    env = Counting(limit)
    env.held_out_arguments = {"held_out": True}  # type: ignore[attr-defined]
    if held_out:
        env.step = lambda _: _break()  # type: ignore[assignment, return-value, method-assign]
    return env
