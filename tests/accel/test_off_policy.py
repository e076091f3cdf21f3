"""Every backend's off-policy learner against the NumPy reference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import accel
from accel.backends import NAMES
from accel.interfaces import Adam, Batch, Dqn, LearningStep, Sac, Td3
from accel.reference import RELU, OffPolicyReference
from tests.accel.cases import table
from tests.accel.off_policy_cases import ALGORITHMS, SHAPES, Case, make_case, make_learner

backends = pytest.mark.parametrize("backend", NAMES)
algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
MEASURED = (
    "critic_loss", "mean_value", "critic_gradient_norm", "actor_loss", "actor_gradient_norm",
    "entropy", "temperature",
)  # fmt: skip


def assert_close(found: Any, expected: Any, rtol: float = 2e-4, share: float = 1e-4) -> None:
    """Close to rounding, beside the largest of the expected values."""
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=share * scale)


def assert_same_step(found: LearningStep, expected: LearningStep) -> None:
    assert found.applied == expected.applied
    assert_close(found.td_errors, np.asarray(expected.td_errors, np.float64))
    for name in MEASURED:
        wanted = pytest.approx(getattr(expected, name), rel=1e-3, abs=1e-4, nan_ok=True)
        assert getattr(found, name) == wanted, name


def assert_equal_states(a: Any, b: Any) -> None:
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], key)


def check_steps(case: Case, backend: str, n_steps: int = 2, **own: Any) -> None:
    """Gradients, optimiser and targets, each from the reference's own place."""
    reference, learner = case.reference(), case.learner(backend, **own)
    assert learner.n_parameters == len(case.parameters)
    for _ in range(n_steps):
        expected = reference.critic_gradient(case.batch).astype(np.float32)
        assert_close(learner.critic_gradient(case.batch), expected)
        # The same numbers to both: Adam makes much of little where a gradient is nearly 0.
        reference.apply_critic(expected)
        learner.apply_critic(expected)
        expected = reference.actor_gradient().astype(np.float32)
        found = learner.actor_gradient()
        n = case.n_actor
        assert found.shape == expected.shape
        assert_close(found[:n], expected[:n])
        assert_close(found[n:], expected[n:])
        assert_same_step(learner.apply_actor(expected), reference.apply_actor(expected))
        check_state(learner.state(), reference.state())
    assert learner.n_steps == n_steps


def check_state(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["counters"], expected["counters"])
    np.testing.assert_allclose(found["parameters"], expected["parameters"], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(found["targets"], expected["targets"], rtol=1e-5, atol=2e-6)
    for key in ("first_moment", "second_moment"):
        scale = np.abs(expected[key]).max(initial=1e-30)
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-4, atol=1e-5 * scale)


@backends
@algorithms
def test_steps_agree_with_reference(backend: str, algorithm: str) -> None:
    check_steps(make_case(algorithm), backend, n_steps=4)


@backends
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ["double-dqn", "ddpg", "td3-each-step", "sac"])
def test_shapes_agree_with_reference(backend: str, algorithm: str, shape: str) -> None:
    check_steps(make_case(algorithm, **SHAPES[shape]), backend, n_steps=1)


@backends
@pytest.mark.parametrize("algorithm", ["td3-each-step", "sac"])
def test_tangled_networks_agree_with_reference(backend: str, algorithm: str) -> None:
    """Readers that overlap, skip columns, read outputs; critics that share a layer."""
    case = make_case(algorithm, n_observations=4, n_actions=2, widths=())
    n_outputs, last = (4, 0) if algorithm == "sac" else (2, 2)
    actor = table(
        (-1, 1, 3, 9, RELU, -1), (0, 2, 7, 2, last, 0), (1, 0, 2, 18, 2, -1),
        *([(2, 3, 15, 2, last, 2)] if n_outputs == 4 else []),
    )  # fmt: skip
    critic = table(
        (-1, 0, 6, 20, 2, -1), (-1, 3, 3, 11, RELU, -1), (0, 4, 16, 18, 2, -1),
        (2, 0, 18, 1, 0, 1), (1, 1, 10, 1, 0, 0), (2, 2, 5, 1, 0, 2),
    )  # fmt: skip
    check_steps(with_networks(case, actor, critic), backend)


