"""The optimiser's half: Adam as torch's, clipping, and the unit of the fixed-point sums."""

from typing import Any

import numpy as np
import pytest

import accel
from tests.accel.cases import (
    ACTOR_MAGNITUDE,
    CRITIC_MAGNITUDE,
    N_CHUNKS,
    N_ROWS,
    Case,
    every,
    make_case,
    set_exponents,
    settle,
    sums,
)

VARIANTS = accel.variants()
SMALL = make_case(n_observations=3, n_actions=2, widths=(7, 5), n_rows=64)
EXPONENT = 40


def encode(learner: accel.PpoLearner, gradient: Any, n_actor: int) -> Any:
    """Accumulators that hold a given gradient, as one chunk of one row."""
    n = learner.n_parameters
    set_exponents(learner, EXPONENT, EXPONENT)
    accumulators = np.zeros(learner.n_accumulators, np.int64)
    accumulators[:n] = np.rint(gradient * 2.0**EXPONENT)
    words = accumulators[n:]
    words[N_ROWS] = words[N_CHUNKS] = 1
    words[ACTOR_MAGNITUDE] = np.abs(accumulators[:n_actor]).max()
    words[CRITIC_MAGNITUDE] = np.abs(accumulators[n_actor:n]).max()
    return accumulators


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("max_norm", [0.1, np.inf])
def test_1000_steps_stay_with_torch_adam(variant: str, max_norm: float) -> None:
    torch = pytest.importorskip("torch")
    learner = SMALL.learner(variant, max_gradient_norm=max_norm, adam_epsilon=1e-5)
    n_actor = SMALL.n_actor
    parts = [
        torch.nn.Parameter(torch.tensor(SMALL.parameters[s], dtype=torch.float64))
        for s in (slice(None, n_actor), slice(n_actor, None))
    ]
    optimiser = torch.optim.Adam(
        [{"params": [parts[0]], "lr": 5e-4}, {"params": [parts[1]], "lr": 5e-3}], eps=1e-5
    )
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.uniform(-4, 0, learner.n_parameters)
    drift = rng.normal(size=learner.n_parameters)
    for _ in range(1000):
        gradient = scale * (drift + rng.normal(size=learner.n_parameters))
        assert learner.apply(encode(learner, gradient, n_actor)).status == "applied"
        parts[0].grad = torch.tensor(gradient[:n_actor])
        parts[1].grad = torch.tensor(gradient[n_actor:])
        for part in parts:
            torch.nn.utils.clip_grad_norm_([part], max_norm)
        optimiser.step()
    expected = torch.cat(parts).detach().numpy()
    moved = np.abs(expected - SMALL.parameters)
    # Each step rounds the parameter once more (half a unit of 2^-24 relative), at random.
    error = np.abs(learner.parameters() - expected)
    assert moved.max() > 1.0
    assert error.max() < 1000 * 2.0**-24 * max(1.0, np.abs(expected).max())
    assert np.median(error / np.maximum(moved, 1e-3)) < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("policy", ["gaussian", "categorical"])
def test_1000_updates_stay_with_the_reference(policy: str, variant: str) -> None:
    """Gradient and optimiser together, on one batch: the policies stay the same."""
    case = make_case(policy, 4, 2, widths=(8, 8), n_rows=48)
    learner, reference = case.learner(variant), case.reference()
    rng = np.random.default_rng(0)
    statistics = None
    for update in range(1000):
        if update % 50 == 0:
            learner.load_batch(*case.batch)
            reference.load_batch(*case.batch)
        rows = rng.permutation(48)[:24]
        step = settle(learner, rows, every(24, 5))
        gradient, statistics = reference.gradient(rows)
        reference.apply(gradient)
    assert learner.n_steps == reference.n_steps == 1000
    assert statistics is not None
    assert step.value_loss == pytest.approx(statistics.value_loss, rel=1e-3, abs=1e-5)
    assert step.entropy == pytest.approx(statistics.entropy, abs=1e-4)
    assert np.abs(learner.parameters() - reference.parameters).max() < 1e-3
    assert np.abs(reference.parameters - case.parameters).max() > 0.1


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_norms_and_clipping_are_each_networks_own(variant: str) -> None:
    learner, reference = SMALL.learner(variant), SMALL.reference()
    step = learner.apply(sums(learner, np.arange(64)))
    gradient, _ = reference.gradient(np.arange(64))
    norms = reference.apply(gradient)
    assert step.actor_gradient_norm == pytest.approx(norms[0], rel=1e-5)
    assert step.critic_gradient_norm == pytest.approx(norms[1], rel=1e-5)
    assert min(norms) > 0.1
    np.testing.assert_allclose(learner.state()["first_moment"], reference.first_moment, atol=1e-7)
    np.testing.assert_allclose(learner.parameters(), reference.parameters, atol=2e-6)


