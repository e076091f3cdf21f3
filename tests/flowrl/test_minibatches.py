"""Minibatches: every row once an epoch, even shares, and no word about ranks in them."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flowrl.minibatches import CHUNK_ROWS, Shuffler

LENGTHS = st.lists(st.integers(0, 300), min_size=1, max_size=12).filter(any)


@given(lengths=LENGTHS, n_minibatches=st.integers(1, 9), epoch=st.integers(0, 5))
def test_every_row_once_an_epoch(lengths, n_minibatches, epoch):
    lengths = np.array(lengths)
    total = lengths.sum()
    minibatches = Shuffler(1, 2, lengths, 0, len(lengths), n_minibatches).epoch(epoch)
    assert sorted(np.concatenate([m.rows for m in minibatches])) == list(range(total))
    assert all(m.rows.size == m.n_total for m in minibatches)
    sizes = [m.n_total for m in minibatches]
    assert max(sizes) - min(sizes) <= 1


@given(lengths=LENGTHS, n_minibatches=st.integers(1, 5), data=st.data())
def test_the_same_rows_in_the_same_chunks_however_spread(lengths, n_minibatches, data):
    lengths = np.array(lengths)
    n = len(lengths)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    edges = [0, *cuts, n]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    whole = Shuffler(3, 1, lengths, 0, n, n_minibatches).epoch(2)
    parts = [
        (starts[a], Shuffler(3, 1, lengths, a, b, n_minibatches).epoch(2))
        for a, b in pairwise(edges)
    ]
    for index, minibatch in enumerate(whole):
        mine = [(offset, part[index]) for offset, part in parts]
        rows = np.concatenate([m.rows + offset for offset, m in mine])
        sizes = np.concatenate([np.diff(m.chunks) for _, m in mine])
        np.testing.assert_array_equal(rows, minibatch.rows)
        np.testing.assert_array_equal(sizes, np.diff(minibatch.chunks))
        assert all(m.n_total == minibatch.n_total for _, m in mine)


def test_chunks_hold_one_environment_and_no_more_rows_than_allowed():
    lengths = np.array([700, 3, 0, 290])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    for minibatch in Shuffler(0, 0, lengths, 0, 4, 2).epoch(0):
        for a, b in pairwise(minibatch.chunks):
            rows = minibatch.rows[a:b]
            assert 0 < rows.size <= CHUNK_ROWS
            assert len(set(np.searchsorted(starts, rows, "right"))) == 1


def test_an_environment_is_shared_out_evenly():
    """64 environments of 50 steps, 2 minibatches: 25 rows of each, no rank waits for another."""
    for minibatch in Shuffler(0, 0, np.full(64, 50), 0, 64, 2).epoch(0):
        np.testing.assert_array_equal(np.diff(minibatch.chunks), 25)


def test_orders_differ_between_epochs_updates_environments_and_seeds():
    lengths = np.array([64, 64])

    def order(seed, update, epoch, env=0):
        rows = Shuffler(seed, update, lengths, 0, 2, 1).epoch(epoch)[0].rows
        return tuple(rows.reshape(2, 64)[env] - 64 * env)

    orders = {order(0, 0, 0), order(1, 0, 0), order(0, 1, 0), order(0, 0, 1), order(0, 0, 0, 1)}
    assert len(orders) == 5


def test_permutations_are_uniform():
    """Each of the 6 orders of 3 rows comes up equally often (chi-square, 5 degrees)."""
    counts: dict[tuple[int, ...], int] = {}
    n = 6000
    for epoch in range(n):
        order = tuple(Shuffler(9, 0, np.array([3]), 0, 1, 1).epoch(epoch)[0].rows)
        counts[order] = counts.get(order, 0) + 1
    expected = n / 6
    assert len(counts) == 6
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < 20.5  # p = 0.001