def with_networks(case: Case, actor: Any, critic: Any) -> Case:
    """The same batch and options, with other networks and small weights."""
    probe = replace(case, actor=actor, critic=critic)
    reference = OffPolicyReference(case.options, actor, critic)
    rng = np.random.default_rng(3)
    flat = rng.normal(scale=0.4, size=reference.n_parameters).astype(np.float32)
    targets = rng.normal(scale=0.4, size=len(reference.targets)).astype(np.float32)
    return replace(probe, parameters=flat, targets=targets)


@backends
@algorithms
def test_one_call_is_the_steps_apart(backend: str, algorithm: str) -> None:
    case = make_case(algorithm, n_rows=32)
    together, apart = case.learner(backend), case.learner(backend)
    for _ in range(3):
        apart.apply_critic(apart.critic_gradient(case.batch))
        expected = apart.apply_actor(apart.actor_gradient())
        assert_same_step(together.learn(case.batch), expected)
    assert together.n_steps == apart.n_steps == 3
    found, wanted = together.state(), apart.state()
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=1e-4, atol=1e-5, err_msg=key)


@backends
@algorithms
def test_two_ranks_are_one_batch(backend: str, algorithm: str) -> None:
    case = make_case(algorithm, n_rows=32)
    whole, *ranks = (case.learner(backend) for _ in range(3))
    halves = [Batch(*(field[i * 16 : (i + 1) * 16] for field in case.batch)) for i in range(2)]
    for _ in range(2):
        parts = [r.critic_gradient(halves[i], first_row=16 * i) for i, r in enumerate(ranks)]
        expected = whole.critic_gradient(case.batch)
        assert_close((parts[0] + parts[1]) / 2, expected)
        for learner in (whole, *ranks):
            learner.apply_critic(expected)
        parts = [r.actor_gradient() for r in ranks]
        expected = whole.actor_gradient()
        assert_close((parts[0] + parts[1]) / 2, expected)
        for learner in (whole, *ranks):
            assert learner.apply_actor(expected).applied
    assert_equal_states(ranks[0].state(), whole.state())
    assert_equal_states(ranks[1].state(), whole.state())


@backends
@algorithms
def test_the_actor_may_learn_from_other_observations(backend: str, algorithm: str) -> None:
    case = make_case(algorithm, n_rows=33)
    learner, reference = case.learner(backend), case.reference()
    others = np.random.default_rng(5).normal(size=case.batch.observations.shape).astype(np.float32)
    for _ in range(2):
        gradient = reference.critic_gradient(case.batch).astype(np.float32)
        learner.critic_gradient(case.batch)
        for each in (learner, reference):
            each.apply_critic(gradient)
        wanted = reference.actor_gradient(others).astype(np.float32)
        assert_close(learner.actor_gradient(others), wanted)
        assert_same_step(learner.apply_actor(wanted), reference.apply_actor(wanted))
    learner.critic_gradient(case.batch)
    learner.apply_critic(gradient)
    with pytest.raises(ValueError, match="observations must"):
        learner.actor_gradient(others[1:])


@backends
@algorithms
def test_rows_are_gathered(backend: str, algorithm: str) -> None:
    case = make_case(algorithm, n_rows=100)
    rows = np.random.default_rng(1).integers(0, 100, 37)
    weights = np.linspace(0.1, 1, 37, dtype=np.float32)
    buffer = case.batch._replace(weights=weights)
    gathered = Batch._make([*(field[rows] for field in case.batch[:-1]), weights])
    a, b = case.learner(backend), case.learner(backend)
    for _ in range(2):
        step = a.learn(buffer, rows)
        np.testing.assert_array_equal(step.td_errors, b.learn(gathered).td_errors)
    assert_equal_states(a.state(), b.state())


def spoilt(case: Case, field: str, value: float) -> Batch:
    array = getattr(case.batch, field).copy()
    array.flat[-1] = value
    return case.batch._replace(**{field: array})


@backends
@algorithms
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rewards", np.nan),
        ("rewards", np.inf),
        ("weights", np.nan),
        ("observations", np.nan),
        ("observations", -np.inf),
        ("next_observations", np.nan),
        ("discounts", np.inf),
    ],
)
def test_what_is_not_finite_changes_nothing(
    backend: str, algorithm: str, field: str, value: float
) -> None:
    case = make_case(algorithm, kind=RELU)
    learner = case.learner(backend)
    learner.learn(case.batch)
    before = learner.state()
    case.batch.discounts[-1] = 0.9
    step = learner.learn(spoilt(case, field, value))
    assert not step.applied
    after = learner.state()
    np.testing.assert_array_equal(after["counters"] - before["counters"], [1, 1, 0, 0, 0])
    for key in before.keys() - {"counters"}:
        np.testing.assert_array_equal(after[key], before[key], key)
    assert learner.learn(case.batch).applied