def scaled(case: Case, advantages: float, targets: float) -> Case:
    return Case(
        **{
            **vars(case),
            "advantages": (advantages * case.advantages).astype(np.float32),
            "value_targets": (targets * case.value_targets).astype(np.float32),
        }
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("factor", [1e8, 1e-4, 1e20])
def test_the_unit_follows_the_gradient(variant: str, factor: float) -> None:
    """Too coarse or too fine: computed again, and the step is that of a unit right at once."""
    case = scaled(SMALL, factor, factor)
    learner, told = (case.learner(variant, entropy_coefficient=0.0) for _ in range(2))
    before = learner.parameters()
    first = learner.apply(sums(learner, np.arange(64), every(64, 9)))
    assert first.status == "recompute"
    np.testing.assert_array_equal(learner.parameters(), before)
    assert learner.n_steps == 0
    assert (first.n_overflow_chunks > 0) == (factor > 1)
    assert settle(learner, np.arange(64), every(64, 9)).status == "applied"
    set_exponents(told, *learner_exponents(case, variant))
    assert settle(told, np.arange(64), every(64, 9)).status == "applied"
    np.testing.assert_allclose(learner.parameters(), told.parameters(), rtol=1e-6)
    assert np.isfinite(learner.parameters()).all()
    assert np.abs(learner.parameters() - before).max() > 0


def learner_exponents(case: Case, variant: str) -> tuple[int, int]:
    """Exponents at which this batch's gradient fits at once."""
    learner = case.learner(variant, entropy_coefficient=0.0)
    settle(learner, np.arange(64), every(64, 9))
    actor, critic = learner.state()["exponents"]
    return int(actor), int(critic)


def test_the_same_unit_gives_the_same_bits_however_it_was_found() -> None:
    case = scaled(SMALL, 1e8, 1e8)
    learner, told = case.learner(), case.learner()
    while learner.apply(sums(learner, np.arange(64))).status == "recompute":
        state = learner.state()
    told.load_state(state)
    assert told.apply(sums(told, np.arange(64))).status == "applied"
    np.testing.assert_array_equal(told.parameters(), learner.parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_magnitudes_use_the_bits_there_are(variant: str) -> None:
    learner = SMALL.learner(variant)
    settle(learner, np.arange(64), every(64, 9))
    accumulators = sums(learner, np.arange(64), every(64, 9))
    words = accumulators[learner.n_parameters :]
    for magnitude in words[[ACTOR_MAGNITUDE, CRITIC_MAGNITUDE]]:
        assert 2**42 < magnitude < 2**48


def test_chunks_that_cancel_do_not_run_in_circles() -> None:
    """Two rows whose gradients are opposite: the sum is nearly zero, the chunks are not."""
    case = scaled(SMALL, 0.0, 1.0)
    observations = case.observations.copy()
    observations[1] = observations[0]
    values = case.learner().values(observations)
    targets = case.value_targets.copy()
    targets[:2] = values[0] - 1e6, values[0] + 1e6
    learner = case.learner(entropy_coefficient=0.0)
    learner.load_batch(observations, case.actions, case.advantages, targets)
    for _ in range(3):
        assert settle(learner, np.array([0, 1]), np.array([0, 1, 2])).status == "applied"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["observations", "actions", "advantages", "value_targets"])
def test_a_batch_that_is_not_finite_is_skipped_and_counted(
    where: str, bad: float, variant: str
) -> None:
    learner = SMALL.learner(variant)
    settle(learner, np.arange(64))
    before = learner.state()
    spoiled = dict(
        zip(["observations", "actions", "advantages", "value_targets"], SMALL.batch, strict=True)
    )
    spoiled[where] = spoiled[where].copy()
    spoiled[where][7] = bad
    learner.load_batch(**spoiled)
    step = learner.apply(sums(learner, np.arange(64), every(64, 9)))
    assert step.status == "non_finite"
    assert step.n_non_finite_chunks >= 1
    assert learner.n_skipped == 1
    after = learner.state()
    for name in ("parameters", "first_moment", "second_moment", "exponents"):
        np.testing.assert_array_equal(after[name], before[name])
    # The other rows go on as if nothing had been.
    assert settle(learner, np.arange(8, 64)).status == "applied"


def test_the_learning_rates_can_fall() -> None:
    """A factor on both rates is the step of a learner with those rates; zero moves nothing."""
    slow = SMALL.learner(actor_learning_rate=5e-5, critic_learning_rate=5e-4)
    fast = SMALL.learner()
    accumulators = sums(slow, np.arange(64))
    before = fast.parameters()
    assert slow.apply(accumulators).status == "applied"
    assert fast.apply(accumulators, learning_rate_factor=0.1).status == "applied"
    np.testing.assert_allclose(fast.parameters() - before, slow.parameters() - before, atol=1e-7)
    still = SMALL.learner()
    still.apply(accumulators, 0.0)
    np.testing.assert_array_equal(still.parameters(), before)


def test_zero_gradients_are_applied() -> None:
    learner = scaled(SMALL, 0.0, 1.0).learner(entropy_coefficient=0.0)
    step = settle(learner, np.arange(64))
    assert step.status == "applied"
    assert step.actor_gradient_norm == 0.0
    n = SMALL.n_actor
    np.testing.assert_array_equal(learner.parameters()[:n], SMALL.parameters[:n])


def test_state_goes_round_to_the_bit() -> None:
    learner = SMALL.learner()
    for seed in range(5):
        settle(learner, np.random.default_rng(seed).permutation(64)[:32], every(32, 7))
    other = SMALL.learner()
    other.load_state(learner.state())
    for name, values in learner.state().items():
        np.testing.assert_array_equal(other.state()[name], values)
        assert other.state()[name].dtype == values.dtype
    for both in (learner, other):
        both.load_batch(*SMALL.batch)
        settle(both, np.arange(64), every(64, 9))
    assert other.n_steps == learner.n_steps == 6
    for name, values in learner.state().items():
        np.testing.assert_array_equal(other.state()[name], values)
