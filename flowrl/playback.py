"""A trained policy from its results file, and episodes played with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flowrl.agents.ppo import PpoAgent
from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import Interface
from flowrl.envs.python import to_space
from flowrl.evaluation import Evaluator
from flowrl.networks import n_weights
from flowrl.policies import PolicyArrays, act, scratch_for
from flowrl.results import ResultError, Run
from flowrl.seeding import Stream, integer_seed

Snapshots = list[dict[str, Any]]


def load_policy(run: Run, config: RunConfig, interface: Interface) -> PolicyArrays:
    """Return the trained policy of a results file, checked against its environment."""
    agent = PpoAgent.build(config, interface)
    policy = agent.policy(interface, config.ppo.observation_clip)
    stored = {name: run.policy.get(name) for name in ("actor_layers", "weights")}
    layers, weights = stored["actor_layers"], stored["weights"]
    expected = n_weights(agent.actor) + n_weights(agent.critic)
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


def record_episodes(path: Path) -> tuple[Any, dict[str, Snapshots]]:
    """Play one held-out episode without and one with the trained policy, from the same start.

    Returns the environment, which can draw itself, and what it looked like after each step.
    """
    run = Run.open(path)
    config = run.config
    evaluator = Evaluator(config, config.n_envs)
    env = evaluator.source.make_single()
    for ability in ("snapshot", "draw_episodes"):
        if not hasattr(env.unwrapped, ability):
            raise ConfigError(
                f"the environment {config.env} cannot be drawn: it has no method {ability}"
            )
    policies = {
        "uncontrolled": evaluator.uncontrolled(),
        "controlled": load_policy(run, config, evaluator.interface),
    }
    return env, {name: _play(env, policy, evaluator) for name, policy in policies.items()}


def _play(env: Any, policy: PolicyArrays, evaluator: Evaluator) -> Snapshots:
    """Play one greedy episode; return a snapshot of its start and of every step."""
    interface, scratch = evaluator.interface, scratch_for(policy)
    action, env_action = (np.empty(interface.n_actions, np.float32) for _ in range(2))
    no_noise = np.zeros(interface.n_choices, np.float32)
    observation, _ = env.reset(seed=integer_seed(evaluator.seed, Stream.EVALUATION))
    snapshots = [env.unwrapped.snapshot()]
    while True:
        act(policy, observation, no_noise, scratch, action, env_action)
        observation, _, terminated, truncated, _ = env.step(to_space(env.action_space, env_action))
        snapshots.append(env.unwrapped.snapshot())
        if terminated or truncated:
            return snapshots
