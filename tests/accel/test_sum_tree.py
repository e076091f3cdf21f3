"""Every backend's sum tree against the reference, which is one of them."""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from scipy.stats import chisquare

from accel.reference import SumTreeReference
from tests.accel.trees import (
    BAD_CALLS,
    FANOUTS,
    Maker,
    assert_right,
    depth_of,
    filled,
    makers,
    rows_of,
    unit,
)

CAPACITIES = [1, 2, 3, 15, 17, 64, 65, 1000, 4097]


@pytest.fixture(params=makers())
def maker(request: pytest.FixtureRequest) -> Maker:
    found: Maker = request.param
    return found


@pytest.mark.parametrize("fanout", FANOUTS)
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_whole_priorities_are_exact(maker: Maker, capacity: int, fanout: int) -> None:
    """Sums of small whole numbers are exact in any order, so that every row must be the one."""
    rng = np.random.default_rng(capacity * 100 + fanout)
    priorities = rng.integers(0, 8, capacity) * rng.integers(0, 2, capacity).astype(np.float64)
    priorities[rng.integers(capacity)] = 3
    tree, reference = (
        filled(maker, priorities, fanout),
        filled(Maker(SumTreeReference, 0), priorities),
    )
    assert (tree.capacity, tree.fanout) == (capacity, fanout)
    assert tree.depth == maker.make(capacity, fanout).depth == depth_of(capacity, fanout)
    assert tree.total() == priorities.sum()
    assert tree.largest() == priorities.max()
    np.testing.assert_array_equal(tree.priorities(), priorities)
    targets = rng.integers(0, 4 * int(priorities.sum()) + 8, 500) / 4
    for got, expected in zip(tree.sample(targets), reference.sample(targets), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_every_row_is_found(maker: Maker, fanout: int) -> None:
    """The targets' boundaries: just the cumulative sums, and a little less and more."""
    priorities = np.tile([0.0, 2, 1, 0, 0, 4, 1], 30)
    tree = filled(maker, priorities, fanout)
    positive, ends = np.flatnonzero(priorities), np.cumsum(priorities)
    for targets in (ends[positive], ends[positive] - 0.5):
        np.testing.assert_array_equal(tree.sample(targets)[0], positive)
    beyond = tree.sample(ends[positive] + 0.5)[0]
    np.testing.assert_array_equal(beyond, np.append(positive[1:], positive[-1]))


@pytest.mark.parametrize("fanout", FANOUTS)
@pytest.mark.parametrize("spread", [0, 1, 6])
def test_real_priorities(maker: Maker, fanout: int, spread: int) -> None:
    rng = np.random.default_rng(fanout)
    priorities = np.exp(spread * rng.normal(size=3001)) * (rng.random(3001) < 0.7)
    tree, roundoff = filled(maker, priorities, fanout), unit(maker)
    total = priorities.sum()
    np.testing.assert_allclose(tree.total(), total, rtol=8 * fanout * roundoff)
    targets = rng.random(4000) * total * 1.01
    rows, found = tree.sample(targets)
    assert_right(tree, targets, rows, roundoff)
    np.testing.assert_array_equal(found, tree.retrieve(rows))
    np.testing.assert_allclose(found, priorities[rows], rtol=2 * roundoff)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_targets_at_the_ends(maker: Maker, fanout: int) -> None:
    priorities = np.zeros(200)
    priorities[[7, 100, 150]] = [0.1, 0.7, 0.2]
    tree = filled(maker, priorities, fanout)
    total = tree.total()
    low = np.array([0.0, 5e-324, 1e-300, 1e-30])
    high = np.array([np.nextafter(total, 2), 1.0 + 1e-6, 2.0, 1e30, 1e308])
    np.testing.assert_array_equal(tree.sample(low)[0], 7)
    np.testing.assert_array_equal(tree.sample(high)[0], 150)
    assert set(tree.sample(np.array([total]))[0]) <= {150}
    assert tree.sample(np.zeros(0))[0].shape == (0,)


@pytest.mark.parametrize("capacity", [1, 8, 513])
def test_one_positive_row(maker: Maker, capacity: int) -> None:
    """No rounding leads astray: the only positive row is found from everywhere."""
    for row in {0, capacity // 2, capacity - 1}:
        tree = maker(capacity, 8)
        tree.set(rows_of(row), np.array([0.3]))
        targets = np.linspace(0, 1, 50)
        np.testing.assert_array_equal(tree.sample(targets)[0], row)
        rows, weights = tree.sample_stratified(np.linspace(0, 0.9, 7), 0.6)
        np.testing.assert_array_equal(rows, row)
        np.testing.assert_array_equal(weights, np.float32(1))


@pytest.mark.parametrize("fanout", [8, 32])
@pytest.mark.parametrize("n", [1, 3, 32, 513, 5000])
def test_stratified(maker: Maker, fanout: int, n: int) -> None:
    rng = np.random.default_rng(n)
    priorities = rng.random(4097) ** 4 * (rng.random(4097) < 0.8)
    tree, uniforms, roundoff = filled(maker, priorities, fanout), rng.random(n), unit(maker)
    for beta in (0.0, 0.4, 1.0):
        rows, weights = tree.sample_stratified(uniforms, beta)
        targets = (np.arange(n) + 1 - uniforms) / n * tree.total()
        assert_right(tree, targets, rows, 2 * roundoff)
        p = tree.retrieve(rows)
        assert weights.dtype == np.float32
        assert weights.max() == 1
        np.testing.assert_allclose(weights, (p / p.min()) ** -beta, rtol=4e-6)
    assert tree.sample_stratified(np.zeros(0), 0.5)[1].shape == (0,)


def test_frequencies(maker: Maker) -> None:
    """Rows come as often as their priorities say; stratified ones nearly to the count."""
    rng = np.random.default_rng(5)
    priorities = rng.random(150) * (rng.random(150) < 0.8)
    tree, n = filled(maker, priorities, 4), 100_000
    expected = n * priorities / priorities.sum()
    drawn = np.bincount(tree.sample(rng.random(n) * tree.total())[0], minlength=150)
    assert (drawn[priorities == 0] == 0).all()
    held = priorities > 0
    assert chisquare(drawn[held], expected[held]).pvalue > 1e-4
    stratified = np.bincount(tree.sample_stratified(rng.random(n), 0.5)[0], minlength=150)
    # Whole strata and the two that a row shares with its neighbours.
    assert (np.abs(stratified - expected) <= 2.1).all()


@pytest.mark.parametrize("n", [5, 70, 3000])
def test_repeated_indices(maker: Maker, n: int) -> None:
    """The last change of a row counts, once, in batches of any size."""
    rng = np.random.default_rng(n)
    indices = rng.integers(0, 40, n)
    values, deltas = rng.integers(0, 9, (2, n)).astype(np.float64)
    tree, reference = maker(50, 4), SumTreeReference(50, 4)
    for each in (tree, reference):
        each.set(indices, values)
        each.update(indices[::-1].copy(), deltas)
        each.update(rows_of(3, 3), np.array([-1e6, 2]))
    np.testing.assert_array_equal(tree.priorities(), reference.priorities())
    assert tree.total() == reference.total()
    assert tree.largest() == reference.largest()


def test_overwritten_value_is_never_the_largest(maker: Maker) -> None:
    tree = maker(5)
    tree.set(rows_of(1, 1), np.array([50.0, 0.5]))
    assert tree.largest() == 0.5


@pytest.mark.parametrize("fanout", [2, 8, 16, 64])
def test_many_changes_leave_no_drift(maker: Maker, fanout: int) -> None:
    """After a million changes the tree is what it is after a rebuild."""
    rng = np.random.default_rng(fanout)
    capacity, n = 10_007, 4096
    tree, mirror = maker(capacity, fanout), np.zeros(capacity)
    n_rounds = maker.n_updates // n // (1 if fanout == 8 else 10) + 1
    for i in range(n_rounds):
        indices = rng.integers(0, capacity, n)
        values = np.exp(8 * rng.normal(size=n)) * (rng.random(n) < 0.9)
        tree.set(indices, values)
        mirror[indices] = values
        if i % 2:
            rows = np.unique(rng.integers(0, capacity, n))
            tree.update(rows, 0.5 * tree.retrieve(rows))
            mirror[rows] *= 1.5
    roundoff = unit(maker)
    np.testing.assert_allclose(tree.priorities(), mirror, rtol=8 * n_rounds * roundoff)
    before, targets = tree.total(), rng.random(5000) * mirror.sum()
    assert_right(tree, targets, tree.sample(targets)[0], roundoff)
    tree.rebuild()
    np.testing.assert_allclose(before, tree.total(), rtol=8 * fanout * roundoff)
    assert_right(tree, targets, tree.sample(targets)[0], roundoff)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1])
