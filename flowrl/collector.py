"""One rank's environments and its copy of the policy, between two updates."""

from __future__ import annotations

import numpy as np

from flowrl.exploration import NoiseSource
from flowrl.policies import PolicyArrays
from flowrl.registry import Environments
from flowrl.seeding import Stream, generator, integer_seed
from flowrl.state import (
    N_WORDS,
    State,
    generator_words,
    prefixed,
    set_generator,
    take,
    within,
)
from flowrl.trajectory import BoolArray, Float32Array, Float64Array, IntArray, Trajectory

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
        self._environments, self._seed = environments, seed
        self._first_env = first_env
        self._envs = range(first_env, first_env + n_envs)
        self._rngs = [generator(seed, Stream.ACTION_NOISE, env, life) for env in self._envs]
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

    def state(self) -> State:
        """Return, with one row an environment, all that goes on from one collection to the next."""
        words = [generator_words(rng) for rng in self._rngs]
        return {
            "generators": np.array(words, np.uint64).reshape(self.n_envs, N_WORDS),
            "returns": self._returns,
            "steps": self._steps,
            **prefixed("environments", self._environments.state()),
        }

    def load_state(self, state: State, life: int) -> BoolArray:
        """Go on from what `state` returned; mark the environments that begin anew, in this life."""
        seeds = [integer_seed(self._seed, Stream.ENVIRONMENT, env, life) for env in self._envs]
        begins_anew = self._environments.load_state(within("environments", state), seeds)
        words = take(state, "generators", np.uint64, (self.n_envs, N_WORDS))
        for rng, own in zip(self._rngs, words, strict=True):
            set_generator(rng, own)
        self._returns[:] = take(state, "returns", np.float64, (self.n_envs,))
        self._steps[:] = take(state, "steps", np.int64, (self.n_envs,))
        self._returns[begins_anew], self._steps[begins_anew] = 0.0, 0
        return begins_anew

    def close(self) -> None:
        """Close the environments."""
        self._environments.close()
