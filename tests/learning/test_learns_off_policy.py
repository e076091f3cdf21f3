"""Off-policy learning as a whole: fails if targets, replay, acting or updates are broken."""

from dataclasses import dataclass

import numpy as np
import pytest

from flowrl.comm import SerialCommunicator
from flowrl.config import (
    DdpgConfig,
    DqnConfig,
    NetworkConfig,
    OffPolicyConfig,
    ReplayConfig,
    RunConfig,
    SacConfig,
    Td3Config,
)
from flowrl.evaluation import Evaluator
from flowrl.parallel.trainer import make_trainer
from flowrl.policies import PolicyArrays, forward, scratch_for
from tests.learning.chances import CHANCE, PRIZE, SURE
from tests.learning.ladder import TOP

SMALL = NetworkConfig(64, 64)
LADDER = {
    "algo": "dqn",
    "env": "tests.learning.ladder:make",
    "n_transitions": 6000,
    "network": NetworkConfig(32, 32),
    "replay": ReplayConfig(batch_size=64),
    "dqn": DqnConfig(target_interval=1, target_rate=0.02, exploration_share=0.3),
}


@dataclass
class Learnt:
    """A trained policy and what it was trained with."""

    config: RunConfig
    policy: PolicyArrays
    td_error: float  # mean over the rows of the last updates

    def score(self, n_episodes: int = 64) -> float:
        """Return its mean held-out score."""
        returns = Evaluator(self.config, n_episodes).evaluate(self.policy).returns
        return float(returns["trained"].mean())

    def values(self, observation: np.ndarray) -> np.ndarray:
        """Return what a DQN expects of each action."""
        row = np.asarray(observation, np.float32)
        return forward(self.policy, row, scratch_for(self.policy)).copy()


def learn(**options) -> Learnt:
    config = RunConfig(**options)
    trainer = make_trainer(config, SerialCommunicator())
    try:
        trainer.warm_up()
        *_, last = trainer.updates()
        trainer.publish_policy()
        return Learnt(config, trainer.policy, last.iteration()["td_error"])
    finally:
        trainer.close()


def test_dqn_balances_the_pole():
    learnt = learn(
        algo="dqn",
        env="CartPole-v1",
        n_transitions=20_000,
        network=SMALL,
        off_policy=OffPolicyConfig(updates_per_transition=0.5, steps_per_collection=4),
        replay=ReplayConfig(batch_size=64),
        dqn=DqnConfig(target_interval=250, exploration_share=0.4),
    )
    assert learnt.score() > 120.0  # random actions: 22


@pytest.mark.parametrize(
    ("algo", "own"),
    [
        ("sac", {"sac": SacConfig(1e-3, 1e-3, 1e-3)}),
        ("td3", {"td3": Td3Config()}),
        ("ddpg", {"ddpg": DdpgConfig()}),
    ],
)
def test_actor_critics_swing_the_pendulum_up(algo, own):
    learnt = learn(
        algo=algo,
        env="Pendulum-v1",
        n_envs=4,
        n_transitions=12_000,
        network=SMALL,
        off_policy=OffPolicyConfig(updates_per_transition=0.75, gamma=0.97),
        replay=ReplayConfig(batch_size=64),
        **own,
    )
    assert learnt.score(32) > -400.0  # random actions: -1200


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_time_limit_does_not_end_the_value(n_steps):
    learnt = learn(**LADDER, off_policy=OffPolicyConfig(gamma=0.9, n_steps=n_steps))
    # From rung r = 0..3 the best is 4 - r climbs at -0.2, then 1 a step: 12 steps pay 9 on average.
    assert learnt.score() > 8.9
    # At the top the value is 1 / (1 - 0.9) = 10, although no episode lasts longer than 12 steps.
    # Sums of several rewards hold some of exploring actions, too.
    least = 9.5 if n_steps == 1 else 8.5
    assert least < learnt.values(np.eye(TOP + 1)[TOP])[0] < 10.5


def play_the_lottery(priorities: str, n_steps: int) -> Learnt:
    return learn(
        algo="dqn",
        env="tests.learning.chances:lottery",
        n_transitions=6000,
        network=NetworkConfig(16, 16),
        off_policy=OffPolicyConfig(n_steps=n_steps),
        replay=ReplayConfig(batch_size=128, priorities=priorities, weight_exponent=1.0),
        # The squared error: Huber's favours the median.
        dqn=DqnConfig(huber_delta=100.0, final_epsilon=1.0),
    )


def test_priorities_favour_what_surprises_and_weights_keep_its_mean():
    # Sums of up to three rewards: those of other episodes are no part of them.
    prioritized, uniform = play_the_lottery("prioritized", 1), play_the_lottery("uniform", 3)
    # A ticket errs by 9 or 1, 1.8 in the mean, the other half of all rows by 0. In proportion to
    # its error^0.6, a prize is drawn 3.7 times as often as a blank: 3.3 in the mean.
    assert prioritized.td_error > 2.5
    assert uniform.td_error == pytest.approx(0.9, abs=0.3)
    # Without importance weights a ticket would seem worth 2.9.
    for learnt in (prioritized, uniform):
        assert learnt.values(np.ones(1)) == pytest.approx([CHANCE * PRIZE, SURE], abs=0.35)
