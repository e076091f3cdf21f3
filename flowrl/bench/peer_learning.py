"""Train Stable-Baselines3 with the numbers of a configuration of ours: does it learn the same?

Takes the options of `python -m flowrl.train` and prints one JSON object: the episodes of the
training and the scores on the held-out starts on which our runs are scored.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowrl.bench.learner_peers import library
from flowrl.config import ConfigError, RunConfig, parse, to_toml
from flowrl.envs.python import Env
from flowrl.registry import EnvironmentSource
from flowrl.seeding import Stream, integer_seed
from flowrl.versions import versions

PROGRAM = "flowrl.bench learning"


def keywords(config: RunConfig, n_actions: int) -> dict[str, Any]:
    """Return the arguments of Stable-Baselines3's SAC or TD3 that mean what the configuration says.

    Raises ConfigError for what it can't express.
    """
    _check(config)
    own = config.sac if config.algo == "sac" else config.td3
    return {
        "learning_rate": own.critic_learning_rate,
        "tau": own.target_rate,
        "gamma": config.off_policy.gamma,
        "buffer_size": min(config.replay.capacity, config.n_transitions),
        "batch_size": config.replay.batch_size,
        "learning_starts": config.off_policy.learning_starts,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [config.network.critic_width] * 2},
        "seed": config.seed,
        **(_of_sac if config.algo == "sac" else _of_td3)(config, n_actions),
    }


def _check(config: RunConfig) -> None:
    """Refuse what would not be the same training."""
    if config.algo not in ("sac", "td3"):
        raise ConfigError(f"--algo must be sac or td3 here, got {config.algo}; try sac")
    own, network, off_policy = getattr(config, config.algo), config.network, config.off_policy
    same = {
        "learning rates of actor and critic": own.actor_learning_rate == own.critic_learning_rate,
        "widths of actor and critic": network.actor_width == network.critic_width,
        "one environment": config.n_envs == 1,
        "one update a transition": off_policy.updates_per_transition == 1,
        "one-step returns": off_policy.n_steps == 1,
        "uniform replay": config.replay.priorities == "uniform",
        "rewards and observations as they are": off_policy.reward_scale == 1
        and not off_policy.normalise_observations,
    }
    missing = [name for name, holds in same.items() if not holds]
    if missing:
        raise ConfigError(f"Stable-Baselines3 is given the same training with {missing[0]} only")


def _of_sac(config: RunConfig, n_actions: int) -> dict[str, Any]:
    sac = config.sac
    return {
        "ent_coef": f"auto_{sac.initial_temperature}",
        "target_entropy": sac.target_entropy * n_actions,
    }


def _of_td3(config: RunConfig, n_actions: int) -> dict[str, Any]:
    td3, noise = config.td3, library("stable_baselines3.common.noise")
    return {
        "policy_delay": td3.policy_delay,
        "target_policy_noise": td3.target_noise,
        "target_noise_clip": td3.noise_clip,
        "action_noise": noise.NormalActionNoise(
            np.zeros(n_actions), np.full(n_actions, td3.exploration_noise)
        ),
    }


def train(config: RunConfig) -> dict[str, Any]:
    """Train once, score, and return both as plain values."""
    algorithms = library("stable_baselines3")
    library("torch").set_num_threads(config.off_policy.threads)
    source = EnvironmentSource(config.env, config.env_args)
    env = library("stable_baselines3.common.monitor").Monitor(source.make_single())
    n_actions = int(np.prod(env.action_space.shape))
    model = getattr(algorithms, config.algo.upper())(
        "MlpPolicy", env, **keywords(config, n_actions)
    )
    begin = time.perf_counter()
    model.learn(config.n_transitions)
    seconds = time.perf_counter() - begin
    scores = evaluate(model, source.held_out(1).make_single(), config.evaluation.n_episodes)
    return {
        "library": "stable_baselines3",
        "versions": versions() | {"stable_baselines3": algorithms.__version__},
        "seconds": seconds,
        "episodes": {"return": env.get_episode_rewards(), "length": env.get_episode_lengths()},
        "evaluation": {
            "mean": float(np.mean(scores)),
            "std": float(np.std(scores)),
            "n": len(scores),
        },
        "config": to_toml(config),
    }


def evaluate(model: Any, env: Env, n_episodes: int) -> list[float]:
    """Return the undiscounted returns of the deterministic policy on the held-out starts."""
    scores = []
    for i in range(n_episodes):
        observation, _ = env.reset(seed=integer_seed(0, Stream.EVALUATION, i))
        total, ended = 0.0, False
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            ended = terminated or truncated
        scores.append(total)
    return scores


def command(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    config = parse(arguments, PROGRAM).resolved()
    sys.stdout.write(json.dumps(train(config), allow_nan=False) + "\n")
    return 0