def test_td_errors(maker: Maker, alpha: float, epsilon: float) -> None:
    rng = np.random.default_rng(1)
    errors = (rng.normal(size=500) * 10.0 ** rng.integers(-4, 4, 500)).astype(np.float32)
    errors[17] = 0
    tree, reference = maker(1000), SumTreeReference(1000)
    indices = rng.integers(0, 1000, 500)
    for each in (tree, reference):
        each.set_td_errors(indices, errors, alpha, epsilon)
    roundoff = 2e-6  # float32, and the logarithm of 1e4 times as much
    np.testing.assert_allclose(tree.priorities(), reference.priorities(), rtol=roundoff)
    np.testing.assert_allclose(tree.largest(), reference.largest(), rtol=roundoff)


def test_insert_goes_round_the_ring(maker: Maker) -> None:
    tree, reference = maker(77, 4), SumTreeReference(77, 4)
    calls: list[tuple[int, int, float | None]] = [
        (0, 5, None), (5, 30, 4.0), (70, 20, None), (76, 1, 0.0), (3, 0, 9.0), (10, 77, 2.0)
    ]  # fmt: skip
    for call in calls:
        for each in (tree, reference):
            each.insert(*call)
        np.testing.assert_array_equal(tree.priorities(), reference.priorities())
        assert (tree.total(), tree.largest()) == (reference.total(), reference.largest())
    targets = np.arange(1, 155) - 0.5
    np.testing.assert_array_equal(tree.sample(targets)[0], reference.sample(targets)[0])


