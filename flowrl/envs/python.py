"""Any Gymnasium environment, stepped one by one in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from flowrl.envs import saving
from flowrl.envs.interface import LARGEST, EnvironmentFault, Interface, read_interface
from flowrl.policies import PolicyArrays, act, scratch_for
from flowrl.state import State, take
from flowrl.trajectory import BoolArray, Float32Array, IntArray, Trajectory

Env = gymnasium.Env[Any, Any]


class PythonEnvironments:
    """Some environments of the run, each unrolled on its own.

    Every environment is an independent object with its own seed: one unroll after the other gives
    the same numbers as all of them in lockstep, whatever their lengths.
    """

    def __init__(self, make: Callable[[], Env], seeds: Sequence[int], interface: Interface) -> None:
        self._envs = [flat(make()) for _ in seeds]
        space = self._envs[0].observation_space
        self.interface = interface
        self._observations = np.zeros((len(seeds), gymnasium.spaces.flatdim(space)), np.float32)
        for i, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            self._observations[i] = self._checked(i, env.reset(seed=seed)[0], 0.0)
        self._past_blow_ups: IntArray = np.zeros(len(seeds), np.int64)  # before a restart

    @property
    def n_envs(self) -> int:
        """Count the environments of this rank."""
        return len(self._envs)

    @property
    def parameters(self) -> dict[str, object]:
        """Return the numbers that the environment says it is made with, or nothing."""
        return dict(getattr(self._envs[0].unwrapped, "parameters", {}))

    @property
    def n_blow_ups(self) -> IntArray:
        """Count, for each environment, the episodes that ended in a blow-up: (n_envs,)."""
        counts = [getattr(env.unwrapped, "n_blow_ups", 0) for env in self._envs]
        own = np.array([int(np.sum(count)) for count in counts], np.int64)
        return own + self._past_blow_ups

    def compile(self, policy: PolicyArrays) -> None:
        """Compile the policy, or load it from numba's cache."""
        act(
            policy,
            self._observations[0],
            np.zeros(self.interface.n_choices, np.float32),
            scratch_for(policy),
            np.empty(self.interface.n_actions, np.float32),
            np.empty(self.interface.n_env_actions, np.float32),
        )

    def unroll(self, policy: PolicyArrays, noise: Float32Array, trajectory: Trajectory) -> None:
        """Fill `trajectory` up to its lengths; noise is (n_envs, n_steps, n_choices)."""
        scratch = scratch_for(policy)
        for i in range(self.n_envs):
            self._unroll_one(i, policy, noise[i], scratch, trajectory)

    def _unroll_one(
        self,
        i: int,
        policy: PolicyArrays,
        noise: Float32Array,
        scratch: Float32Array,
        trajectory: Trajectory,
    ) -> None:
        env, observation = self._envs[i], self._observations[i]
        env_action = np.empty(len(policy.action_offset), np.float32)
        for t in range(trajectory.lengths[i]):
            trajectory.observations[i, t] = observation
            act(policy, observation, noise[t], scratch, trajectory.actions[i, t], env_action)
            following, reward, terminated, truncated, _ = env.step(
                to_space(env.action_space, env_action)
            )
            trajectory.next_observations[i, t] = self._checked(i, following, reward)
            trajectory.rewards[i, t] = reward
            trajectory.terminated[i, t] = terminated
            # Both flags at once means that the task ended.
            trajectory.truncated[i, t] = truncated and not terminated
            if terminated or truncated:
                following = self._checked(i, env.reset()[0], 0.0)
            observation[:] = following

    def _checked(self, i: int, observation: Any, reward: Any) -> Float32Array:
        """Return an observation as float32; raise EnvironmentFault for what poisons learning.

        One NaN would stay in the running moments for ever, and in every action after it.
        """
        shape = self._observations[i].shape
        try:
            with np.errstate(over="ignore"):
                checked = np.asarray(observation, np.float32)
            number = float(reward)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"{self._name(i)}: observation and reward must be numbers ({error})"
            ) from error
        if checked.shape != shape:
            raise EnvironmentFault(
                f"{self._name(i)}: observation must have the shape {shape}, got {checked.shape}"
            )
        if not np.isfinite(checked).all():
            raise EnvironmentFault(
                f"{self._name(i)}: observation must be finite in float32, got {observation}"
            )
        if not abs(number) <= LARGEST:
            raise EnvironmentFault(
                f"{self._name(i)}: reward must be finite and within +-{LARGEST:g}, got {reward}"
            )
        return checked

    def state(self) -> State:
        """Return one row an environment; the records of those that tell no state are empty."""
        records = [saving.saved(env) for env in self._envs]
        block = np.zeros((self.n_envs, max(map(len, records))), np.uint8)
        for row, record in zip(block, records, strict=True):
            row[: len(record)] = record
        return {
            "observations": self._observations,
            "n_blow_ups": self.n_blow_ups,
            "records": block,
        }

    def load_state(self, state: State, seeds: Sequence[int]) -> BoolArray:
        """Go on from what `state` returned; mark what begins anew instead, by these seeds."""
        records = take(state, "records", np.uint8, (self.n_envs, None))
        observations = take(state, "observations", np.float32, self._observations.shape)
        begins_anew = np.zeros(self.n_envs, np.bool_)
        for i, env in enumerate(self._envs):
            begins_anew[i] = not saving.restore(env, records[i])
            if begins_anew[i]:
                observations[i] = self._checked(i, env.reset(seed=seeds[i])[0], 0.0)
        self._observations[:] = observations
        past = take(state, "n_blow_ups", np.int64, (self.n_envs,))
        self._past_blow_ups = past - self.n_blow_ups
        return begins_anew

    def _name(self, i: int) -> str:
        return f"environment {self._envs[i].unwrapped} (number {i} of this rank)"

    def close(self) -> None:
        """Close all environments."""
        for env in self._envs:
            env.close()


def flat(env: Env) -> Env:
    """Flatten an environment's observations to one dimension, if they are not."""
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return env
    return gymnasium.wrappers.FlattenObservation(env)


def python_interface(env: Env) -> Interface:
    """Read the sizes of a flat environment."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    limit = limit or getattr(env.unwrapped, "episode_steps", None)
    return read_interface(env.observation_space, env.action_space, limit)


def to_space(space: gymnasium.Space[Any], action: Float32Array) -> Any:
    """Convert one action to what the environment's space holds."""
    if isinstance(space, gymnasium.spaces.Box):
        # Scaling in float32 can land one rounding outside the box.
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)
    # A discrete space may start elsewhere than at zero.
    return int(getattr(space, "start", 0)) + int(action[0])
