"""The devices' kernel bodies, run by the host: in any order of threads they give the same bits."""

from typing import Any

import numpy as np
import pytest

from accel import portable
from tests.accel.off_policy_cases import ALGORITHMS, make_case
from tests.accel.test_off_policy import MEASURED, assert_equal_states, assert_same_step

# 0: in step; 1: each thread on its own between two barriers, backward; others: shuffled.
ORDERS = (0, 1, 7, 8)


def drawn(order: int, dtype: str, capacity: int, fanout: int) -> list[Any]:
    """All that a tree gives after changes that are small enough for one block, and larger ones."""
    tree = portable.SumTree(capacity, fanout, dtype=dtype, order=order)
    rng = np.random.default_rng(capacity + fanout)
    found: list[Any] = []
    for n in (1, 40, 300):
        rows = rng.integers(0, capacity, n)
        tree.set(rows, np.exp(3 * rng.normal(size=n)))
        tree.update(rows[::-1].copy(), rng.random(n))
        tree.insert(int(rng.integers(capacity)), min(n, capacity))
        found += [tree.priorities(), tree.total(), tree.largest()]
        found += [*tree.sample(rng.random(n) * tree.total())]
        found += [*tree.sample_stratified(rng.random(n), 0.5), tree.retrieve(rows)]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("capacity", "fanout"), [(1, 2), (100, 2), (1000, 16), (5000, 64)])
def test_trees_do_not_depend_on_the_order_of_threads(
    dtype: str, capacity: int, fanout: int
) -> None:
    expected = drawn(0, dtype, capacity, fanout)
    for order in ORDERS[1:]:
        for got, wanted in zip(drawn(order, dtype, capacity, fanout), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learners_do_not_depend_on_the_order_of_threads(algorithm: str) -> None:
    case = make_case(algorithm, n_rows=70, widths=(70, 40))
    learners = [case.learner("portable", order=order, n_pipelines=3) for order in ORDERS]
    for _ in range(2):
        steps = [learner.learn(case.batch) for learner in learners]
        for step in steps[1:]:
            np.testing.assert_array_equal(step.td_errors, steps[0].td_errors)
            for name in MEASURED:
                np.testing.assert_array_equal(getattr(step, name), getattr(steps[0], name), name)
    for learner in learners[1:]:
        assert_equal_states(learner.state(), learners[0].state())


@pytest.mark.parametrize("n_pipelines", [1, 2, 5, 64])
def test_pipelines_share_a_batch(n_pipelines: int) -> None:
    case = make_case("sac")
    one, many = (case.learner("portable", n_pipelines=n) for n in (1, n_pipelines))
    for _ in range(2):
        assert_same_step(many.learn(case.batch), one.learn(case.batch))


@pytest.mark.parametrize("fanout", [2, 16, 64])
def test_a_float32_tree_does_not_drift(fanout: int) -> None:
    """After many updates a new tree with the same leaves has the same sums, to the bit."""
    rng = np.random.default_rng(1)
    tree = portable.SumTree(1000, fanout, dtype="float32")
    for _ in range(300):
        rows = rng.integers(0, 1000, 64)
        tree.set(rows, np.exp(8 * rng.normal(size=64)))
        tree.update(rows, rng.random(64))
    total, priorities = tree.total(), tree.priorities()
    tree.rebuild()
    assert tree.total() == total
    fresh = portable.SumTree(1000, fanout, dtype="float32")
    fresh.load(priorities, tree.largest())
    assert fresh.total() == total


def test_the_last_of_equal_rows_counts_in_every_call() -> None:
    """They are told apart by numbers that grow from call to call; those of the last call stay."""
    tree = portable.SumTree(4, 2)
    for values in ([0.0, 1.0, 2.0], [5.0, 4.0, 3.0], [1.0, 9.0, 4.0]):
        tree.set(np.array([2, 2, 2]), np.array(values))
        assert tree.total() == values[-1]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [({"dtype": "float16"}, "dtype"), ({"device": "cuda"}, "device"), ({"order": -1}, "order")],
)
def test_bad_options(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        portable.SumTree(4, 2, **keywords)


def test_bad_number_of_pipelines() -> None:
    with pytest.raises(ValueError, match="n_pipelines"):
        make_case("dqn").learner("portable", n_pipelines=0)
