"""The project's trainers make the native learners' steps; a user's trainer runs as it is."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from flowrl.agents.off_policy import OffPolicyAgent  # noqa: E402
from flowrl.composer.modules import find_networks  # noqa: E402
from flowrl.composer.torch_trainer import TorchTrainerLearner  # noqa: E402
from flowrl.composer.trainers import DDPG, DQN, SAC, TD3, TRAINERS  # noqa: E402
from flowrl.config import (  # noqa: E402
    ConfigError,
    DqnConfig,
    NetworkConfig,
    RunConfig,
    Td3Config,
)
from flowrl.envs.interface import read_interface  # noqa: E402
from flowrl.learners.off_policy import NativeOffPolicyLearner  # noqa: E402
from flowrl.learners.torch_off_policy import TorchOffPolicyLearner  # noqa: E402
from flowrl.networks import weight_offsets  # noqa: E402
from flowrl.replay import Rows  # noqa: E402

CHOICES = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(3)
TORQUE = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Box(-2.0, 4.0, (2,))
N = 24


def config_of(algo):
    return RunConfig(
        algo=algo,
        network=NetworkConfig(16, 16),
        dqn=DqnConfig(target_interval=2),
        td3=Td3Config(target_noise=0.0),
    )


def load_chain(module, layers, rows, flat):
    """Copy table rows of flat weights into the linear layers of a module, in their order."""
    offsets = weight_offsets(layers)
    linear = [m for m in module.modules() if isinstance(m, nn.Linear)]
    for layer, (index, columns) in zip(linear, rows, strict=True):
        n_in, n_out = layers[index, 2:4]
        piece = flat[offsets[index] : offsets[index + 1]]
        weights = piece[: n_in * n_out].reshape(n_in, n_out)[:, columns]
        layer.weight.data = torch.from_numpy(weights.T.copy())
        layer.bias.data = torch.from_numpy(piece[n_in * n_out :][columns].copy())


def load_trainer(trainer, agent, flat):
    """Give a trainer the parameters of an agent, targets included."""
    everything = slice(None)
    chain = [(0, everything), (1, everything), (2, everything)]
    n_actor = int(weight_offsets(agent.actor)[-1])
    networks = find_networks(trainer)
    for name in ("network", "target", "actor", "target_actor"):
        if name in networks:
            load_chain(networks[name], agent.actor, chain, flat[:n_actor])
    for name in ("critics", "target_critics"):
        for i in range(getattr(trainer, "n_critics", 0)):
            width, n = 16, trainer.n_critics
            rows = [(0, slice(i * width, (i + 1) * width)), (1 + i, everything)]
            rows.append((1 + n + i, everything))
            load_chain(networks[f"{name}.{i}"], agent.critic, rows, flat[n_actor:])


def rows_of(spaces, rng):
    """Draw rows as a learner stores them, and as an environment's actions are."""
    n, space = spaces[0].shape[0], spaces[1]
    observations, following = rng.normal(size=(2, N, n)).astype(np.float32)
    if isinstance(space, gymnasium.spaces.Discrete):
        actions = taken = rng.integers(0, space.n, (N, 1)).astype(np.float32)
    else:
        actions = rng.uniform(-1, 1, (N, *space.shape)).astype(np.float32)
        taken = (space.low + (actions + 1) / 2 * (space.high - space.low)).astype(np.float32)
    rewards = rng.normal(size=N).astype(np.float32)
    discounts = np.where(rng.random(N) < 0.2, 0, 0.9).astype(np.float32)
    stored = Rows(observations, actions, rewards, following, discounts)
    return stored, Rows(observations, taken, rewards, following, discounts)


@pytest.mark.parametrize(
    ("cls", "spaces"), [(DQN, CHOICES), (DDPG, TORQUE), (TD3, TORQUE)]
)  # SAC draws noise in every step: see below
def test_steps_are_the_native_learners(cls, spaces):
    config, rng = config_of(cls.algo), np.random.default_rng(3)
    agent = OffPolicyAgent.build(config, read_interface(*spaces, None))
    native = NativeOffPolicyLearner(agent, 0)
    flat = agent.initial_parameters(0)
    native.load_parameters(flat)
    trainer = cls(*spaces, config)
    load_trainer(trainer, agent, flat)
    acting = ("network",) if cls is DQN else ("actor",)
    own = TorchTrainerLearner(trainer, trainer.input_shape, acting, cls is DQN, True)
    stored, taken = rows_of(spaces, rng)
    for _ in range(6):
        indices = rng.integers(0, N, 16)
        weights = rng.uniform(0.2, 1.0, 16).astype(np.float32)
        ours = own.learn(taken, indices, weights)
        theirs = native.learn(stored, indices, weights)
        np.testing.assert_allclose(ours.td_errors, theirs.td_errors, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("cls", "spaces"), [(DQN, CHOICES), *((c, TORQUE) for c in (TD3, SAC))])
