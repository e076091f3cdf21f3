"""Advantages against tables worked out by hand, and against the sum they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowrl.advantage import ends, gae
from flowrl.trajectory import Trajectory

GAMMA, LAMBDA = 0.5, 0.5


def advantages(rewards, values, next_values, terminated, truncated, bootstrap="pt", lengths=None):
    """Advantages of one environment, through the same path as in training."""
    n = len(rewards)
    trajectory = Trajectory.allocate(1, n, 1, 1)
    trajectory.lengths[0] = n if lengths is None else lengths
    trajectory.rewards[0] = rewards
    trajectory.terminated[0] = terminated
    trajectory.truncated[0] = truncated
    return gae(
        trajectory.rewards,
        np.array([values], float),
        np.array([next_values], float),
        ends(trajectory, bootstrap),
        trajectory.truncated,
        trajectory.lengths,
        GAMMA,
        LAMBDA,
    )[0]


# Three transitions, r = 1, V(s) = 2, 4, 6 and V(s') = 4, 6, 8; gamma lambda = 1/4.
# delta with bootstrap: 1 + 2 - 2 = 1, 1 + 3 - 4 = 0, 1 + 4 - 6 = -1; without: -1, -3, -5.
@pytest.mark.parametrize(
    ("terminated", "truncated", "bootstrap", "expected"),
    [
        # Neither: only the cut at the end, which bootstraps.
        ([0, 0, 0], [0, 0, 0], "pt", [1 + (0 - 1 / 4) / 4, -1 / 4, -1]),
        ([0, 0, 0], [0, 0, 0], "eoe", [1 + (0 - 1 / 4) / 4, -1 / 4, -1]),
        ([0, 0, 0], [0, 0, 0], "regular", [1 + (0 - 1 / 4) / 4, -1 / 4, -1]),
        # The time limit in the middle: nothing flows back over it.
        ([0, 0, 0], [0, 1, 0], "pt", [1, 0, -1]),
        ([0, 0, 0], [0, 1, 0], "regular", [1 - 3 / 4, -3, -1]),
        # Terminated in the middle: no bootstrap whatever the mode.
        ([0, 1, 0], [0, 0, 0], "pt", [1 - 3 / 4, -3, -1]),
        ([0, 1, 0], [0, 0, 0], "regular", [1 - 3 / 4, -3, -1]),
        # Both flags mean terminated.
        ([0, 1, 0], [0, 1, 0], "pt", [1 - 3 / 4, -3, -1]),
        # The end at the cut.
        ([0, 0, 1], [0, 0, 0], "pt", [1 + (0 - 5 / 4) / 4, -5 / 4, -5]),
        ([0, 0, 0], [0, 0, 1], "pt", [1 + (0 - 1 / 4) / 4, -1 / 4, -1]),
        ([0, 0, 0], [0, 0, 1], "regular", [1 + (0 - 5 / 4) / 4, -5 / 4, -5]),
    ],
)
def test_hand_computed_tables(terminated, truncated, bootstrap, expected):
    result = advantages([1, 1, 1], [2, 4, 6], [4, 6, 8], terminated, truncated, bootstrap)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-15)


def test_columns_past_the_length_stay_zero_and_are_not_read():
    result = advantages([1, 1, np.nan], [2, 4, np.nan], [4, 6, np.nan], [0] * 3, [0] * 3, lengths=2)
    np.testing.assert_allclose(result, [1 + 0 / 4, 0, 0], atol=1e-15)


@given(st.data())
def test_equals_the_sum_it_stands_for(data):
    """A_t = sum_k (gamma lambda)^k delta_{t+k}, up to the first end, time limit or cut."""
    n = data.draw(st.integers(1, 12))
    numbers = st.lists(st.floats(-10, 10), min_size=n, max_size=n)
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    rewards, values, following = (np.array(data.draw(numbers)) for _ in range(3))
    terminated, truncated = (np.array(data.draw(flags)) for _ in range(2))
    result = advantages(rewards, values, following, terminated, truncated)
    delta = rewards + GAMMA * ~terminated * following - values
    for t in range(n):
        total = 0.0
        for k in range(n - t):
            total += (GAMMA * LAMBDA) ** k * delta[t + k]
            if terminated[t + k] or truncated[t + k]:
                break
        assert result[t] == pytest.approx(total, abs=1e-12)
