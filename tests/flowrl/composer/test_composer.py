"""The user's view, from set_actors to accelerators."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from flowrl.composer import Composer, CompositionResult, HardwareSpec  # noqa: E402
from flowrl.composer.costs import (  # noqa: E402
    DeviceCosts,
    Origin,
    PrimitiveCosts,
    Seconds,
)
from flowrl.composer.hardware import Device, Kind, Link  # noqa: E402
from flowrl.composer.torch_trainer import TorchTrainerLearner  # noqa: E402
from flowrl.composer.trainers import DQN, SAC, TD3  # noqa: E402
from flowrl.config import ConfigError  # noqa: E402
from flowrl.learners.off_policy import NativeOffPolicyLearner  # noqa: E402
from flowrl.replay import Rows  # noqa: E402

HOST = HardwareSpec((Device("cpu", Kind.CPU, 2**32, cores=2),), ())
WITH_GPU = HardwareSpec(
    (*HOST.devices, Device("gpu0", Kind.CUDA, 2**34)), (Link(("cpu", "gpu0"), 1e-5, 1e10),)
)


def given(sample, update, insert, train):
    times = (Seconds(t, Origin.GIVEN) for t in (sample, update, insert, train))
    return PrimitiveCosts(*times)


COSTS = {
    "cpu": DeviceCosts(given(10e-6, 5e-6, 5e-6, 9e-3), given(10e-6, 5e-6, 5e-6, 9e-3)),
    "gpu0": DeviceCosts(given(1e-3, 1e-3, 1e-3, 1e-3), given(1e-3, 1e-3, 1e-3, 1e-3)),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWRL_CACHE", str(tmp_path))


class Mine:
    """A trainer of a user's own: REINFORCE-like nonsense that only torch can run."""

    def __init__(self, observation_space, action_space, width=12, scaled=True):
        self.scaled = scaled
        self.network = nn.Sequential(
            nn.Linear(observation_space.shape[0], width),
            nn.SiLU(),
            nn.Linear(width, action_space.n),
        )
        self.optimiser = torch.optim.SGD(self.network.parameters(), 0.1)

    def get_action(self, observation):
        return int(self.network(torch.as_tensor(observation)).argmax())

    def update_policy(self, batch):
        errors = self.network(batch.observations).gather(1, batch.actions)[:, 0] - batch.rewards
        self.optimiser.zero_grad()
        (batch.weights * errors.square()).mean().backward()
        self.optimiser.step()
        return errors.abs()


class Failing(Mine):
    def __init__(self):
        raise RuntimeError("two\nlines")


class Endless(Mine):
    input_shape = (float("inf"),)


class Closed:
    """Has slots, and so no attributes that can be listed."""

    __slots__ = ("network",)
    get_action = Mine.get_action

    def __init__(self):
        self.network = nn.Linear(4, 2)

    def update_policy(self, batch):
        """Learn nothing."""


def composer_of(cls, env="CartPole-v1", hardware=HOST, kind="prioritized", **options):
    composer = Composer(hardware)
    composer.set_actors(env)
    composer.set_train_function(cls, **options)
    composer.set_replay(kind=kind, capacity=500, batch_size=16, insert_size=4)
    return composer


def learn_once(result):
    """Insert, draw, learn, set priorities with what a result makes."""
    manager, learner = result.make_replay_manager(), result.make_learner()
    rows = result.accelerators.synthetic_rows(100, np.random.default_rng(0))
    assert isinstance(rows, Rows)
    manager.insert(rows)
    sample = manager.sample(np.random.default_rng(1), result.workload.batch_size, 0.4)
    before = learner.parameters()
    step = learner.learn(manager.storage.rows, sample.indices, sample.weights)
    manager.update_priorities(sample, step.td_errors)
    assert (learner.parameters() != before).any()
    return learner


def test_given_costs_place_the_parts():
    result = composer_of(DQN, hardware=WITH_GPU, critic_width=24).run(COSTS)
    assert isinstance(result, CompositionResult)
    chosen = result.placement
    assert (chosen.replay_manager, chosen.learner) == ("cpu", "gpu0")
    assert chosen.t_itr_s == pytest.approx(10e-6 + 1e-3 + 5e-6)
    assert result.matrix is COSTS
    assert result.profile is None
    assert result.workload.actor[:, 3].tolist() == [24, 24, 2]
    assert result.config.off_policy.updates_per_transition == 0.25


def test_costs_may_be_a_file(tmp_path):
    path = tmp_path / "costs.toml"
    times = "sample=1e-6\nupdate=1e-6\ninsert=1e-6\ntrain=2e-3\n"
    path.write_text(f"[costs.cpu]\n{times}[costs.cpu.shared]\n{times}")
    result = composer_of(DQN).run(path)
    assert result.placement.t_itr_s == pytest.approx(2e-3 + 2e-6)