def test_actions_are_the_environments(cls, spaces):
    trainer = cls(*spaces, config_of(cls.algo))
    for trainer.exploration in (0.0, 0.5):
        for _ in range(20):
            action = trainer.get_action(spaces[0].sample())
            assert spaces[1].contains(action)
    trainer.exploration = 0.0
    observation = spaces[0].sample()
    np.testing.assert_array_equal(trainer.get_action(observation), trainer.get_action(observation))


def test_levels_of_a_box_are_found_again():
    trainer = DQN(*TORQUE, config_of("dqn"))
    table = trainer.interface.action_table
    np.testing.assert_array_equal(
        trainer._choices(torch.from_numpy(table))[:, 0], range(len(table))
    )


def test_steps_of_sac_are_the_torch_learners():
    config, rng = config_of("sac"), np.random.default_rng(3)
    agent = OffPolicyAgent.build(config, read_interface(*TORQUE, None))
    reference, flat = TorchOffPolicyLearner(agent, 0), agent.initial_parameters(0)
    reference.load_parameters(flat)
    trainer = SAC(*TORQUE, config)
    load_trainer(trainer, agent, flat)
    own = TorchTrainerLearner(trainer, trainer.input_shape, ("actor",), False, True)
    stored, taken = rows_of(TORQUE, rng)
    for seed in range(6):
        indices = rng.integers(0, N, 16)
        weights = rng.uniform(0.2, 1.0, 16).astype(np.float32)
        torch.manual_seed(seed)  # both draw the same noise in the same order
        ours = own.learn(taken, indices, weights)
        torch.manual_seed(seed)
        theirs = reference.learn(stored, indices, weights)
        np.testing.assert_allclose(ours.td_errors, theirs.td_errors, rtol=2e-4, atol=2e-5)
        assert float(trainer.temperature[0].detach().exp()) != theirs.temperature  # of before


@pytest.mark.parametrize("algo", TRAINERS)
def test_state_goes_round(algo):
    spaces = CHOICES if algo == "dqn" else TORQUE
    rng = np.random.default_rng(0)
    _, taken = rows_of(spaces, rng)
    acting = ("network",) if algo == "dqn" else ("actor",)

    def learner():
        trainer = TRAINERS[algo](*spaces, config_of(algo))
        return TorchTrainerLearner(trainer, trainer.input_shape, acting, algo == "dqn", True)

    def step(own):
        return own.learn(taken, np.arange(N), np.ones(N, np.float32)).td_errors

    first, second = learner(), learner()
    for _ in range(3):
        step(first)
    second.load_state(first.state())
    random = torch.get_rng_state()
    expected = [step(first) for _ in range(3)]
    torch.set_rng_state(random)
    np.testing.assert_array_equal([step(second) for _ in range(3)], expected)
    third = learner()
    third.load_parameters(first.parameters())
    np.testing.assert_array_equal(third.parameters(), first.parameters())
    np.testing.assert_array_equal(third.actor_weights(), first.actor_weights())


class Plain:
    """A user's trainer that returns whatever it is told to."""

    result = None

    def __init__(self):
        self.network = nn.Linear(4, 3)

    def update_policy(self, batch):
        self.batch = batch
        return self.result


@pytest.mark.parametrize("result", [None, 0.5, np.zeros(3, np.float32)])
def test_prioritized_replay_needs_errors_of_rows(result):
    _, taken = rows_of(CHOICES, np.random.default_rng(0))
    trainer = Plain()
    trainer.result = result
    call = np.arange(N), np.ones(N, np.float32)
    with pytest.raises(ConfigError, match=f"errors of its {N} rows"):
        TorchTrainerLearner(trainer, (4,), ("network",), True, True).learn(taken, *call)
    step = TorchTrainerLearner(trainer, (4,), ("network",), True, False).learn(taken, *call)
    assert step.applied
    assert np.isnan(step.td_errors).all()


def test_a_batch_has_the_trainers_shape_and_choices():
    _, taken = rows_of(CHOICES, np.random.default_rng(0))
    trainer = Plain()
    trainer.result = torch.full((5, 1), -2.0)
    own = TorchTrainerLearner(trainer, (2, 2), ("network",), True, True)
    step = own.learn(taken, np.arange(5), np.ones(5, np.float32))
    np.testing.assert_array_equal(step.td_errors, np.full(5, 2.0))
    assert trainer.batch.observations.shape == (5, 2, 2)
    assert trainer.batch.actions.shape == (5, 1)
    assert trainer.batch.actions.dtype == torch.int64


def test_errors_that_are_not_finite_are_not_applied():
    _, taken = rows_of(CHOICES, np.random.default_rng(0))
    trainer = Plain()
    trainer.result = torch.full((N,), torch.nan)
    own = TorchTrainerLearner(trainer, (4,), ("network",), True, True)
    assert not own.learn(taken, np.arange(N), np.ones(N, np.float32)).applied
