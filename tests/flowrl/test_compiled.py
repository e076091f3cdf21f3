"""The compiled rollout of the film equals the Python loop over the same film, to the bit."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from flowrl.agents.interface import make_policy
from flowrl.agents.ppo import PpoAgent
from flowrl.collector import Collector
from flowrl.config import RunConfig
from flowrl.envs.compiled import CompiledEnvironments
from flowrl.envs.python import PythonEnvironments
from flowrl.exploration import own_noise
from flowrl.registry import EnvironmentSource

FILM = "shkadov:Shkadov-v0"
# Short episodes, so that a few steps see a reset.
ARGUMENTS = {"n_jets": 2, "episode_time": 1.5}


def film(**arguments: Any) -> gymnasium.Env[Any, Any]:
    """Make a film by a factory: it then goes through the Python loop."""
    return gymnasium.make(FILM, **arguments)


def collect(name, n_steps, arguments=ARGUMENTS, n_envs=3, first=0):
    source = EnvironmentSource(name, arguments)
    interface = source.interface(n_envs)
    agent = PpoAgent.build(RunConfig(), interface)
    policy = make_policy(agent)
    policy.weights[:] = agent.initial_parameters(0)[: len(policy.weights)]
    policy.weights[-1] = 1.0
    environments = source.make([50 + first + i for i in range(n_envs)], interface)
    collector = Collector(environments, policy, own_noise(agent.kind), 0, first)
    return environments, [collector.collect(np.full(n_envs, n)) for n in n_steps]


def assert_equal(one, other):
    for name in vars(one):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_compiled_rollout_equals_the_python_loop():
    compiled, fast = collect(FILM, [70])
    looped, slow = collect("tests.flowrl.test_compiled:film", [70])
    assert isinstance(compiled, CompiledEnvironments)
    assert isinstance(looped, PythonEnvironments)
    assert compiled.interface.episode_steps == looped.interface.episode_steps == 30
    assert fast[0].truncated.sum() == 6
    assert_equal(fast[0], slow[0])


def test_a_cut_changes_nothing_in_the_film():
    whole = collect(FILM, [70])[1][0]
    parts = collect(FILM, [1, 28, 41])[1]
    for name in ("observations", "next_observations", "actions", "rewards", "truncated"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name))


def test_a_film_does_not_know_its_neighbours():
    together = collect(FILM, [40], n_envs=4)[1][0]
    alone = collect(FILM, [40], n_envs=1, first=2)[1][0]
    np.testing.assert_array_equal(together.observations[2:3], alone.observations)


def test_the_agents_of_a_separable_film_share_it():
    name = "shkadov:ShkadovSeparable-v0"
    environments, (trajectory,) = collect(name, [40], n_envs=4)
    assert environments.interface.agents_per_group == 2
    assert environments.interface.n_observations == 10
    assert trajectory.truncated.sum() == 4
    # Neighbours see different places of one film and are paid for different ones.
    assert (trajectory.rewards[0] != trajectory.rewards[1]).all()
    # Together they see what the one agent of the whole film sees; both films have the same seed.
    whole = collect(FILM, [1], n_envs=2)[1][0]
    np.testing.assert_array_equal(trajectory.observations[:2, 0].ravel(), whole.observations[0, 0])


@pytest.mark.parametrize("bad", [{"n_jet": 3}, {"n_jets": 0}, {"preset": "papper"}])
def test_bad_arguments_are_one_message(bad):
    from flowrl.envs.interface import UnsupportedEnvironment

    with pytest.raises(UnsupportedEnvironment, match=next(iter(bad))):
        EnvironmentSource(FILM, bad).interface(1)
