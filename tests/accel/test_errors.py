"""Bad input: an error that names field, rule and value, and nothing changed."""

import threading
from typing import Any

import numpy as np
import pytest

import accel
from tests.accel.cases import OPTIONS, critic, every, gaussian_actor, make_case, sums, table

CASE = make_case(n_observations=4, n_actions=2, widths=(6, 5), n_rows=20)
CATEGORICAL = make_case("categorical", 4, 3, widths=(6, 5), n_rows=20)
ACTOR = gaussian_actor(4, 2, 6, 5)


def changed(layers: Any, row: int, column: int, value: int) -> Any:
    layers = layers.copy()
    layers[row, column] = value
    return layers


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (np.zeros((0, 6), np.int32), "actor_layers must have at least one layer, got 0"),
        (ACTOR.astype(np.int64), r"actor_layers must be .*int32 \(n, 6, \), got int64 \(4, 6\)"),
        (ACTOR[:, :5], "actor_layers must be a C-contiguous array of int32"),
        (changed(ACTOR, 0, 0, 0), r"actor_layers\[0\]: source must be -1 to -1, got 0"),
        (changed(ACTOR, 1, 0, 1), r"actor_layers\[1\]: source must be -1 to 0, got 1"),
        (changed(ACTOR, 1, 1, -1), "begin must be 0 to 16384, got -1"),
        (changed(ACTOR, 1, 1, 1), "begin [+] n_in must be at most the source's n_out = 6, got 7"),
        (changed(ACTOR, 2, 2, 0), "n_in must be 1 to 16384, got 0"),
        (changed(ACTOR, 2, 3, 0), "n_out must be 1 to 16384, got 0"),
        (changed(ACTOR, 2, 4, 4), "activation must be 0 to 3, got 4"),
        (changed(ACTOR, 2, 5, 1), "column 0 comes from 0"),
        (changed(ACTOR, 3, 5, 1), "column 1 comes from 2"),
        (changed(changed(ACTOR, 2, 5, -1), 3, 5, -1), "at least one layer must have output >= 0"),
        (changed(ACTOR, 3, 4, 2), r"actor_layers\[3\]: .*must end in a sigmoid .3., .*got .* 2"),
        (critic(4, 6, 5), "a gaussian policy must have an even number of output columns"),
        (gaussian_actor(3, 2, 6, 5), r"critic_layers must read as many inputs .*\(3\), got 4"),
    ],
)
def test_layers(actor: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accel.PpoLearner(actor, CASE.critic, policy="gaussian", **OPTIONS)


def test_critic_makes_one_column() -> None:
    two = table((-1, 0, 4, 2, 0, 0))
    with pytest.raises(ValueError, match="critic_layers must make one output column, got 2"):
        accel.PpoLearner(ACTOR, two, policy="gaussian", **OPTIONS)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("policy", "normal", "policy must be 'gaussian' or 'categorical', got 'normal'"),
        ("clip", 0.0, "clip must be positive and finite, got 0.0"),
        ("clip", np.nan, "clip must be positive and finite, got nan"),
        ("entropy_coefficient", -0.1, "entropy_coefficient must be at least 0 and finite"),
        ("max_gradient_norm", 0.0, "max_gradient_norm must be positive"),
        ("actor_learning_rate", -1.0, "actor_learning_rate must be at least 0"),
        ("critic_learning_rate", np.inf, "critic_learning_rate must be at least 0 and finite"),
        ("adam_betas", (0.9, 1.0), "adam_betas must be at least 0 and below 1, got 1.0"),
        ("adam_epsilon", 0.0, "adam_epsilon must be positive"),
        ("variant", "mmx", "variant must be one this processor runs .*got 'mmx'"),
    ],
)
def test_options(option: str, value: Any, message: str) -> None:
    options = {"policy": "gaussian", **OPTIONS, option: value}
    with pytest.raises(ValueError, match=message):
        accel.PpoLearner(ACTOR, CASE.critic, **options)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "observations",
            CASE.observations.astype(float),
            "observations must be .*float32.*float64",
        ),
        ("observations", CASE.observations[:, :3].copy(), r"\(n, 4, \), got float32 \(20, 3\)"),
        ("observations", CASE.observations[::2], "not contiguous"),
        (
            "observations",
            CASE.observations[:0],
            "observations must have at least one row, got 0|actions",
        ),
        ("actions", CASE.actions[:, :1].copy(), r"actions must be .*\(20, 2, \), got .*\(20, 1\)"),
        ("advantages", CASE.advantages[:19], r"advantages must be .*\(20, \), got float32 \(19,\)"),
        ("value_targets", CASE.value_targets[:, None], "value_targets must be"),
        ("log_probabilities", CASE.value_targets[:3], "log_probabilities must be"),
    ],
)
def test_batches(field: str, value: Any, message: str) -> None:
    learner = CASE.learner()
    names = ("observations", "actions", "advantages", "value_targets")
    good = dict(zip(names, CASE.batch, strict=True))
    before = sums(learner, np.arange(20))
    with pytest.raises(ValueError, match=message):
        learner.load_batch(**{**good, field: value})
    np.testing.assert_array_equal(sums(learner, np.arange(20)), before)


