"""The reference of the off-policy learners against torch, finite differences and known answers."""

from typing import Any

import numpy as np
import pytest

from accel.backends import NAMES
from accel.interfaces import Dqn
from accel.reference.philox import normals, philox
from tests.accel.off_policy_cases import ALGORITHMS, Case, make_case

algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
SIZES: list[dict[str, Any]] = [{}, {"widths": ()}, {"widths": (9, 8, 7), "n_actions": 5}]


def torch_learner(case: Case, dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    from tests.accel.torch_off_policy import TorchLearner

    return TorchLearner(case, getattr(torch, dtype))


@algorithms
@pytest.mark.parametrize("size", SIZES, ids=["usual", "one-layer", "four-layers"])
def test_gradients_agree_with_torch(algorithm: str, size: dict[str, Any]) -> None:
    case = make_case(algorithm, **size)
    reference, learner = case.reference(), torch_learner(case, "float64")
    n = case.n_actor
    for _ in range(3):
        found = reference.critic_gradient(case.batch)
        reference.apply_critic(found)
        of_actor = reference.actor_gradient()
        step = reference.apply_actor(of_actor)
        learner.learn(case.batch)
        # torch's gradient is clipped in place
        factor = np.linalg.norm(learner.critic.grad) / np.linalg.norm(found)
        assert factor <= 1 + 1e-9
        np.testing.assert_allclose(found * factor, learner.critic.grad, rtol=1e-7, atol=1e-12)
        assert step.critic_loss == pytest.approx(learner.critic_loss.item(), rel=1e-9)
        if len(of_actor):
            np.testing.assert_allclose(of_actor[:n], learner.actor.grad, rtol=1e-7, atol=1e-12)
            assert step.actor_loss == pytest.approx(learner.actor_loss.item(), rel=1e-9)
        if len(of_actor) > n:
            np.testing.assert_allclose(of_actor[n:], learner.log_alpha.grad, rtol=1e-7)
            assert step.entropy == pytest.approx(learner.entropy.item(), rel=1e-9)
        np.testing.assert_allclose(reference.parameters_, learner.flat(), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(reference.targets, learner.targets, rtol=1e-6, atol=1e-9)


@algorithms
def test_gradients_agree_with_finite_differences(algorithm: str) -> None:
    case = make_case(algorithm, widths=(6, 5))
    reference = case.reference()
    reference.counters[0] = 5  # a step in which the actor is due, whatever the delay
    gradient = reference.critic_gradient(case.batch)
    check_slopes(reference, case, reference.critic, gradient, "critic_loss")
    if isinstance(case.options, Dqn):
        return
    reference.failed = False
    gradient = reference.actor_gradient()[: case.n_actor]
    check_slopes(reference, case, reference.actor, gradient, "actor_loss")


def check_slopes(reference: Any, case: Case, part: slice, gradient: Any, name: str) -> None:
    rng, h = np.random.default_rng(1), 1e-6
    at = reference.parameters_.copy()
    for _ in range(10):
        direction = np.zeros_like(at)
        direction[part] = rng.normal(size=len(gradient))
        losses = []
        for sign in (1, -1):
            reference.parameters_[:] = at + sign * h * direction
            if name == "critic_loss":
                reference.critic_gradient(case.batch)
            else:
                reference.actor_gradient()
            losses.append(reference.measured[name])
        slope = (losses[0] - losses[1]) / (2 * h)
        assert slope == pytest.approx(gradient @ direction[part], rel=1e-5, abs=1e-8)
    reference.parameters_[:] = at


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize("algorithm", ["double-dqn", "ddpg", "td3", "sac"])
def test_a_thousand_steps_stay_as_close_as_torch(backend: str, algorithm: str) -> None:
    """Rounding grows from step to step; ours no faster than torch's own."""
    case = make_case(algorithm, n_rows=256, widths=(16, 16))
    learner, reference = case.learner(backend), case.reference()
    single = torch_learner(case, "float32")
    rng = np.random.default_rng(2)
    for _ in range(1000):
        rows = rng.integers(0, 256, 32)
        batch = type(case.batch)(*(field[rows] for field in case.batch))
        learner.learn(batch)
        reference.learn(batch)
        single.learn(batch)
    exact = reference.parameters_
    ours = np.sqrt(np.mean((learner.parameters() - exact) ** 2))
    torchs = np.sqrt(np.mean((single.flat() - exact) ** 2))
    moved = np.sqrt(np.mean((case.parameters - exact) ** 2))
    assert moved > 0.01  # there was something to learn
    assert ours <= 5 * torchs + 1e-6
    assert ours <= 0.02 * moved


# Published with the generator (Random123, kat_vectors)
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            0x299F31D0A4093822,
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_has_the_known_answers(counter: list[int], key: int, expected: list[int]) -> None:
    assert philox(np.array([counter], np.uint64), key).tolist() == [expected]


def test_normals_are_normal() -> None:
    stats = pytest.importorskip("scipy.stats")
    drawn = normals(seed=3, step=11, stream=1, first_row=5, n_rows=20_000, n_actions=6)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn.T) - np.eye(6)).max() < 0.03
    again = normals(seed=3, step=11, stream=1, first_row=1005, n_rows=7, n_actions=5)
    np.testing.assert_array_equal(again, drawn[1000:1007, :5])
