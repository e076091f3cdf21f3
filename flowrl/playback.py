"""A trained policy from its results file, and episodes played with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from flowrl.agents.interface import make_policy
from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import Interface
from flowrl.envs.python import flat, to_space
from flowrl.evaluation import MOST_STEPS, Evaluator
from flowrl.networks import n_weights
from flowrl.policies import PolicyArrays, act, scratch_for
from flowrl.registry import build_agent
from flowrl.results import ResultError, Run
from flowrl.seeding import Stream, integer_seed
from flowrl.trajectory import Float32Array
from flowrl.trust import require_trust

Snapshots = list[dict[str, Any]]


def load_policy(run: Run, config: RunConfig, interface: Interface) -> PolicyArrays:
    """Return the trained policy of a results file, checked against its environment."""
    agent = build_agent(config, interface)
    policy = make_policy(agent)
    stored = {name: run.policy.get(name) for name in ("actor_layers", "weights")}
    layers, weights = stored["actor_layers"], stored["weights"]
    if layers is not None and not len(layers):
        raise ResultError(
            f"{run.path}: its networks are those of a trainer class, which the program that made "
            "it scores at its end"
        )
    expected = n_weights(agent.actor) + n_weights(agent.critic)
    if weights is not None and not np.isfinite(weights).all():
        raise ResultError(f"{run.path}: its weights are not finite; it cannot be scored")
    if layers is None or weights is None or weights.shape != (expected,):
        raise ResultError(f"{run.path}: its weights do not fit its networks; it cannot be scored")
    if not np.array_equal(layers, agent.actor):
        raise ResultError(
            f"{run.path}: its networks do not fit the environment {config.env} as it is now"
        )
    policy.weights[:] = weights[: len(policy.weights)]
    policy.observation_mean[:] = _checked(run, "observation_mean", interface.n_observations)
    policy.observation_scale[:] = 1.0 / _checked(run, "observation_std", interface.n_observations)
    return policy


def _checked(run: Run, name: str, n: int) -> Any:
    values = run.policy.get(name)
    if values is None or values.shape != (n,):
        raise ResultError(f"{run.path}: policy/{name} is missing or not of length {n}")
    return values


class Stage(Protocol):
    """What an episode is played on: one environment, or a group of agents that share one."""

    env: Any

    def reset(self, seeds: Sequence[int]) -> Float32Array:
        """Begin an episode; return the observations, one row an agent."""

    def step(self, actions: Float32Array) -> tuple[Float32Array, bool]:
        """Act, one row an agent; return the observations and whether the episode ended."""


class SingleStage:
    """A gymnasium.Env."""

    abilities = ("snapshot", "draw_episodes")

    def __init__(self, env: Any) -> None:
        self.env = flat(env)

    def reset(self, seeds: Sequence[int]) -> Float32Array:
        """Begin an episode; return the observations, one row an agent."""
        return np.array([self.env.reset(seed=seeds[0])[0]], np.float32)

    def step(self, actions: Float32Array) -> tuple[Float32Array, bool]:
        """Act, one row an agent; return the observations and whether the episode ended."""
        action = to_space(self.env.action_space, actions[0])
        observation, _, terminated, truncated, _ = self.env.step(action)
        return np.array([observation], np.float32), bool(terminated or truncated)


class GroupStage:
    """A vector environment of one group, moved by `act`: unlike `step`, it shows how it ended."""

    abilities = ("snapshot", "draw_episodes", "act")

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, seeds: Sequence[int]) -> Float32Array:
        """Begin an episode; return the observations, one row an agent."""
        return np.ascontiguousarray(self.env.unwrapped.reset(seed=list(seeds))[0], np.float32)

    def step(self, actions: Float32Array) -> tuple[Float32Array, bool]:
        """Act, one row an agent; return the observations and whether the episode ended."""
        observations, _, terminated, truncated = self.env.unwrapped.act(actions)
        ended = bool(terminated[0] or truncated[0])
        return np.ascontiguousarray(observations, np.float32), ended


def record_episodes(path: Path, trusted: Sequence[str] = ()) -> tuple[Any, dict[str, Snapshots]]:
    """Play the first held-out episode without and with the trained policy, from the same start.

    Returns the environment, which can draw itself, and what it looked like after each step.
    `trusted` is as in `require_trust`.
    """
    run = Run.open(path)
    config = run.config
    require_trust(config.env, trusted)
    evaluator = Evaluator(config, config.n_envs)
    stage = _make_stage(evaluator, config.env)
    try:
        policies = {
            "uncontrolled": evaluator.uncontrolled(),
            "controlled": load_policy(run, config, evaluator.interface),
        }
        films = {name: _play(stage, policy, evaluator) for name, policy in policies.items()}
    except BaseException:
        stage.env.close()
        raise
    return stage.env, films


def _make_stage(evaluator: Evaluator, name: str) -> Stage:
    """Make what can be drawn: the compiled environment if it can, else the single one."""
    vector = evaluator.source.make_playable(evaluator.interface.agents_per_group)
    if vector is not None:
        if not _lacking(vector, GroupStage.abilities):
            return GroupStage(vector)
        vector.close()
    single = evaluator.source.make_single()
    lacking = _lacking(single, SingleStage.abilities)
    if lacking:
        single.close()
        raise ConfigError(f"the environment {name} cannot be drawn: it has no method {lacking[0]}")
    return SingleStage(single)


def _lacking(env: Any, abilities: Sequence[str]) -> list[str]:
    return [ability for ability in abilities if not hasattr(env.unwrapped, ability)]


def _play(stage: Stage, policy: PolicyArrays, evaluator: Evaluator) -> Snapshots:
    """Play one greedy episode; return a snapshot of its start and of every step."""
    interface = evaluator.interface
    n_agents = interface.agents_per_group
    scratch, no_noise = scratch_for(policy), np.zeros(interface.n_choices, np.float32)
    action = np.empty(interface.n_actions, np.float32)
    env_actions = np.empty((n_agents, interface.n_env_actions), np.float32)
    seeds = [integer_seed(evaluator.seed, Stream.EVALUATION, i) for i in range(n_agents)]
    observations = stage.reset(seeds)
    snapshots = [stage.env.unwrapped.snapshot()]
    for _ in range(MOST_STEPS):
        for observation, env_action in zip(observations, env_actions, strict=True):
            act(policy, observation, no_noise, scratch, action, env_action)
        observations, ended = stage.step(env_actions)
        snapshots.append(stage.env.unwrapped.snapshot())
        if ended:
            break
    return snapshots