@pytest.mark.parametrize("action", [-1.0, 3.0, 0.5, np.nan])
def test_discrete_actions(action: float) -> None:
    actions = CATEGORICAL.actions.copy()
    actions[4] = action
    with pytest.raises(ValueError, match=r"actions must hold whole numbers from 0 to 2, .*row 4"):
        CATEGORICAL.learner().load_batch(CATEGORICAL.observations, actions, *CATEGORICAL.batch[2:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.arange(20, dtype=np.int32)}, "rows must be .*int64"),
        (
            {"rows": np.array([0, 20])},
            "rows must be rows of the loaded batch, 0 to 19, got 20 at 1",
        ),
        ({"rows": np.array([-1])}, "rows must be .*got -1 at 0"),
        ({"chunk_offsets": np.zeros(0, np.int64)}, "chunk_offsets must have at least one element"),
        ({"chunk_offsets": np.array([0, 10, 5])}, "chunk_offsets must not decrease .*got 5 at 2"),
        ({"chunk_offsets": np.array([0, 21])}, r"within 0 to len\(rows\) = 20, got 21 at 1"),
        ({"chunk_offsets": np.array([-1, 3])}, "got -1 at 0"),
        ({"n_minibatch": 19}, "n_minibatch counts .*at least the 20 of this call.*got 19"),
        ({"n_minibatch": 0}, "n_minibatch"),
        ({"accumulators": np.zeros(5, np.int64)}, "accumulators must be .*got int64"),
        ({"accumulators": np.zeros(500, float)}, "accumulators must be .*int64.*got float64"),
    ],
)
def test_gradient(change: dict[str, Any], message: str) -> None:
    learner = CASE.learner()
    arguments: dict[str, Any] = {
        "rows": np.arange(20),
        "chunk_offsets": every(20, 5),
        "n_minibatch": 20,
        "accumulators": np.full(learner.n_accumulators, 3, np.int64),
    }
    kept = arguments["accumulators"]
    with pytest.raises(ValueError, match=message):
        learner.gradient(**{**arguments, **change})
    assert (kept == 3).all()


def test_read_only_accumulators() -> None:
    learner = CASE.learner()
    accumulators = np.zeros(learner.n_accumulators, np.int64)
    accumulators.flags.writeable = False
    with pytest.raises(ValueError, match="accumulators must be writeable"):
        learner.gradient(np.arange(20), every(20, 5), 20, accumulators)


def test_gradient_wants_a_batch() -> None:
    learner = accel.PpoLearner(ACTOR, CASE.critic, policy="gaussian", **OPTIONS)
    with pytest.raises(ValueError, match="no batch is loaded: call load_batch before gradient"):
        sums(learner, np.arange(1))


def test_apply_wants_rows_and_not_too_many_chunks() -> None:
    learner = CASE.learner()
    with pytest.raises(ValueError, match="accumulators must hold at least one row, got 0"):
        learner.apply(np.zeros(learner.n_accumulators, np.int64))
    with pytest.raises(ValueError, match=r"learning_rate_factor must be .*, got -0.5"):
        learner.apply(sums(learner, np.arange(20)), -0.5)
    crowd = sums(learner, np.arange(20), every(20, 1)) * 300
    with pytest.raises(ValueError, match="at most 4096 chunks, got 6000; cut the minibatch into"):
        learner.apply(crowd)
    assert learner.n_steps == 0


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parameters", None, "state must hold 'parameters', got no such entry"),
        ("parameters", np.zeros(3, np.float32), r"state\['parameters'\] must be .*got .*\(3,\)"),
        ("counters", np.array([-1, 0]), r"state\['counters'\] must be at least 0, got -1"),
        ("exponents", np.array([40, 101], np.int32), r"state\['exponents'\] must be -70 to 100"),
        ("first_moment", [0.0], r"state\['first_moment'\] must be an array, got \[0.0\]"),
    ],
)
def test_state(key: str, value: Any, message: str) -> None:
    learner = CASE.learner()
    before = learner.state()
    state = {k: v for k, v in learner.state().items() if k != key}
    state["second_moment"] = state["second_moment"] + np.float32(1)
    if value is not None:
        state[key] = value
    with pytest.raises(ValueError, match=message):
        learner.load_state(state)
    for name, values in learner.state().items():
        np.testing.assert_array_equal(values, before[name])


def test_forward_and_values() -> None:
    learner = CASE.learner()
    with pytest.raises(ValueError, match=r"observations must be .*\(n, 4, \)"):
        learner.values(np.zeros((3, 5), np.float32))
    with pytest.raises(ValueError, match="weights must be"):
        accel.forward(CASE.critic, np.zeros(3, np.float32), CASE.observations)
    assert learner.values(np.zeros((0, 4), np.float32)).shape == (0,)


def test_two_threads_take_turns() -> None:
    """The lock of the interpreter is released, the learner's own is held."""
    learner = make_case(n_rows=400).learner()
    expected = sums(learner, np.arange(400), every(400, 25))
    results: list[Any] = []

    def work() -> None:
        for _ in range(20):
            results.append(sums(learner, np.arange(400), every(400, 25)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    for result in results:
        np.testing.assert_array_equal(result, expected)
