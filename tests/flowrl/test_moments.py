"""Running moments of the observations against NumPy's over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowrl.envs.moments import RunningMoments, env_moments, normalise
from flowrl.trajectory import Trajectory

N = 3


def trajectory_of(observations, lengths):
    """Return a trajectory of these observations; what lies past the lengths is NaN."""
    n_envs, n_steps, n = observations.shape
    trajectory = Trajectory.allocate(n_envs, n_steps, n, 1)
    trajectory.lengths[:] = lengths
    trajectory.observations[:] = np.where(trajectory.filled[..., None], observations, np.nan)
    # The moments are of what the policy acts on, not of what follows.
    trajectory.next_observations[:] = np.nan
    return trajectory


def merged(rows):
    moments = RunningMoments((rows.shape[1] - 1) // 2)
    for row in rows:
        moments.merge(row[0], *np.split(row[1:], 2))
    return moments


def draw(rng, n_rows):
    return rng.normal([0.0, -40.0, 1e3], [1.0, 1e-2, 300.0], (n_rows, N)).astype(np.float32)


def test_rows_are_numpys_of_each_environment():
    rng = np.random.default_rng(0)
    lengths = [7, 0, 1, 10]
    trajectory = trajectory_of(draw(rng, 40).reshape(4, 10, N), lengths)
    rows = env_moments(trajectory)
    assert rows.shape == (4, 1 + 2 * N)
    np.testing.assert_array_equal(rows[:, 0], lengths)
    np.testing.assert_array_equal(rows[1], 0.0)
    for row, env, n in zip(rows, trajectory.observations.astype(float), lengths, strict=True):
        if n:
            np.testing.assert_allclose(row[1 : 1 + N], env[:n].mean(axis=0), rtol=1e-12)
            np.testing.assert_allclose(row[1 + N :], n * env[:n].var(axis=0), rtol=1e-9)


@given(st.data())
def test_merging_equals_numpy_over_all_rows_however_they_are_split(data):
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    observations = draw(rng, 9 * len(lengths)).reshape(len(lengths), 9, N)
    trajectory = trajectory_of(observations, lengths)
    moments = merged(env_moments(trajectory))
    everything = trajectory.observations[trajectory.filled].astype(float)
    assert moments.count == len(everything)
    if not len(everything):
        np.testing.assert_array_equal(moments.std, 1.0)
        return
    np.testing.assert_allclose(moments.mean, everything.mean(axis=0), rtol=1e-12, atol=1e-12)
    variance = moments.squares / moments.count
    np.testing.assert_allclose(variance, everything.var(axis=0), rtol=1e-8, atol=1e-13)


def test_the_split_over_environments_ranks_and_updates_does_not_matter():
    observations = draw(np.random.default_rng(1), 60)
    whole = merged(env_moments(trajectory_of(observations[None], [60])))
    for n_envs, n_updates in [(1, 6), (3, 1), (4, 5), (60, 1)]:
        per_row = 60 // n_envs // n_updates
        blocks = observations.reshape(n_updates, n_envs, per_row, N)
        rows = [env_moments(trajectory_of(block, [per_row] * n_envs)) for block in blocks]
        split = merged(np.concatenate(rows))
        assert split.count == whole.count
        np.testing.assert_allclose(split.mean, whole.mean, rtol=1e-12)
        np.testing.assert_allclose(split.std, whole.std, rtol=1e-10)
        # A rank makes the rows of its own environments: they are the same bits.
        for block, row in zip(blocks, rows, strict=True):
            alone = [env_moments(trajectory_of(env[None], [per_row])) for env in block]
            np.testing.assert_array_equal(row, np.concatenate(alone))


def test_standard_deviation_is_one_where_nothing_varies():
    moments = RunningMoments(2)
    np.testing.assert_array_equal(moments.std, 1.0)
    # Constant but for the last bit: noise that must not be blown up.
    constant = np.nextafter(np.full((5, 1), 1e3, np.float32), np.float32([[0], [0], [2e3]] * 2)[:5])
    varying = np.arange(5, dtype=np.float32)[:, None]
    block = np.concatenate([constant, varying], axis=1)
    moments = merged(env_moments(trajectory_of(block[None], [5])))
    np.testing.assert_allclose(moments.std, [1.0, 2.0**0.5], rtol=1e-12)


def test_an_empty_block_changes_nothing():
    moments = RunningMoments(1)
    moments.merge(4.0, np.array([2.0]), np.array([8.0]))
    moments.merge(0.0, np.array([99.0]), np.array([99.0]))
    assert (moments.count, moments.mean[0], moments.std[0]) == (4.0, 2.0, 2.0**0.5)


@pytest.mark.parametrize("clip", [10.0, 1.5])
def test_normalised_observations_have_mean_0_and_standard_deviation_1_within_the_clip(clip):
    observations = draw(np.random.default_rng(2), 500)
    moments = merged(env_moments(trajectory_of(observations[None], [500])))
    mean, scale = moments.mean.astype(np.float32), (1.0 / moments.std).astype(np.float32)
    result = normalise(observations, mean, scale, clip)
    assert result.dtype == np.float32
    expected = np.clip((observations - moments.mean) / moments.std, -clip, clip)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=3e-4)
    if clip == 10.0:
        np.testing.assert_allclose(result.mean(axis=0), 0.0, atol=1e-3)
        np.testing.assert_allclose(result.std(axis=0), 1.0, rtol=1e-3)
    else:
        assert np.abs(result).max() == np.float32(clip)
