"""What must hold to the bit: sums in any order, rows in any grouping, a first ratio of 1."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel
from tests.accel.cases import (
    Case,
    critic,
    every,
    fill,
    make_case,
    set_exponents,
    sums,
    tangled_actor,
)

VARIANTS = accel.variants()
CASES = {
    "gaussian": make_case("gaussian", n_actions=2, widths=(33, 18), n_rows=150),
    "categorical": make_case("categorical", n_actions=5, widths=(16, 40), n_rows=150),
    "tangled": fill("gaussian", tangled_actor(), critic(5, 9, 23), 150),
}


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(CASES)),
    variant=st.sampled_from(VARIANTS),
    cuts=st.lists(st.integers(0, 150), max_size=12),
    n_ranks=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_chunks_may_be_spread_over_ranks(
    name: str, variant: str, cuts: list[int], n_ranks: int, seed: int
) -> None:
    """The sum of the ranks' accumulators is the one call's, however chunks are dealt out."""
    case = CASES[name]
    rng = np.random.default_rng(seed)
    rows = rng.permutation(case.n_rows)
    offsets = np.array([0, *sorted(cuts), 150], np.int64)
    chunks = [rows[a:b] for a, b in itertools.pairwise(offsets)]
    learner = case.learner(variant)
    whole = sums(learner, rows, offsets)
    owner = rng.integers(0, n_ranks, len(chunks))
    total = np.zeros_like(whole)
    for rank in range(n_ranks):
        mine = [c for c, r in zip(chunks, owner, strict=True) if r == rank]
        lengths = [0, *(len(c) for c in mine)]
        part = np.concatenate(mine) if mine else np.zeros(0, np.int64)
        # Another learner: what was computed before leaves no trace.
        total += sums(case.learner(variant), part, np.cumsum(lengths), n=150)
    np.testing.assert_array_equal(total, whole)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CASES)
def test_a_chunk_is_not_touched_by_its_neighbours(name: str, variant: str) -> None:
    """Not even by a NaN in the call before, or in a row of the same call."""
    case = CASES[name]
    good = np.arange(7, 40)
    clean = sums(case.learner(variant), good)
    observations = case.observations.copy()
    observations[:5] = np.nan
    poisoned = Case(**{**vars(case), "observations": observations}).learner(variant)
    sums(poisoned, np.arange(0, 64))
    np.testing.assert_array_equal(sums(poisoned, good), clean)
    both = sums(poisoned, np.concatenate([np.arange(5), good]), np.array([5, 38], np.int64), n=33)
    np.testing.assert_array_equal(both, clean)


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(CASES)),
    variant=st.sampled_from(VARIANTS),
    rows=st.lists(st.integers(0, 149), min_size=1, max_size=140),
)
def test_a_row_does_not_see_its_neighbours(name: str, variant: str, rows: list[int]) -> None:
    case = CASES[name]
    learner = case.learner(variant)
    x, a = case.observations, case.actions
    np.testing.assert_array_equal(learner.values(x[rows]), learner.values(x)[rows])
    np.testing.assert_array_equal(
        learner.log_probabilities(x[rows], a[rows]), learner.log_probabilities(x, a)[rows]
    )
    weights = case.parameters[: case.n_actor]
    np.testing.assert_array_equal(
        accel.forward(case.actor, weights, x[rows], variant),
        accel.forward(case.actor, weights, x, variant)[rows],
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("given_log", [False, True])
def test_the_first_ratio_is_one(name: str, variant: str, given_log: bool) -> None:
    case = CASES[name]
    learner = case.learner(variant)
    if given_log:
        log = learner.log_probabilities(case.observations, case.actions)
        learner.load_batch(*case.batch, log)
    step = learner.apply(sums(learner, np.random.default_rng(0).permutation(150), every(150, 11)))
    assert step.status == "applied"
    assert step.kl == 0.0
    assert step.clip_fraction == 0.0
    mean_advantage = case.advantages.astype(np.float64).mean()
    assert step.policy_loss == pytest.approx(-mean_advantage, abs=1e-8)
    assert step.n_rows == 150


def test_given_log_probabilities_count_from_an_older_policy() -> None:
    case = CASES["gaussian"]
    learner = case.learner()
    older = learner.log_probabilities(case.observations, case.actions) - np.float32(0.1)
    learner.load_batch(*case.batch, older)
    step = learner.apply(sums(learner, np.arange(150)))
    assert step.kl == pytest.approx(np.exp(0.1) - 1.1, rel=1e-4)


def test_fused_variants_agree_to_the_bit() -> None:
    """They differ in the length of their vectors only."""
    fused = [v for v in VARIANTS if v != "baseline"]
    if len(fused) < 2:
        pytest.skip(f"this processor runs one variant with fused multiply-add: {fused}")
    for case in CASES.values():
        first, *others = (sums(case.learner(v), np.arange(150), every(150, 25)) for v in fused)
        for other in others:
            np.testing.assert_array_equal(other, first)


def test_optimisers_of_all_variants_agree_to_the_bit() -> None:
    """Ranks on different processors apply one sum and must stay equal."""
    case = CASES["gaussian"]
    accumulators = sums(case.learner(), np.arange(150), every(150, 25))
    results = []
    for variant in VARIANTS:
        learner = case.learner(variant)
        for _ in range(3):
            set_exponents(learner, 40, 40)
            assert learner.apply(accumulators).status == "applied"
        results.append(learner.parameters())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