def test_load_takes_over(maker: Maker) -> None:
    source = filled(maker, np.arange(300) % 7.0)
    source.set(rows_of(6, 13), np.array([90.0, 0]))
    source.set(rows_of(6), np.array([0.0]))
    copy = maker(300, 4)
    copy.load(source.priorities(), source.largest())
    assert (copy.total(), copy.largest()) == (source.total(), 90)
    targets = np.linspace(0, source.total(), 999)
    np.testing.assert_array_equal(copy.sample(targets)[0], source.sample(targets)[0])
    copy.priorities()[:] = 5  # a copy
    assert copy.total() == source.total()


def test_a_new_tree_is_empty(maker: Maker) -> None:
    tree = maker(10)
    assert (tree.total(), tree.largest()) == (0, 1)
    tree.set(rows_of(1), np.array([0.25]))
    assert tree.largest() == 0.25
    tree.set(rows_of(1), np.array([0.0]))
    assert (tree.total(), tree.largest()) == (0, 0.25)
    for call in (lambda: tree.sample(np.ones(2)), lambda: tree.sample_stratified(np.zeros(2), 0)):
        with pytest.raises(ValueError, match="positive priority"):
            call()


@pytest.mark.parametrize(("method", "arguments", "message"), BAD_CALLS)
def test_bad_input_changes_nothing(
    maker: Maker, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    tree = filled(maker, np.arange(30) % 5.0, 4)
    before = tree.priorities()
    with pytest.raises(ValueError, match=message):
        getattr(tree, method)(*arguments)
    np.testing.assert_array_equal(tree.priorities(), before)
    assert (tree.total(), tree.largest()) == (before.sum(), 4)
    targets = np.arange(60) + 0.5
    expected = np.searchsorted(np.cumsum(before), targets)
    np.testing.assert_array_equal(tree.sample(targets)[0], expected)


@pytest.mark.parametrize(
    ("capacity", "fanout", "message"),
    [
        (0, 8, "capacity"),
        (-5, 8, "capacity"),
        (5, 3, "fanout"),
        (5, 1, "fanout"),
        (5, 128, "fanout"),
    ],
)
def test_bad_sizes(maker: Maker, capacity: int, fanout: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        maker(capacity, fanout)


def test_no_such_device(maker: Maker) -> None:
    with pytest.raises(ValueError, match="device"):
        maker.make(5, 8, device="nowhere")


def test_samplers_see_whole_changes(maker: Maker) -> None:
    """Three threads sample while one gives all priority to one half and then to the other."""
    if maker.make is SumTreeReference:
        pytest.skip("the reference is for one thread")
    half = 200
    low, high = np.repeat([[1.0, 0], [0, 1]], half, axis=1)
    tree, every = filled(maker, low, 4), np.arange(2 * half)
    stop, wrong = threading.Event(), list[str]()
    n_calls = [0] * 3

    def sample(thread: int) -> None:
        rng = np.random.default_rng(thread)
        while not stop.is_set():
            rows, priorities = tree.sample(rng.random(64) * half)
            n_calls[thread] += 1
            if len({*(rows >= half)}) != 1 or (priorities != 1).any():
                wrong.append(f"{rows} {priorities}")
                return

    threads = [threading.Thread(target=sample, args=(i,), daemon=True) for i in range(3)]
    for thread in threads:
        thread.start()
    for i in range(min(2000, maker.n_updates // (4 * half))):
        tree.set(every, (high, low)[i % 2])
    while not wrong and min(n_calls) == 0 and all(t.is_alive() for t in threads):
        stop.wait(0.001)  # each has its turn
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong, wrong[0]


class TreeMachine(RuleBasedStateMachine):
    """Give a tree and the reference the same calls: whole priorities, so that all is exact."""

    maker: Maker

    @initialize(capacity=st.integers(1, 70), fanout=st.sampled_from(FANOUTS))
    def make(self, capacity: int, fanout: int) -> None:
        self.tree = self.maker(capacity, fanout)
        self.reference = SumTreeReference(capacity, fanout)

    def both(self, method: str, *arguments: Any) -> None:
        results = []
        for tree in (self.tree, self.reference):
            try:
                results.append(getattr(tree, method)(*arguments))
            except ValueError:
                results.append(ValueError)
        assert (results[0] is ValueError) == (results[1] is ValueError), results
        if isinstance(results[1], tuple):
            for got, expected in zip(*results, strict=True):
                np.testing.assert_allclose(got, expected, rtol=4e-6)
        elif isinstance(results[1], np.ndarray):
            np.testing.assert_array_equal(results[0], results[1])

    @rule(data=st.lists(st.tuples(st.integers(0, 69), st.integers(0, 255)), max_size=40))
    def set(self, data: list[tuple[int, int]]) -> None:
        rows, values = np.array(data, np.int64).reshape(-1, 2).T.copy()
        self.both("set", rows % self.tree.capacity, values.astype(np.float64))

    @rule(data=st.lists(st.tuples(st.integers(-1, 70), st.integers(-9, 9)), max_size=12))
    def update(self, data: list[tuple[int, int]]) -> None:
        rows, deltas = np.array(data, np.int64).reshape(-1, 2).T.copy()
        self.both("update", rows, deltas.astype(np.float64))

    @rule(
        start=st.integers(-1, 70),
        n=st.integers(0, 75),
        priority=st.none() | st.integers(-1, 255).map(float),
    )
    def insert(self, start: int, n: int, priority: float | None) -> None:
        self.both("insert", start, n, priority)

    @rule(halves=st.lists(st.integers(0, 2**15), max_size=30))
    def sample(self, halves: list[int]) -> None:
        self.both("sample", np.array(halves, np.float64) / 2)

    @rule(exponent=st.integers(0, 4), beta=st.sampled_from([0.0, 0.5, 1.0]), data=st.data())
    def sample_stratified(self, exponent: int, beta: float, data: st.DataObject) -> None:
        n = 2**exponent
        sixteenths = data.draw(st.lists(st.integers(0, 15), min_size=n, max_size=n))
        self.both("sample_stratified", np.array(sixteenths) / 16, beta)

    @rule(indices=st.lists(st.integers(0, 69), max_size=10))
    def retrieve(self, indices: list[int]) -> None:
        self.both("retrieve", np.array(indices, np.int64))

    @rule()
    def rebuild(self) -> None:
        self.tree.rebuild()

    @rule()
    def reload(self) -> None:
        self.both("load", self.reference.priorities(), self.reference.largest())

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "tree"):
            assert self.tree.total() == self.reference.total()
            assert self.tree.largest() == self.reference.largest()
            np.testing.assert_array_equal(self.tree.priorities(), self.reference.priorities())


def test_any_sequence_of_calls(maker: Maker) -> None:
    machine = type("Machine", (TreeMachine,), {"maker": staticmethod(maker)})
    few = 10 if maker.n_updates < 10**5 else 40
    checks = [HealthCheck.too_slow]
    run_machine(
        machine,
        settings=settings(max_examples=few, stateful_step_count=30, suppress_health_check=checks),
    )