@backends
@pytest.mark.parametrize("algorithm", ["td3-each-step", "sac"])
def test_an_actor_that_fails_takes_the_critics_back(backend: str, algorithm: str) -> None:
    case = make_case(algorithm)
    learner = case.learner(backend)
    learner.learn(case.batch)
    before = learner.state()
    learner.apply_critic(learner.critic_gradient(case.batch))
    gradient = learner.actor_gradient()
    gradient[0] = np.nan
    assert not learner.apply_actor(gradient).applied
    after = learner.state()
    np.testing.assert_array_equal(after["counters"] - before["counters"], [1, 1, 0, 0, 0])
    for key in before.keys() - {"counters"}:
        np.testing.assert_array_equal(after[key], before[key], key)


@backends
@pytest.mark.parametrize("algorithm", ["double-dqn", "td3", "sac"])
def test_critics_that_fail_leave_the_actor(backend: str, algorithm: str) -> None:
    case = make_case(algorithm)
    learner = case.learner(backend)
    learner.learn(case.batch)
    before = learner.state()
    gradient = learner.critic_gradient(spoilt(case, "rewards", np.nan))
    assert not np.isfinite(gradient).all()  # so that all ranks see it in the average
    learner.apply_critic(gradient)
    assert learner.actor_gradient().size == 0
    assert not learner.apply_actor(np.zeros(0, np.float32)).applied
    np.testing.assert_array_equal(learner.state()["parameters"], before["parameters"])


@backends
@algorithms
def test_state_goes_on_equal_to_the_bit(backend: str, algorithm: str) -> None:
    case = make_case(algorithm)
    first = case.learner(backend)
    for _ in range(3):
        first.learn(case.batch)
    second = case.learner(backend)
    second.load_state(first.state())
    assert_equal_states(first.state(), second.state())
    for _ in range(3):
        a, b = first.learn(case.batch), second.learn(case.batch)
        np.testing.assert_array_equal(a.td_errors, b.td_errors)
    assert_equal_states(first.state(), second.state())


@backends
def test_parameters_come_back(backend: str) -> None:
    case = make_case("sac")
    learner = case.learner(backend)
    np.testing.assert_array_equal(learner.parameters(), case.parameters)
    np.testing.assert_array_equal(learner.state()["targets"], case.targets)
    learner.load_parameters(case.parameters)
    critics = case.parameters[case.n_actor : -1]
    np.testing.assert_array_equal(learner.state()["targets"], critics)
    assert learner.backend == backend
    assert learner.device


@backends
def test_temperature_starts_as_asked(backend: str) -> None:
    case = make_case("sac")
    learner = make_learner(backend)(case.options, case.actor, case.critic)
    expected = np.zeros(len(case.parameters), np.float32)
    expected[-1] = np.log(0.4)
    np.testing.assert_allclose(learner.parameters(), expected, rtol=1e-6)


@pytest.mark.parametrize("variant", accel.variants())
@pytest.mark.parametrize("shape", ["31-rows", "256-rows", "width-one", "wide-and-narrow"])
@pytest.mark.parametrize("algorithm", ["double-dqn", "td3-each-step", "sac"])
def test_instruction_sets_agree_with_reference(algorithm: str, shape: str, variant: str) -> None:
    case = make_case(algorithm, **SHAPES[shape])
    check_steps(case, "cpu", n_pipelines=3, n_threads=2, variant=variant)


@pytest.mark.parametrize("algorithm", ["double-dqn", "td3-each-step", "sac"])
def test_bits_depend_on_pipelines_and_not_on_threads(algorithm: str) -> None:
    case = make_case(algorithm, n_rows=100, widths=(70, 40))
    states = []
    for n_threads in (1, 2, 3):
        learner = case.learner("cpu", n_pipelines=3, n_threads=n_threads)
        for _ in range(3):
            learner.learn(case.batch)
        states.append(learner.state())
    assert_equal_states(states[0], states[1])
    assert_equal_states(states[0], states[2])


