"""Transitions are counted exactly, whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowrl.schedule import Schedule, ScheduleError, share


def assert_outline(schedule, collections):
    first, last, n_updates = schedule.outline()
    np.testing.assert_array_equal(first.lengths, collections[0].lengths)
    np.testing.assert_array_equal(last.lengths, collections[-1].lengths)
    assert n_updates == sum(len(collection.updates) for collection in collections)


@given(
    n_envs=st.integers(1, 70),
    n_transitions=st.integers(1, 20_000),
    per_update=st.integers(1, 3000),
)
def test_partial_trajectories_use_every_transition(n_envs, n_transitions, per_update):
    schedule = Schedule(n_envs, n_transitions, per_update, "pt", None)
    collections = list(schedule.collections())
    sizes = [collection.n_transitions for collection in collections]
    assert sum(sizes) == n_transitions
    assert all(size == per_update for size in sizes[:-1])
    assert 0 < sizes[-1] <= per_update
    for collection in collections:
        assert np.ptp(collection.lengths) <= 1
        assert len(collection.updates) == 1
    assert_outline(schedule, collections)


@given(
    n_envs=st.integers(1, 70),
    n_transitions=st.integers(1, 5_000),
    n_update=st.integers(1, 9),
    bootstrap=st.sampled_from(["regular", "eoe"]),
)
def test_whole_episodes_use_every_transition(n_envs, n_transitions, n_update, bootstrap):
    steps = 10
    schedule = Schedule(n_envs, n_transitions, n_update * steps, bootstrap, steps)
    total = 0
    collections = list(schedule.collections())
    assert_outline(schedule, collections)
    for collection in collections:
        total += collection.n_transitions
        members = np.concatenate(collection.updates)
        assert sorted(members) == list(np.flatnonzero(collection.lengths))
        for envs in collection.updates:
            assert 0 < collection.lengths[envs].sum() <= n_update * steps
            assert list(envs) == sorted(envs)
        if total < n_transitions:
            assert not (collection.lengths % steps).any()
    assert total == n_transitions


def test_numbers_of_the_paper():
    """8 x 400 transitions an update; 64 environments unroll 50 steps, or make 8 updates at once."""
    partial = next(Schedule(64, 200_000, 3200, "pt", 400).collections())
    assert (partial.lengths == 50).all()
    whole = next(Schedule(64, 200_000, 3200, "eoe", 400).collections())
    assert (whole.lengths == 400).all()
    assert [len(envs) for envs in whole.updates] == [8] * 8
    sequential = next(Schedule(1, 200_000, 3200, "regular", 400).collections())
    assert sequential.lengths.tolist() == [3200]
    assert Schedule(8, 200_000, 3200, "pt", 400).outline()[2] == 63


def test_agents_of_one_film_step_together():
    schedule = Schedule(10, 1000, 100, "pt", None, agents_per_group=5)
    for collection in schedule.collections():
        assert (collection.lengths.reshape(2, 5) == collection.lengths.reshape(2, 5)[:, :1]).all()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((7, 1000, 100, "pt", None, 5), "--n-envs must be a multiple of the 5"),
        ((5, 1001, 100, "pt", None, 5), "--n-transitions must be a multiple"),
        ((5, 1000, 100, "eoe", None), "no time limit"),
        ((5, 1000, 100, "regular", 400), "must be a multiple of 400"),
    ],
)
def test_refuses_what_cannot_be_met(arguments, names):
    with pytest.raises(ScheduleError, match=names):
        Schedule(*arguments)


@given(n_groups=st.integers(1, 70), n_ranks=st.integers(1, 70), agents=st.integers(1, 6))
def test_share_is_even_and_keeps_groups_whole(n_groups, n_ranks, agents):
    shares = share(n_groups * agents, n_ranks, agents)
    assert shares.sum() == n_groups * agents
    assert not (shares % agents).any()
    assert np.ptp(shares) <= agents
