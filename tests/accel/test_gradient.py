"""Gradients against finite differences, torch's autograd and the NumPy reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel
from accel.reference import PpoReference, forward, split
from tests.accel.cases import (
    Case,
    critic,
    decode,
    fill,
    make_case,
    set_exponents,
    sums,
    table,
    tangled_actor,
)

VARIANTS = accel.variants()


def tangled_case(n_rows: int = 60) -> Case:
    return fill("gaussian", tangled_actor(), critic(5, 9, 23), n_rows)


def loss(reference: PpoReference, parameters: Any, rows: Any) -> float:
    """Both losses together, so that one direction tests both networks."""
    reference.parameters = parameters
    _, s = reference.gradient(rows)
    return s.policy_loss - reference.entropy_coefficient * s.entropy + s.value_loss


@pytest.mark.parametrize("policy", ["gaussian", "categorical"])
def test_reference_agrees_with_finite_differences(policy: str) -> None:
    case = make_case(policy, n_observations=3, n_actions=3, widths=(6, 5), n_rows=40)
    reference = case.reference()
    at = case.moved(0.3).astype(np.float64)
    rows = np.arange(case.n_rows)
    reference.parameters = at
    gradient, _ = reference.gradient(rows)
    rng = np.random.default_rng(1)
    for _ in range(20):
        direction = rng.normal(size=at.size)
        h = 1e-6
        slope = loss(reference, at + h * direction, rows) - loss(
            reference, at - h * direction, rows
        )
        assert slope / (2 * h) == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-8)


def torch_outputs(torch: Any, layers: Any, weights: Any, x: Any) -> Any:
    activations = [lambda y: y, torch.relu, torch.tanh, torch.sigmoid]
    made: list[Any] = []
    columns = {}
    start = 0
    for source, begin, n_in, n_out, kind, output in layers.tolist():
        w = weights[start : start + n_in * n_out].reshape(n_in, n_out)
        b = weights[start + n_in * n_out : start + (n_in + 1) * n_out]
        start += (n_in + 1) * n_out
        read = (x if source < 0 else made[source])[:, begin : begin + n_in]
        made.append(activations[kind](read @ w + b))
        if output >= 0:
            columns[output] = made[-1]
    return torch.cat([columns[c] for c in sorted(columns)], dim=1)


def torch_gradient(case: Case, parameters: Any, old_log: Any) -> Any:
    torch = pytest.importorskip("torch")
    p = torch.tensor(parameters, dtype=torch.float64, requires_grad=True)
    x, a, advantages, targets = (torch.tensor(v, dtype=torch.float64) for v in case.batch)
    out = torch_outputs(torch, case.actor, p[: case.n_actor], x)
    if case.policy == "gaussian":
        d = torch.distributions.Normal(*out.chunk(2, dim=1))
        log_p, entropy = d.log_prob(a).sum(1), d.entropy().sum(1)
    else:
        d = torch.distributions.Categorical(logits=out)
        log_p, entropy = d.log_prob(a[:, 0]), d.entropy()
    ratio = torch.exp(log_p - torch.tensor(old_log))
    surrogate = torch.minimum(ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages)
    value = torch_outputs(torch, case.critic, p[case.n_actor :], x)[:, 0]
    (-surrogate.mean() - 0.01 * entropy.mean() + 0.5 * ((value - targets) ** 2).mean()).backward()
    return p.grad.numpy()


@pytest.mark.parametrize(
    "case",
    [
        make_case("gaussian", n_actions=2),
        make_case("categorical", n_actions=4),
        tangled_case(),
    ],
    ids=["gaussian", "categorical", "tangled"],
)
def test_reference_agrees_with_torch(case: Case) -> None:
    reference = case.reference()
    reference.parameters = case.moved(1.0).astype(np.float64)
    gradient, statistics = reference.gradient(np.arange(case.n_rows))
    assert 0.0 < statistics.clip_fraction < 1.0
    expected = torch_gradient(case, reference.parameters, reference.old_log)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


def check_against_reference(case: Case, variant: str, by: float = 0.2) -> None:
    """Gradient and statistics some way off the acting policy, to float32 rounding."""
    reference, learner = case.reference(), case.learner(variant)
    at = case.moved(by)
    reference.parameters = at.astype(np.float64)
    learner.load_parameters(at)
    rows = np.random.default_rng(3).permutation(case.n_rows)
    expected, statistics = reference.gradient(rows)
    accumulators = sums(learner, rows)
    gradient = decode(learner, accumulators, case.n_actor)
    for part in (slice(None, case.n_actor), slice(case.n_actor, None)):
        scale = np.abs(expected[part]).max()
        np.testing.assert_allclose(gradient[part], expected[part], rtol=1e-4, atol=3e-5 * scale)
    step = learner.apply(accumulators)
    for name, value in vars(statistics).items():
        assert getattr(step, name) == pytest.approx(value, rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "case",
    [
        make_case("gaussian", n_rows=1600),
        make_case("gaussian", n_actions=5, n_rows=130),
        make_case("categorical", n_actions=6, n_rows=130),
        make_case("categorical", n_actions=9, widths=(100, 256), n_rows=60),
        make_case("gaussian", n_actions=9, widths=(256, 100), n_rows=61),
        make_case("gaussian", n_actions=8, widths=(5, 16), n_rows=1),
        tangled_case(),
    ],
    ids=lambda case: f"{case.policy}-{len(case.parameters)}x{case.n_rows}",
)
def test_native_agrees_with_reference(case: Case, variant: str) -> None:
    check_against_reference(case, variant, by=0.2)


@settings(max_examples=60)
@given(
    policy=st.sampled_from(["gaussian", "categorical"]),
    n_observations=st.integers(1, 17),
    n_actions=st.integers(1, 6),
    widths=st.tuples(*2 * [st.sampled_from([1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 64])]),
    n_rows=st.integers(1, 200),
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 9),
)
def test_odd_sizes(
    policy: str,
    n_observations: int,
    n_actions: int,
    widths: tuple[int, int],
    n_rows: int,
    variant: str,
    seed: int,
) -> None:
    case = make_case(policy, n_observations, n_actions, widths, n_rows, seed)
    check_against_reference(case, variant, by=0.2)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("before_sigmoid", [-8.0, 20.0])
def test_extreme_deviations_keep_a_gradient(variant: str, before_sigmoid: float) -> None:
    """A sigmoid close to 0 or 1 still has a log and a slope: both come from before it."""
    case = make_case(n_rows=16)
    split(case.actor, case.parameters[: case.n_actor])[3][1][...] = before_sigmoid
    reference, learner = case.reference(), case.learner(variant)
    set_exponents(learner, 50, 50) if before_sigmoid > 0 else set_exponents(learner, 20, 40)
    mean = forward(case.actor, case.parameters[: case.n_actor], case.observations)[:, :1]
    deviation = 1.0 / (1.0 + np.exp(-before_sigmoid))
    actions = (mean + 0.5 * deviation).astype(np.float32)
    batch = (case.observations, actions, case.advantages, case.value_targets)
    learner.load_batch(*batch)
    reference.load_batch(*batch)
    gradient = decode(learner, sums(learner, np.arange(16)), case.n_actor)
    expected, _ = reference.gradient(np.arange(16))
    last = slice(case.n_actor - 65, case.n_actor)  # of the standard deviation's layer
    scale = np.abs(expected[last]).max()
    assert scale > 0
    np.testing.assert_allclose(gradient[last], expected[last], rtol=2e-3, atol=1e-3 * scale)


@pytest.mark.parametrize("variant", VARIANTS)
def test_forward_agrees_with_reference(variant: str) -> None:
    case = tangled_case(n_rows=77)
    weights = case.parameters[: case.n_actor]
    out = accel.forward(case.actor, weights, case.observations, variant)
    assert out.dtype == np.float32
    np.testing.assert_allclose(
        out, forward(case.actor, weights, case.observations), rtol=2e-5, atol=2e-6
    )
    learner = case.learner(variant)
    value = accel.forward(case.critic, case.parameters[case.n_actor :], case.observations, variant)
    np.testing.assert_array_equal(learner.values(case.observations), value[:, 0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_wide_layers(variant: str) -> None:
    layers = table((-1, 0, 300, 1024, 1, -1), (0, 0, 1024, 513, 2, -1), (1, 0, 513, 20, 0, 0))
    rng = np.random.default_rng(0)
    weights = np.concatenate(
        [
            np.concatenate([rng.normal(size=n * m) / np.sqrt(n), rng.normal(size=m)])
            for n, m in ((300, 1024), (1024, 513), (513, 20))
        ]
    ).astype(np.float32)
    x = rng.normal(size=(70, 300)).astype(np.float32)
    np.testing.assert_allclose(
        accel.forward(layers, weights, x, variant), forward(layers, weights, x), atol=2e-4
    )
