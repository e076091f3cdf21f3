"""Spaces that flowrl serves, and those it refuses with one message."""

import numpy as np
import pytest
from gymnasium import spaces

from flowrl.envs.interface import UnsupportedEnvironment, read_interface

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_a_bounded_box_is_scaled_and_an_unbounded_one_is_not():
    low = np.array([-2.0, 0.0, -np.inf], np.float32)
    high = np.array([4.0, np.inf, 5.0], np.float32)
    interface = read_interface(BOX, spaces.Box(low, high), 10)
    np.testing.assert_array_equal(interface.action_scale, [3, 1, 1])
    np.testing.assert_array_equal(interface.action_offset, [1, 0, 0])
    assert (interface.n_observations, interface.n_actions, interface.episode_steps) == (3, 3, 10)


def test_a_discrete_action_is_one_column():
    interface = read_interface(BOX, spaces.Discrete(5, start=2), None)
    assert interface.is_discrete
    assert not interface.is_box
    assert (interface.n_choices, interface.n_actions) == (5, 1)


def test_a_box_is_discretised_into_all_combinations_of_levels():
    box = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([4.0, 1.0], np.float32))
    interface = read_interface(BOX, box, None).discretised(3)
    assert interface.is_discrete
    assert interface.is_box
    assert (interface.n_choices, interface.n_actions, interface.n_env_actions) == (9, 1, 2)
    expected = [(a, b) for a in (-2, 1, 4) for b in (0, 0.5, 1)]
    np.testing.assert_array_equal(interface.action_table, expected)
    with pytest.raises(UnsupportedEnvironment, match=r"at most 4096 choices, got 65 levels"):
        read_interface(BOX, box, None).discretised(65)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (BOX, spaces.MultiDiscrete([2, 3]), "must be a Box or Discrete"),
        (BOX, spaces.Dict({"a": BOX}), "must be a Box or Discrete"),
        (BOX, spaces.Box(-1, 1, (0,)), "1 to 16384 actions"),
        (BOX, spaces.Box(-1e300, 1e300, (1,), np.float64), "bounds within"),
        (spaces.Box(-1, 1, (0,)), BOX, "1 to 16384 numbers"),
        (spaces.Box(0, 255, (200, 200, 3), np.uint8), BOX, "1 to 16384 numbers"),
        (spaces.Sequence(BOX), BOX, "fixed size"),
        (spaces.Graph(BOX, None), BOX, "fixed size"),
    ],
)
def test_refuses_what_no_network_can_take(observation, action, message):
    with pytest.raises(UnsupportedEnvironment, match=message):
        read_interface(observation, action, None)
