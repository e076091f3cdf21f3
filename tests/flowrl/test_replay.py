"""Replay against plain Python: n-step returns, the ring, priorities, the governor."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from flowrl.config import ConfigError, ReplayConfig
from flowrl.replay import Governor, NStep, ReplayError, ReplayManager, Rows, RowStorage, row_bytes
from flowrl.replay import storage as storage_module
from flowrl.trajectory import Trajectory


def life(n_envs, n_steps, seed, end_rate=0.2):
    """Make up whole lives: every observation is its own number, so rows can be told apart."""
    rng = np.random.default_rng(seed)
    trajectory = Trajectory.allocate(n_envs, n_steps, 1, 1)
    ids = np.arange(n_envs * n_steps).reshape(n_envs, n_steps)
    trajectory.observations[..., 0] = ids
    trajectory.next_observations[..., 0] = ids + 0.5
    trajectory.actions[..., 0] = -ids
    trajectory.rewards[:] = rng.normal(size=(n_envs, n_steps))
    ends = rng.random((n_envs, n_steps)) < end_rate
    trajectory.terminated[:] = ends & (rng.random((n_envs, n_steps)) < 0.5)
    trajectory.truncated[:] = ends & ~trajectory.terminated
    trajectory.lengths[:] = n_steps
    return trajectory


def piece(whole, begin, end):
    """Cut steps out of all environments' lives."""
    part = {name: getattr(whole, name)[:, begin:end] for name in vars(whole) if name != "lengths"}
    return Trajectory(**part, lengths=np.full(len(whole.lengths), end - begin))


def plain_rows(whole, n, gamma):
    """Say which rows there are, by the definition: {first observation: (R, s', discount)}."""
    found = {}
    for env, length in enumerate(whole.lengths):
        for t in range(length):
            total, k = 0.0, 0
            while True:
                total += gamma**k * whole.rewards[env, t + k]
                ended = whole.terminated[env, t + k] or whole.truncated[env, t + k]
                k += 1
                if ended or k == n or t + k == length:
                    break
            if not ended and k < n:
                continue  # not known yet
            discount = 0.0 if whole.terminated[env, t + k - 1] else gamma**k
            following = whole.next_observations[env, t + k - 1, 0]
            found[whole.observations[env, t, 0]] = (total, following, discount)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 7), st.integers(0, 99), st.data())
def test_n_step_rows_are_those_of_the_definition(n_envs, n_steps, n, seed, data):
    whole = life(n_envs, n_steps, seed)
    maker, rows, begin = NStep(n_envs, n, 0.9, 2.0), [], 0
    while begin < n_steps:
        end = data.draw(st.integers(begin + 1, n_steps))
        rows.append(maker.rows(piece(whole, begin, end)))
        begin = end
    expected = plain_rows(whole, n, 0.9)
    assert sum(map(len, rows)) == len(expected)
    for some in rows:
        for i in range(len(some)):
            total, following, discount = expected.pop(float(some.observations[i, 0]))
            assert some.rewards[i] == pytest.approx(2.0 * total, rel=1e-5, abs=1e-6)
            assert some.next_observations[i, 0] == np.float32(following)
            assert some.discounts[i] == pytest.approx(discount, rel=1e-6)
            assert some.actions[i, 0] == -some.observations[i, 0]
    assert not expected


def rows_of(first, n):
    ids = np.arange(first, first + n, dtype=np.float32)
    return Rows(ids[:, None], ids[:, None], ids, ids[:, None], ids)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.lists(st.integers(0, 45), max_size=12))
def test_the_ring_keeps_the_newest_rows_and_counts_generations(capacity, counts):
    storage, total, writes = RowStorage(capacity, 1, 1), 0, np.zeros(capacity, np.int64)
    for n in counts:
        storage.append(rows_of(total, n))
        kept = range(total + max(n - capacity, 0), total + n)
        for i in kept:
            writes[i % capacity] += 1
            assert storage.rows.rewards[i % capacity] == i
        total += n
        assert storage.size == min(total, capacity)
        np.testing.assert_array_equal(storage.generations, writes)
    held = sorted(storage.rows.rewards[: storage.size])
    assert held == list(range(total - storage.size, total))


def test_rows_in_a_file_are_those_in_memory(tmp_path):
    path = tmp_path / "deep" / "rows.bin"
    one, other = RowStorage(7, 1, 1), RowStorage(7, 1, 1, path)
    for storage in (one, other):
        storage.append(rows_of(0, 5))
        storage.append(rows_of(5, 6))
    np.testing.assert_array_equal(one.rows.next_observations, other.rows.next_observations)
    assert path.stat().st_size == 7 * (row_bytes(1, 1) - 8)


