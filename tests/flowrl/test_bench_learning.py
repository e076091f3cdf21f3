"""Stable-Baselines3 is given the numbers of a configuration of ours."""

import json

import pytest

from flowrl.bench.peer_learning import command, keywords
from flowrl.config import ConfigError, ReplayConfig, RunConfig, SacConfig, Td3Config

pytest.importorskip("stable_baselines3")


def test_sac_gets_our_numbers() -> None:
    own = SacConfig(
        actor_learning_rate=1e-2, critic_learning_rate=1e-2, target_rate=0.5, target_entropy=-2.0
    )
    found = keywords(RunConfig(algo="sac", n_envs=1, seed=7, sac=own).resolved(), 3)
    assert found["learning_rate"] == 1e-2
    assert (found["tau"], found["target_entropy"], found["seed"]) == (0.5, -6.0, 7)
    assert found["policy_kwargs"] == {"net_arch": [256, 256]}


def test_td3_gets_our_noise() -> None:
    own = Td3Config(exploration_noise=0.3, target_noise=0.4, noise_clip=0.6, policy_delay=3)
    found = keywords(RunConfig(algo="td3", n_envs=1, td3=own).resolved(), 2)
    assert (found["target_policy_noise"], found["target_noise_clip"]) == (0.4, 0.6)
    assert found["policy_delay"] == 3
    assert found["action_noise"]._sigma.tolist() == [0.3, 0.3]


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(algo="dqn", n_envs=1),
        RunConfig(algo="sac", n_envs=2),
        RunConfig(algo="sac", n_envs=1, sac=SacConfig(actor_learning_rate=1e-2)),
        RunConfig(algo="td3", n_envs=1, replay=ReplayConfig(priorities="prioritized")),
    ],
)
def test_what_it_cannot_express_is_refused(config: RunConfig) -> None:
    with pytest.raises(ConfigError):
        keywords(config.resolved(), 1)


def test_it_trains_and_scores(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--algo td3 --env Pendulum-v1 --n-envs 1 --n-transitions 450 --replay.batch-size 8"
    rest = "--off-policy.learning-starts 300 --evaluation.n-episodes 2 --network.actor-width 8"
    assert command([*arguments.split(), *rest.split(), "--network.critic-width", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["episodes"]["return"]) == 2  # 200 steps each
    assert found["evaluation"]["n"] == 2
    assert found["evaluation"]["mean"] < 0