@pytest.mark.parametrize(
    ("cls", "env"), [(DQN, "CartPole-v1"), (DQN, "Pendulum-v1"), (TD3, "Pendulum-v1"),
                     (SAC, "Pendulum-v1")]
)  # fmt: skip
@pytest.mark.parametrize("kind", ["prioritized", "uniform"])
def test_a_measured_composition_runs(cls, env, kind):
    widths = {"critic_width": 16} | ({} if cls is DQN else {"actor_width": 16})
    result = composer_of(cls, env, kind=kind, **widths).run(n_iterations=5)
    assert result.profile is not None
    assert result.placement.learner == "cpu"
    assert result.workload.algo == cls.algo
    assert result.workload.is_prioritized == (kind == "prioritized")
    assert isinstance(learn_once(result), NativeOffPolicyLearner)


def test_a_trainer_of_the_users_own_runs_through_torch():
    result = composer_of(Mine, width=20, scaled=False).run(n_iterations=5)
    assert result.workload.algo == "torch"
    assert result.trainer.notes == ("Mine has an update of its own",)
    learner = learn_once(result)
    assert isinstance(learner, TorchTrainerLearner)
    assert learner.trainer.network[0].out_features == 20
    assert learner.trainer.scaled is False


def test_a_subclass_with_its_own_update_runs_through_torch():
    class Own(TD3):
        def update_policy(self, batch):
            return 2.0 * super().update_policy(batch)

    result = composer_of(Own, "Pendulum-v1", actor_width=16, critic_width=16).run(n_iterations=5)
    assert result.workload.algo == "torch"
    assert isinstance(learn_once(result), TorchTrainerLearner)


def test_algorithm_settings_reach_the_configuration():
    composer = composer_of(DQN, learning_rate=3e-3, double=False, gamma=0.9)
    config = composer.run(COSTS).config
    assert (config.dqn.learning_rate, config.dqn.double) == (3e-3, False)
    assert config.off_policy.gamma == 0.9


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ((), "run must come after set_actors"),
        (("actors",), "run must come after set_train_function"),
        (("actors", "trainer"), "run must come after set_replay"),
    ],
)
def test_calls_that_are_missing_are_named(calls, message):
    composer = Composer(HOST)
    if "actors" in calls:
        composer.set_actors("CartPole-v1")
    if "trainer" in calls:
        composer.set_train_function(DQN)
    with pytest.raises(ConfigError, match=message):
        composer.run()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Composer(HOST, metric="speed"), "metric must be one of throughput, power"),
        (lambda: Composer(HOST, mode="strikt"), "did you mean strict"),
        (lambda: Composer(HOST, tie="0"), "tie must be a number"),
        (lambda: Composer(3), "hardware must be a file"),
        (lambda: Composer("nowhere.toml"), "must be a readable TOML file"),
        (lambda: Composer(HOST).set_actors(3), "must get a Gymnasium id"),
        (lambda: Composer(HOST).set_actors("CartPol-v1"), "did you mean CartPole-v1"),
        (lambda: Composer(HOST).set_actors("CartPole-v1", n_envs=0), "n-envs must be"),
        (lambda: Composer(HOST).set_actors("CartPole-v1", env_args="False"), "env_args must be"),
        (lambda: Composer(HOST).set_train_function("DQN"), "must get a class"),
        (lambda: Composer(HOST).set_replay(kind="False"), "kind must be prioritized or uniform"),
        (lambda: Composer(HOST).set_replay(kind=True), "kind must be prioritized or uniform"),
        (lambda: Composer(HOST).set_replay(fanout=10), "fanout must be a power of two"),
        (lambda: Composer(HOST).set_replay(capacity="10"), "capacity must be"),
        (lambda: Composer(HOST).set_replay(insert_size=True), "insert_size must be a whole"),
        (lambda: composer_of(DQN).run(cached="False"), "cached must be True or False"),
        (lambda: composer_of(DQN, double="False").run(COSTS), "dqn.double must be"),
        (lambda: composer_of(Mine, scaled="False").run(COSTS), "scaled must be True or False"),
        (lambda: composer_of(DQN, learning_rat=1).run(COSTS), "did you mean learning_rate"),
        (lambda: composer_of(Mine, widht=1).run(COSTS), "did you mean width"),
        (lambda: composer_of(TD3).run(COSTS), "must have continuous actions"),
        (lambda: composer_of(DQN, hardware=WITH_GPU).run({"cpu": COSTS["cpu"]}), "none of gpu0"),
        (lambda: composer_of(DQN).run(5), "costs must be a file or"),
        (lambda: composer_of(DQN).run({"cpu": 5}), "costs must be a file or"),
        (lambda: composer_of(int).run(COSTS), "must have a method get_action"),
        (lambda: composer_of(Failing).run(COSTS), "RuntimeError: two lines; look at"),
        (lambda: composer_of(Endless).run(COSTS), "input_shape must be a tuple of sizes"),
        (lambda: composer_of(Closed).run(COSTS), "must have an nn.Linear"),
        (lambda: Composer(HOST).RuntimeGen(None, "x.py"), "must get what run"),
    ],
)
def test_errors_are_one_line_with_a_way_out(call, message):
    with pytest.raises(ConfigError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
