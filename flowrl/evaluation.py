"""Scores of controls on held-out starts: the trained policy, none, random and constant actions.

All controls run on the same environments with the same seeds, through the same rollout as in
training: a constant is a policy of zero scale, random actions are noise on a zero network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flowrl.agents.interface import make_policy
from flowrl.config import RunConfig
from flowrl.exploration import uniform_noise
from flowrl.policies import PolicyArrays
from flowrl.registry import Environments, EnvironmentSource, build_agent
from flowrl.seeding import Stream, generator, integer_seed
from flowrl.trajectory import BoolArray, Float32Array, Float64Array, Trajectory

# Steps of one unroll where the environment names no time limit.
BLOCK_STEPS = 256
# An episode without a time limit is cut here, so that an evaluation ends.
MOST_STEPS = 100_000
# Constant controls tried, in units of the policy (-1 and 1 are the bounds); the best is reported.
CONSTANTS = (-1.0, -0.5, 0.5, 1.0)

Noise = Callable[[int, int], Float32Array]


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns (n,) of every control, and which constant was the best."""

    returns: dict[str, Float64Array]
    constant: float

    @property
    def gain(self) -> float | None:
        """Return the improvement over no control, relative to its score's magnitude [-].

        None where no control scores zero: nothing to compare with.
        """
        trained = float(self.returns["trained"].mean())
        uncontrolled = float(self.returns["uncontrolled"].mean())
        return (trained - uncontrolled) / abs(uncontrolled) if uncontrolled else None


class Evaluator:
    """Held-out episodes of one configuration."""

    def __init__(self, config: RunConfig, n_episodes: int, seed: int = 0) -> None:
        """Prepare n_episodes episodes; the same seed gives the same starts to every run."""
        self.source = EnvironmentSource(config.env, config.env_args).held_out(config.n_envs)
        probe = self.source.interface(config.n_envs)
        group = probe.agents_per_group
        self._n = -(-n_episodes // group) * group
        self.seed = seed
        self._config = config
        self._agent = build_agent(config, probe)
        self.interface = self._agent.interface

    @property
    def seeds(self) -> list[int]:
        """Return the seed of each episode's start."""
        return [integer_seed(self.seed, Stream.EVALUATION, i) for i in range(self._n)]

    def evaluate(self, trained: PolicyArrays) -> Evaluation:
        """Score the trained policy and all baselines."""
        return self.beside_baselines(self._score(trained, self._no_noise))

    def beside_baselines(self, trained: Float64Array) -> Evaluation:
        """Put returns (n,) from the starts of `seeds` beside those of all baselines."""
        returns = {
            "trained": trained,
            "uncontrolled": self._score(self.uncontrolled(), self._no_noise),
            "random": self._score(self._blank(), self._random_noise),
        }
        tried = {c: self._score(*self._constant(c)) for c in self._constants()}
        best = max(tried, key=lambda c: float(tried[c].mean()))
        return Evaluation(returns | {"constant": tried[best]}, best)

    def _constants(self) -> tuple[float, ...]:
        if self.interface.is_box:
            return CONSTANTS
        return tuple(float(choice) for choice in range(self.interface.n_choices))

    def _score(self, policy: PolicyArrays, noise: Noise) -> Float64Array:
        """Return the undiscounted return of one episode in each environment: (n,)."""
        environments = self.source.make(self.seeds, self.interface)
        try:
            return self._play(environments, policy, noise)
        finally:
            environments.close()

    def _play(self, environments: Environments, policy: PolicyArrays, noise: Noise) -> Float64Array:
        returns, active = np.zeros(self._n), np.ones(self._n, np.bool_)
        block = self.interface.episode_steps or BLOCK_STEPS
        for step in range(0, MOST_STEPS, block):
            trajectory = Trajectory.allocate(
                self._n, block, self.interface.n_observations, self.interface.n_actions
            )
            trajectory.lengths[:] = np.where(active, block, 0)
            environments.unroll(policy, noise(step, block), trajectory)
            active &= ~_add_first_episode(trajectory, returns)
            if not active.any():
                break
        return returns

    def _blank(self) -> PolicyArrays:
        return make_policy(self._agent)

    def uncontrolled(self) -> PolicyArrays:
        """Return a policy that, without noise, always takes the zero action (or the first)."""
        policy = self._blank()
        reach = self.interface.action_scale.copy()
        policy.action_scale[:] = 0.0
        policy.action_offset[:] = np.clip(
            0.0, self.interface.action_offset - reach, self.interface.action_offset + reach
        )
        if self.interface.is_box:
            policy.action_table[:] = policy.action_offset
        return policy

    def _constant(self, value: float) -> tuple[PolicyArrays, Noise]:
        """Return a policy that always takes one action."""
        policy = self._blank()
        if self.interface.is_box:
            policy.action_offset[:] += value * policy.action_scale
            policy.action_scale[:] = 0.0
            policy.action_table[:] = policy.action_offset
            return policy, self._no_noise

        def noise(step: int, block: int) -> Float32Array:
            values = self._no_noise(step, block)
            values[..., int(value)] = 1.0
            return values

        return policy, noise

    def _no_noise(self, step: int, block: int) -> Float32Array:  # noqa: ARG002
        return np.zeros((self._n, block, self.interface.n_choices), np.float32)

    def _random_noise(self, step: int, block: int) -> Float32Array:
        """Draw noise that makes the blank policy's actions uniform over all of them."""
        rng = generator(self.seed, Stream.ACTION_NOISE, step)
        shape = (self._n, block, self.interface.n_choices)
        return uniform_noise(self._agent.kind, rng, shape)


def _add_first_episode(trajectory: Trajectory, returns: Float64Array) -> BoolArray:
    """Add the rewards up to each environment's first end; return who has ended."""
    ended = trajectory.ended
    for env, length in enumerate(trajectory.lengths):
        ends = np.flatnonzero(ended[env, :length])
        returns[env] += trajectory.rewards[env, : ends[0] + 1 if ends.size else length].sum()
    finished: BoolArray = np.logical_or.reduce(ended, axis=1)
    return finished
