"""One rank's environments and its copy of the policy, between two updates."""

from __future__ import annotations

import numpy as np

from flowrl.exploration import NoiseSource
from flowrl.policies import PolicyArrays
from flowrl.registry import Environments
from flowrl.seeding import Stream, generator
from flowrl.trajectory import Float32Array, Float64Array, IntArray, Trajectory

# Columns of a row that describes a finished episode.
EPISODE_COLUMNS = ("env", "return", "length", "terminated")


class Collector:
    """Unrolls this rank's environments; no message is sent meanwhile."""

    def __init__(
        self,
        environments: Environments,
        policy: PolicyArrays,
        noise: NoiseSource,
        seed: int,
        first_env: int,
        life: int = 0,
    ) -> None:
        """Take the environments from the global index `first_env` on; `life` as in seeding."""
        n_envs = environments.n_envs
        self.policy, self.noise = policy, noise
        self._environments = environments
        self._first_env = first_env
        envs = range(first_env, first_env + n_envs)
        self._rngs = [generator(seed, Stream.ACTION_NOISE, env, life) for env in envs]
        self._returns = np.zeros(n_envs)
        self._steps = np.zeros(n_envs, np.int64)

    @property
    def n_envs(self) -> int:
        """Count this rank's environments."""
        return self._environments.n_envs

    def compile(self) -> None:
        """Compile the rollout, or load it from the cache."""
        self._environments.compile(self.policy)

    @property
    def env_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""
        return self._environments.parameters

    @property
    def n_blow_ups(self) -> IntArray:
        """Count each environment's blow-ups so far: (n_envs,)."""
        return self._environments.n_blow_ups

    def collect(self, lengths: IntArray) -> Trajectory:
        """Unroll each environment by its length, going on where it stopped last time."""
        interface = self._environments.interface
        n_steps = int(lengths.max(initial=0))
        trajectory = Trajectory.allocate(
            len(lengths), n_steps, interface.n_observations, interface.n_actions
        )
        trajectory.lengths[:] = lengths
        self._environments.unroll(self.policy, self._noise(lengths), trajectory)
        return trajectory

    def _noise(self, lengths: IntArray) -> Float32Array:
        """Draw each environment's noise from its own stream: (n_envs, n_steps, n_choices)."""
        n_choices = self._environments.interface.n_choices
        noise = np.zeros((len(lengths), int(lengths.max(initial=0)), n_choices), np.float32)
        for i, (rng, length) in enumerate(zip(self._rngs, lengths, strict=True)):
            noise[i, :length] = self.noise(rng, (int(length), n_choices))
        return noise

    def finished_episodes(self, trajectory: Trajectory, envs: IntArray) -> Float64Array:
        """Return one row of EPISODE_COLUMNS per episode that ended in `envs`: (n_episodes, 4).

        Call it once per collected environment: it carries the returns of unfinished episodes on.
        """
        rows = []
        has_ended = trajectory.ended
        if not has_ended[envs].any():
            self._returns[envs] += trajectory.rewards[envs].sum(axis=1)  # zero where not filled
            self._steps[envs] += trajectory.lengths[envs]
            return np.empty((0, len(EPISODE_COLUMNS)))
        for i in envs:
            length, begin = trajectory.lengths[i], 0
            rewards = trajectory.rewards[i, :length]
            for end in (np.flatnonzero(has_ended[i, :length]) + 1).tolist():
                total = self._returns[i] + rewards[begin:end].sum()
                steps = self._steps[i] + end - begin
                rows.append((self._first_env + i, total, steps, trajectory.terminated[i, end - 1]))
                self._returns[i], self._steps[i], begin = 0.0, 0, end
            self._returns[i] += rewards[begin:].sum()
            self._steps[i] += length - begin
        return np.array(rows, np.float64).reshape(-1, len(EPISODE_COLUMNS))

    def close(self) -> None:
        """Close the environments."""
        self._environments.close()
