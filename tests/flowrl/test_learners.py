"""The two learners give the same steps; the exact sum is exact."""

import numpy as np
import pytest

from flowrl.agents.ppo import PpoAgent
from flowrl.config import PpoConfig, RunConfig
from flowrl.envs.interface import Interface
from flowrl.learners import Batch, Step
from flowrl.learners.fixed_point import (
    LIMIT,
    FixedPoint,
    decode_statistics,
    encode_statistics,
)
from flowrl.minibatches import Shuffler
from flowrl.networks import PolicyKind
from flowrl.registry import LEARNERS, load

KINDS = [PolicyKind.GAUSSIAN, PolicyKind.CATEGORICAL]


def make(name, kind, seed=0, **ppo):
    n_actions = 2 if kind is PolicyKind.GAUSSIAN else 1
    ones = np.ones(n_actions, np.float32)
    is_box = kind is PolicyKind.GAUSSIAN
    table = np.empty((0, 2)) if is_box else np.arange(2.0)[:, None]
    interface = Interface(7, is_box, 2, n_actions, ones, 0 * ones, table, None, 1)
    agent = PpoAgent.build(RunConfig(), interface)
    learner = load(LEARNERS[name])(agent, PpoConfig(**ppo))
    learner.load_parameters(agent.initial_parameters(seed))
    return learner


def batch_for(learner, kind, n=200, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(n, 7)).astype(np.float32)
    if kind is PolicyKind.GAUSSIAN:
        actions = rng.normal(0, 0.7, (n, 2)).astype(np.float32)
    else:
        actions = rng.integers(0, 2, (n, 1)).astype(np.float32)
    return Batch(
        observations,
        actions,
        learner.log_probabilities(observations, actions),
        rng.normal(size=n).astype(np.float32),
        (scale * rng.normal(size=n)).astype(np.float32),
    )


def train(learner, n_rows, n_epochs):
    reports = []
    shuffler = Shuffler(0, 0, np.array([n_rows]), 0, 1, 2)
    accumulators = np.zeros(learner.n_accumulators, np.int64)
    for epoch in range(n_epochs):
        for minibatch in shuffler.epoch(epoch):
            report = None
            while report is None or report.step is Step.RESCALED:
                learner.gradient(minibatch, accumulators)
                report = learner.apply(accumulators, 1.0)
            reports.append(report)
    return reports


@pytest.mark.parametrize("kind", KINDS)
def test_native_and_torch_take_the_same_steps(kind):
    learners = [make(name, kind) for name in ("native", "torch")]
    reports = []
    for learner in learners:
        learner.load_batch(batch_for(learner, kind))
        reports.append(train(learner, 200, 20))
    for native, torch in zip(*reports, strict=True):
        for name, value in vars(native).items():
            if name != "step":
                assert value == pytest.approx(getattr(torch, name), rel=2e-3, abs=2e-5), name
    np.testing.assert_allclose(
        learners[0].parameters(), learners[1].parameters(), rtol=0, atol=2e-4
    )


@pytest.mark.parametrize("name", ["native", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_first_ratios_are_one(name, kind):
    learner = make(name, kind)
    learner.load_batch(batch_for(learner, kind))
    first = train(learner, 200, 1)[0]
    tolerance = 0.0 if name == "native" else 1e-10
    assert abs(first.approximate_kl) <= tolerance
    assert first.clip_fraction == 0.0


@pytest.mark.parametrize("name", ["native", "torch"])
def test_old_log_probabilities_are_those_given(name):
    """Data of an older policy: the ratio is to that policy, not to the present one."""
    learner = make(name, PolicyKind.GAUSSIAN)
    batch = batch_for(learner, PolicyKind.GAUSSIAN)
    older = Batch(**{**vars(batch), "log_probabilities": batch.log_probabilities - 0.1})
    learner.load_batch(older)
    first = train(learner, 200, 1)[0]
    assert first.approximate_kl == pytest.approx(np.exp(0.1) - 1 - 0.1, rel=1e-3)


@pytest.mark.parametrize("name", ["native", "torch"])
def test_huge_targets_rescale_and_go_on(name):
    learner = make(name, PolicyKind.GAUSSIAN)
    learner.load_batch(batch_for(learner, PolicyKind.GAUSSIAN, scale=1e9))
    before = learner.parameters()
    reports = train(learner, 200, 2)
    assert all(report.step is Step.APPLIED for report in reports)
    assert np.isfinite(learner.parameters()).all()
    assert np.abs(learner.parameters() - before).max() > 0


@pytest.mark.parametrize("name", ["native", "torch"])
def test_a_gradient_that_is_not_finite_changes_nothing(name):
    learner = make(name, PolicyKind.GAUSSIAN)
    batch = batch_for(learner, PolicyKind.GAUSSIAN)
    batch.advantages[3] = np.nan
    learner.load_batch(batch)
    before = learner.parameters()
    steps = [report.step for report in train(learner, 200, 1)]
    assert Step.SKIPPED in steps
    assert np.isfinite(learner.parameters()).all()
    if steps.count(Step.SKIPPED) == len(steps):
        np.testing.assert_array_equal(learner.parameters(), before)


def test_fixed_point_sums_are_exact_and_close():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(64, 1000)).astype(np.float32)
    scale = FixedPoint()
    scale.follow(float(np.abs(parts.sum(axis=0)).max()))
    encoded = np.array([scale.encode(part)[0] for part in parts])
    total = scale.decode(encoded.sum(axis=0))
    np.testing.assert_allclose(total, parts.astype(float).sum(axis=0), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(encoded.sum(axis=0), encoded[::-1].sum(axis=0))


@pytest.mark.parametrize("name", ["native", "torch"])
def test_tiny_gradients_are_not_rounded_away(name):
    """Advantages of 1e-9: Adam makes of them the same step as of advantages of 1."""
    changes = []
    for scale in (1.0, 1e-9):
        learner = make(name, PolicyKind.GAUSSIAN, entropy_coefficient=0.0)
        batch = batch_for(learner, PolicyKind.GAUSSIAN)
        learner.load_batch(
            Batch(**{**vars(batch), "advantages": np.float32(scale) * batch.advantages})
        )
        report = train(learner, 200, 1)[0]
        changes.append(report.actor_gradient_norm / scale)
    assert changes[1] == pytest.approx(changes[0], rel=1e-4)


def test_fixed_point_says_what_does_not_fit():
    scale = FixedPoint(32)
    assert scale.encode(np.array([np.nan], np.float32))[1:] == (False, True)
    assert scale.encode(np.array([LIMIT], np.float32))[1:] == (True, False)
    assert scale.encode(np.array([1.0], np.float32))[1:] == (False, False)


def test_statistics_of_any_size_survive():
    values = np.array([0.0, 1e-6, -3.5, 1e6, -1e12, 1e18])
    decoded = decode_statistics(encode_statistics(values))
    np.testing.assert_allclose(decoded, values, rtol=1e-9, atol=2e-10)
