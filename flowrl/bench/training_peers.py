"""Other code that trains off-policy, with the numbers of one of our configurations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.bench.learner_peers import PeerMissing, library
from flowrl.config import RunConfig
from flowrl.envs.python import flat
from flowrl.registry import EnvironmentSource, build_agent
from flowrl.replay import Rows

__all__ = ["PEERS", "PeerMissing"]

Result = tuple[float, None]  # seconds; how they are spent is not told


def stable_baselines3(config: RunConfig) -> Result:
    """Train with Stable-Baselines3."""
    algorithms = library("stable_baselines3")
    library("torch").set_num_threads(config.off_policy.threads)
    env = EnvironmentSource(config.env, config.env_args).make_single()
    widths = [config.network.actor_width] * 2
    model = getattr(algorithms, config.algo.upper())(
        "MlpPolicy",
        env,
        buffer_size=config.n_transitions,
        batch_size=config.replay.batch_size,
        learning_starts=config.off_policy.learning_starts,
        gradient_steps=1,
        train_freq=1,
        policy_kwargs={"net_arch": widths},
    )
    begin = time.perf_counter()
    model.learn(config.n_transitions)
    return time.perf_counter() - begin, None


def plain_torch(config: RunConfig) -> Result:
    """Train with a loop as one would write it: Gymnasium, arrays, one torch step a transition."""
    torch, learners = library("torch"), library("flowrl.learners.torch_off_policy")
    source = EnvironmentSource(config.env, config.env_args)
    env = flat(source.make_single())
    agent = build_agent(config, source.interface(1))
    assert isinstance(agent, OffPolicyAgent)
    learner = learners.TorchOffPolicyLearner(agent, 0, "cpu", config.off_policy.threads)
    learner.load_parameters(agent.initial_parameters(0))
    rng = np.random.default_rng(0)
    rows = _empty_rows(config.n_transitions, agent)
    ones = np.ones(config.replay.batch_size, np.float32)
    begin = time.perf_counter()
    observation, _ = env.reset(seed=0)
    for i in range(config.n_transitions):
        action = _act(torch, learner, agent, observation, rng)
        following, reward, terminated, truncated, _ = env.step(
            agent.interface.action_offset + agent.interface.action_scale * action
        )
        discount = 0.0 if terminated else config.off_policy.gamma
        _store(rows, i, (observation, action, reward, following, discount))
        observation = env.reset()[0] if terminated or truncated else following
        if i >= config.off_policy.learning_starts:
            learner.learn(rows, rng.integers(0, i, len(ones)), ones)
    return time.perf_counter() - begin, None


def _empty_rows(n: int, agent: OffPolicyAgent) -> Rows:
    n_observations = agent.interface.n_observations
    shapes = (n_observations,), (agent.interface.n_actions,), (), (n_observations,), ()
    return Rows(*(np.zeros((n, *shape), np.float32) for shape in shapes))


def _act(
    torch: Any, learner: Any, agent: OffPolicyAgent, observation: Any, rng: np.random.Generator
) -> Any:
    n = agent.interface.n_actions
    with torch.no_grad():
        outputs = learner.act(torch.from_numpy(np.asarray(observation, np.float32))[None])
    mean = outputs[0].numpy()[:n]
    return np.clip(np.tanh(mean) + 0.1 * rng.standard_normal(n), -1.0, 1.0).astype(np.float32)


def _store(rows: Rows, i: int, transition: tuple[Any, ...]) -> None:
    for array, value in zip(vars(rows).values(), transition, strict=True):
        array[i] = value


PEERS: dict[str, Callable[[RunConfig], Result]] = {
    "Stable-Baselines3": stable_baselines3,
    "plain torch loop": plain_torch,
}