def test_a_buffer_larger_than_the_memory_is_refused_with_the_numbers(monkeypatch, tmp_path):
    monkeypatch.setattr(storage_module, "free_memory", lambda: 2**30)
    with pytest.raises(ReplayError, match=r"needs 1\.97 GiB, and 1\.00 GiB of memory are free"):
        RowStorage(66_000_000, 1, 2)
    monkeypatch.setattr(storage_module, "_free_disk", lambda _: 2**20)
    with pytest.raises(ReplayError, match=r"of disk are free; lower it, or choose another"):
        RowStorage(66_000_000, 1, 2, tmp_path / "rows")


def manager(capacity, **config):
    return ReplayManager(ReplayConfig(capacity=capacity, batch_size=1, **config),
                         RowStorage(capacity, 1, 1))  # fmt: skip


def test_rows_are_drawn_in_proportion_to_their_priorities():
    replay = manager(8, priorities="prioritized", priority_exponent=0.5, priority_offset=0.01)
    replay.insert(rows_of(0, 6))
    rng = np.random.default_rng(0)
    first = replay.sample(rng, 6, 0.4)
    np.testing.assert_array_equal(np.sort(first.indices), np.arange(6))  # equal priorities
    np.testing.assert_array_equal(first.weights, 1.0)
    errors = np.array([0.0, 1.0, 4.0, 9.0, 16.0, 25.0], np.float32)
    replay.update_priorities(first, errors[first.indices])
    expected = np.sqrt(errors + 0.01) / np.sqrt(errors + 0.01).sum()
    drawn = replay.sample(rng, 60_000, 1.0)
    counts = np.bincount(drawn.indices, minlength=8)
    assert counts[6:].sum() == 0  # places without a row
    np.testing.assert_allclose(counts[:6] / 60_000, expected, atol=2e-3)
    weights = expected[drawn.indices].min() / expected[drawn.indices]
    np.testing.assert_allclose(drawn.weights, weights, rtol=1e-4)


def test_a_priority_that_comes_after_its_row_was_overwritten_is_dropped():
    replay = manager(4, priorities="prioritized", priority_exponent=1.0, priority_offset=1e-6)
    replay.insert(rows_of(0, 4))
    sample = replay.sample(np.random.default_rng(0), 4, 0.4)
    replay.insert(rows_of(4, 2))  # over the first two places
    replay.update_priorities(sample, np.full(4, 9.0, np.float32))
    drawn = replay.sample(np.random.default_rng(1), 20_000, 0.4)
    share = np.bincount(drawn.indices, minlength=4) / 20_000
    np.testing.assert_allclose(share, [1 / 20, 1 / 20, 9 / 20, 9 / 20], atol=2e-3)
    assert replay.n_dropped == 2


def test_the_actor_may_get_uniform_rows():
    replay = manager(8, priorities="prioritized", actor_batches="uniform")
    replay.insert(rows_of(0, 8))
    first = replay.sample(np.random.default_rng(0), 8, 0.4)
    replay.update_priorities(first, np.where(first.indices == 3, 100.0, 1e-6).astype(np.float32))
    drawn = replay.sample(np.random.default_rng(0), 4000, 0.4)
    assert (drawn.indices == 3).mean() > 0.9
    counts = np.bincount(drawn.actor_observations[:, 0].astype(int), minlength=8)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert first.actor_observations is not None


def test_uniform_rows_have_no_priorities():
    replay = manager(5)
    replay.insert(rows_of(0, 3))
    sample = replay.sample(np.random.default_rng(0), 3000, 0.4)
    assert set(sample.indices) == {0, 1, 2}
    assert (sample.weights == 1).all()
    assert sample.number == 1
    assert replay.sample(np.random.default_rng(0), 1, 0.4).number == 2


@given(st.sampled_from([0.1, 0.25, 1 / 3, 1.0, 2.5, 0.7]), st.integers(0, 500), st.integers(1, 300))
def test_the_governor_is_exact(ratio, learning_starts, batch_size):
    governor = Governor(ratio, learning_starts, batch_size)
    exact = Fraction(ratio).limit_denominator(10**6)
    updates = 0
    for transitions in range(0, 2000, 7):
        due = governor.allowed(transitions) - updates
        assert due >= 0
        updates += due
        if transitions < governor.first:
            assert updates == 0
        else:
            assert updates == exact * (transitions - learning_starts) // 1
    assert governor.measured(transitions, updates) == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fanout": 12}, "power of two"),
        ({"batch_size": 20, "capacity": 10}, r"at most --replay.capacity \(10\), got 20"),
        ({"storage": "file"}, "goes with"),
        ({"priorities": "some"}, "uniform"),
    ],
)
def test_bad_numbers_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ReplayConfig(**values)
