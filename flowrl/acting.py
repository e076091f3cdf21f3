"""The acting half of off-policy training: some environments and the policy that explores them."""

from __future__ import annotations

import numpy as np

from flowrl.agents.interface import make_policy
from flowrl.agents.off_policy import OffPolicyAgent, exploration, exploring_noise
from flowrl.collector import Collector
from flowrl.config import RunConfig
from flowrl.envs.interface import Interface
from flowrl.exploration import uniform_noise
from flowrl.networks import Weights
from flowrl.policies import PolicyArrays
from flowrl.registry import EnvironmentSource
from flowrl.schedule import Schedule
from flowrl.seeding import Stream, integer_seed
from flowrl.state import State
from flowrl.trajectory import BoolArray, Float32Array, Float64Array, IntArray, Trajectory

Observation = Float32Array | Float64Array  # (n_observations,)


class Acting:
    """The environments with the global indices from `first` up to `stop`."""

    def __init__(
        self,
        config: RunConfig,
        agent: OffPolicyAgent,
        source: EnvironmentSource,
        first: int,
        stop: int,
        life: int = 0,
    ) -> None:
        """Make the environments; `life` counts how often they were made anew during the run."""
        self._config, self._kind = config, agent.kind
        seed, envs = config.seed, range(first, stop)
        seeds = [integer_seed(seed, Stream.ENVIRONMENT, env, life) for env in envs]
        environments = source.make(seeds, agent.interface)
        policy = make_policy(agent)
        self.collector = Collector(environments, policy, self._at_random, seed, first, life)
        self._envs = np.arange(stop - first)
        self._has_learnt = False

    def _at_random(self, rng: np.random.Generator, shape: tuple[int, int]) -> Float32Array:
        """Draw the noise by which a policy of zero weights takes every action."""
        return uniform_noise(self._kind, rng, shape)

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that acts."""
        return self.collector.policy

    def follow(self, weights: Weights, mean: Observation, scale: Observation) -> None:
        """Act on what was learnt from now on: an actor, and how it scales observations."""
        set_policy(self.policy, weights, mean, scale)
        self._has_learnt = True

    def collect(self, lengths: IntArray, transitions: int) -> tuple[Trajectory, Float64Array]:
        """Unroll every environment by its length, after so many transitions of the whole run.

        Returns the trajectory and the episodes that ended in it, by `EPISODE_COLUMNS`.
        """
        if self._has_learnt:
            amount = exploration(self._config, transitions)
            self.collector.noise = exploring_noise(self._kind, amount)
        trajectory = self.collector.collect(lengths)
        return trajectory, self.collector.finished_episodes(trajectory, self._envs)

    def state(self) -> State:
        """Return all but the policy, which follows from what was learnt."""
        return self.collector.state()

    def load_state(self, state: State, life: int) -> BoolArray:
        """Go on from what `state` returned; mark the environments that begin anew, in this life."""
        return self.collector.load_state(state, life)

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()


def set_policy(
    policy: PolicyArrays, weights: Weights, mean: Observation, scale: Observation
) -> None:
    """Write an actor, and how it scales observations, into a policy."""
    policy.weights[:] = weights
    policy.observation_mean[:] = mean
    policy.observation_scale[:] = scale


def make_schedule(config: RunConfig, interface: Interface) -> Schedule:
    """Make the schedule of an off-policy run: equal steps of every environment, again and again."""
    return Schedule(
        config.n_envs,
        config.n_transitions,
        config.n_envs * config.off_policy.steps_per_collection,
        "pt",
        interface.episode_steps,
        interface.agents_per_group,
    )
