"""Rollouts of a Python environment whose every number is known."""

import numpy as np
import pytest

from flowrl.agents.interface import make_policy
from flowrl.agents.ppo import PpoAgent
from flowrl.collector import Collector
from flowrl.config import RunConfig
from flowrl.envs.interface import EnvironmentFault
from flowrl.exploration import own_noise
from flowrl.registry import EnvironmentSource

FACTORY = "tests.flowrl.counting:make"


def make_collector(n_envs, seed=0, first=0, **arguments):
    source = EnvironmentSource(FACTORY, arguments)
    interface = source.interface(n_envs)
    agent = PpoAgent.build(RunConfig(), interface)
    environments = source.make([100 + first + i for i in range(n_envs)], interface)
    return Collector(environments, make_policy(agent), own_noise(agent.kind), seed, first)


def test_true_last_observation_and_exclusive_flags():
    collector = make_collector(1)
    trajectory = collector.collect(np.array([16]))
    # Episodes of 5, 5, 4 (terminated) steps, then 2 of the fourth.
    steps = [1, 2, 3, 4, 5] * 2 + [1, 2, 3, 4] + [1, 2]
    episodes = [0] * 5 + [1] * 5 + [2] * 4 + [3] * 2
    np.testing.assert_array_equal(trajectory.rewards[0], steps)
    np.testing.assert_array_equal(trajectory.next_observations[0, :, 1], steps)
    np.testing.assert_array_equal(trajectory.next_observations[0, :, 0], episodes)
    np.testing.assert_array_equal(trajectory.observations[0, :, 1], np.array(steps) - 1)
    np.testing.assert_array_equal(np.flatnonzero(trajectory.truncated[0]), [4, 9])
    np.testing.assert_array_equal(np.flatnonzero(trajectory.terminated[0]), [13])


def test_both_flags_at_once_mean_terminated():
    # No episode of Counting ends by both at once: make every step do so.
    collector = make_collector(1)
    env = collector._environments._envs[0]
    step = env.step
    env.step = lambda action: (*step(action)[:2], True, True, {})
    trajectory = collector.collect(np.array([2]))
    assert trajectory.terminated[0].all()
    assert not trajectory.truncated[0].any()


def test_the_same_episode_goes_on_after_a_cut():
    whole = make_collector(1).collect(np.array([23]))
    parts_of = make_collector(1)
    parts = [parts_of.collect(np.array([n])) for n in (3, 1, 7, 12)]
    for name in ("observations", "next_observations", "actions", "rewards"):
        joined = np.concatenate([getattr(part, name)[0] for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name)[0])


def test_finished_episodes_carry_over_cuts():
    collector = make_collector(2, first=7)
    rows = []
    for lengths in ([3, 4], [3, 4], [8, 8]):
        trajectory = collector.collect(np.array(lengths))
        rows.append(collector.finished_episodes(trajectory, np.arange(2)))
    rows = np.concatenate(rows)
    mine = rows[rows[:, 0] == 7]
    np.testing.assert_array_equal(mine, [[7, 15, 5, 0], [7, 15, 5, 0], [7, 10, 4, 1]])
    assert set(rows[:, 0]) == {7, 8}


def test_numbers_do_not_depend_on_who_owns_the_environment():
    together = make_collector(4).collect(np.array([9, 9, 8, 8]))
    first = make_collector(1).collect(np.array([9]))
    others = make_collector(3, first=1).collect(np.array([9, 8, 8]))
    for name in ("observations", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(together, name)[:1], getattr(first, name))
        np.testing.assert_array_equal(getattr(together, name)[1:], getattr(others, name))


@pytest.mark.parametrize("discrete", [False, True])
def test_actions_reach_the_environment_in_its_own_space(discrete):
    collector = make_collector(1, discrete=discrete)
    trajectory = collector.collect(np.array([50]))
    sent = np.array(collector._environments._envs[0].actions, dtype=float).ravel()
    stored = trajectory.actions[0, :, 0].astype(float)
    if discrete:
        np.testing.assert_array_equal(sent, stored + 5)
        assert set(stored) == {0, 1, 2}
    else:
        np.testing.assert_allclose(sent, 1 + 3 * np.clip(stored, -1, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("observation", "reward", "message"),
    [
        ([np.nan, 0.0], 0.0, "observation must be finite"),
        ([1e300, 0.0], 0.0, "observation must be finite"),
        (0.5, 0.0, r"must have the shape \(2,\), got \(\)"),
        ([0.0], 0.0, "must have the shape"),
        ([0.0] * 3, 0.0, "must have the shape"),
        (None, 0.0, "must be finite|must be numbers|must have the shape"),
        ("flow", 0.0, "must be numbers"),
        ([0.0, 0.0], np.nan, "reward must be finite"),
        ([0.0, 0.0], 1e300, "reward must be finite"),
        ([0.0, 0.0], None, "must be numbers"),
    ],
)
def test_what_would_poison_learning_is_a_fault_with_its_cause(observation, reward, message):
    collector = make_collector(2)
    collector._environments._envs[1].step = lambda _: (observation, reward, False, False, {})
    with pytest.raises(EnvironmentFault, match=message):
        collector.collect(np.array([2, 2]))