@pytest.mark.parametrize("algorithm", ["double-dqn", "td3-each-step", "sac"])
def test_more_pipelines_than_rows(algorithm: str) -> None:
    case = make_case(algorithm, n_rows=2)
    single, many = case.learner("cpu"), case.learner("cpu", n_pipelines=5, n_threads=2)
    for _ in range(2):
        assert_same_step(many.learn(case.batch), single.learn(case.batch))


BAD_BATCHES: dict[str, dict[str, Any]] = {
    "observations": {"observations": np.zeros((33, 4), np.float32)},
    "next_observations": {"next_observations": np.zeros((32, 5), np.float32)},
    "actions": {"actions": np.zeros((33, 9), np.float32)},
    "rewards": {"rewards": np.zeros(33)},
    "discounts": {"discounts": np.zeros((33, 1), np.float32)},
    "weights": {"weights": np.zeros(66, np.float32)[::2]},
}


@backends
@pytest.mark.parametrize("algorithm", ["dqn", "td3", "sac"])
@pytest.mark.parametrize("field", BAD_BATCHES)
def test_bad_batches(backend: str, algorithm: str, field: str) -> None:
    case = make_case(algorithm)
    learner = case.learner(backend)
    before = learner.state()
    with pytest.raises(ValueError, match=field):
        learner.learn(case.batch._replace(**BAD_BATCHES[field]))
    with pytest.raises(ValueError, match=field):
        learner.critic_gradient(case.batch._replace(**BAD_BATCHES[field]))
    assert_equal_states(learner.state(), before)


@backends
def test_bad_rows_and_gradients(backend: str) -> None:
    case = make_case("td3-each-step")
    learner = case.learner(backend)
    weights = np.ones(2, np.float32)
    for rows in ([0, 33], [-1, 0], [0.0, 1.0], [0]):
        with pytest.raises(ValueError, match=r"rows|weights"):
            learner.learn(case.batch._replace(weights=weights), np.array(rows))
    with pytest.raises(ValueError, match="row"):
        learner.learn(Batch(*(field[:0] for field in case.batch)))
    learner.critic_gradient(case.batch)
    with pytest.raises(ValueError, match="gradient"):
        learner.apply_critic(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="flat"):
        learner.load_parameters(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="targets"):
        learner.load_parameters(case.parameters, np.zeros(3, np.float32))


@backends
@pytest.mark.parametrize("action", [-1.0, 3.0, 0.5, np.nan])
def test_actions_that_are_no_index(backend: str, action: float) -> None:
    case = make_case("dqn")
    learner = case.learner(backend)
    before = learner.state()
    with pytest.raises(ValueError, match="actions"):
        learner.learn(spoilt(case, "actions", action))
    assert_equal_states(learner.state(), before)


@backends
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parameters", np.zeros(3, np.float32)),
        ("targets", np.zeros(3, np.float32)),
        ("first_moment", None),
        ("second_moment", "no array"),
        ("counters", np.full(5, -1)),
    ],
)
def test_bad_states(backend: str, key: str, value: Any) -> None:
    case = make_case("td3")
    learner = case.learner(backend)
    before = learner.state()
    state: dict[str, Any] = learner.state()
    del state[key]
    if value is not None:
        state[key] = value
    with pytest.raises(ValueError, match=key):
        learner.load_state(state)
    assert_equal_states(learner.state(), before)


@backends
def test_networks_that_do_not_fit(backend: str) -> None:
    make = make_learner(backend)
    td3, dqn = make_case("td3"), make_case("dqn")
    with pytest.raises(ValueError, match="actor_layers"):
        make(Td3(), None, td3.critic)
    with pytest.raises(ValueError, match="actor_layers"):
        make(Dqn(), td3.actor, dqn.critic)
    with pytest.raises(ValueError, match="critic_layers"):
        make(Td3(), td3.actor, dqn.critic)
    with pytest.raises(ValueError, match="actor_layers"):
        make(Sac(-1.0), td3.actor, td3.critic)  # an odd number of columns
    with pytest.raises(ValueError, match="options"):
        make(Adam(), td3.actor, td3.critic)
    with pytest.raises(ValueError, match="device"):
        make(Dqn(), None, dqn.critic, device="no such device")
