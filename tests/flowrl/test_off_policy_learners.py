"""The fused and the torch learner make the same steps."""

import numpy as np
import pytest
from gymnasium import spaces

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.config import ConfigError, NetworkConfig, RunConfig, Td3Config
from flowrl.envs.interface import UnsupportedEnvironment, read_interface
from flowrl.learners.off_policy import NativeOffPolicyLearner
from flowrl.learners.torch_off_policy import TorchOffPolicyLearner
from flowrl.replay import Rows

ALGORITHMS = ("dqn", "ddpg", "td3", "sac")
BOX = spaces.Box(-1, 1, (5,))


def agent_for(algo, **changes):
    action_space = spaces.Discrete(3) if algo == "dqn" else spaces.Box(-1, 1, (2,))
    config = RunConfig(algo=algo, network=NetworkConfig(32, 32), **changes)
    return OffPolicyAgent.build(config, read_interface(BOX, action_space, None))


def make_rows(algo, n=500):
    rng = np.random.default_rng(0)
    floats = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    actions = rng.integers(0, 3, (n, 1)) if algo == "dqn" else rng.uniform(-1, 1, (n, 2))
    discounts = np.where(rng.random(n) < 0.2, 0.0, 0.99).astype(np.float32)
    return Rows(floats(n, 5), actions.astype(np.float32), floats(n), floats(n, 5), discounts)


def train(learner, agent, rows, n_steps, seed=1):
    learner.load_parameters(agent.initial_parameters(0))
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(n_steps):
        weights = rng.uniform(0.5, 1, 64).astype(np.float32)
        steps.append(learner.learn(rows, rng.integers(0, len(rows), 64), weights))
    return steps


@pytest.mark.parametrize("algo", ["dqn", "ddpg", "td3"])
def test_both_make_the_same_steps_where_nothing_is_drawn(algo):
    # Without noise on its targets TD3 is deterministic too.
    agent = agent_for(algo, td3=Td3Config(target_noise=0.0))
    rows = make_rows(algo)
    learners = [NativeOffPolicyLearner(agent, 0), TorchOffPolicyLearner(agent, 0)]
    native, torch = (train(learner, agent, rows, 30) for learner in learners)
    for one, other in zip(native, torch, strict=True):
        for name in ("critic_loss", "mean_value", "actor_loss", "critic_gradient_norm"):
            expected = pytest.approx(getattr(other, name), rel=2e-3, abs=2e-5, nan_ok=True)
            assert getattr(one, name) == expected, name
        np.testing.assert_allclose(one.td_errors, other.td_errors, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(learners[0].parameters(), learners[1].parameters(), atol=1e-3)


@pytest.mark.parametrize("algo", ["ddpg", "td3"])
def test_both_let_the_actor_learn_from_other_observations(algo):
    agent = agent_for(algo, td3=Td3Config(target_noise=0.0))
    rows, rng = make_rows(algo), np.random.default_rng(4)
    learners = [NativeOffPolicyLearner(agent, 0), TorchOffPolicyLearner(agent, 0)]
    for learner in learners:
        learner.load_parameters(agent.initial_parameters(0))
    for _ in range(20):
        indices, others = rng.integers(0, len(rows), 64), rng.normal(size=(64, 5))
        ones, others = np.ones(64, np.float32), others.astype(np.float32)
        steps = [learner.learn(rows, indices, ones, others) for learner in learners]
        losses = [step.actor_loss for step in steps]
        assert losses[0] == pytest.approx(losses[1], rel=2e-3, abs=2e-5, nan_ok=True)
    np.testing.assert_allclose(learners[0].parameters(), learners[1].parameters(), atol=1e-3)


def test_both_make_the_same_steps_of_sac_but_for_their_noise():
    agent, rows = agent_for("sac"), make_rows("sac")
    learners = [NativeOffPolicyLearner(agent, 0), TorchOffPolicyLearner(agent, 0)]
    results = [train(learner, agent, rows, 400)[-100:] for learner in learners]
    for name, tolerance in (("critic_loss", 0.1), ("entropy", 0.03), ("temperature", 1e-3)):
        means = [np.mean([getattr(step, name) for step in steps]) for steps in results]
        assert means[0] == pytest.approx(means[1], rel=tolerance), name


@pytest.mark.parametrize("kind", [NativeOffPolicyLearner, TorchOffPolicyLearner])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_saved_state_goes_on_as_if_nothing_had_been(kind, algo):
    agent, rows = agent_for(algo), make_rows(algo)
    learner = kind(agent, 3)
    train(learner, agent, rows, 5)
    state = learner.state()
    indices, weights = np.arange(64), np.ones(64, np.float32)
    for _ in range(3):
        learner.learn(rows, indices, weights)
    expected = learner.parameters()
    other = kind(agent, 3)
    other.load_state(state)
    for _ in range(3):
        other.learn(rows, indices, weights)
    np.testing.assert_array_equal(other.parameters(), expected)


@pytest.mark.parametrize("kind", [NativeOffPolicyLearner, TorchOffPolicyLearner])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_what_is_not_finite_is_not_learnt(kind, algo):
    agent, rows = agent_for(algo), make_rows(algo)
    learner = kind(agent, 0)
    train(learner, agent, rows, 2)
    before = learner.parameters()
    rows.rewards[7] = np.inf
    step = learner.learn(rows, np.arange(64), np.ones(64, np.float32))
    assert not step.applied
    np.testing.assert_array_equal(learner.parameters(), before)


def test_what_does_not_fit_is_refused():
    interface = read_interface(BOX, spaces.Discrete(3), None)
    with pytest.raises(UnsupportedEnvironment, match="--algo sac must have continuous actions"):
        OffPolicyAgent.build(RunConfig(algo="sac"), interface)
    agent = agent_for("sac")
    with pytest.raises(ConfigError, match="needs a CUDA device"):
        TorchOffPolicyLearner(agent, 0, "sycl")
