"""Networks and batches for the tests of the learners."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accel
from accel.reference import IDENTITY, RELU, SIGMOID, TANH, PpoReference, n_weights

Float32Array = NDArray[np.float32]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

OPTIONS: dict[str, Any] = {
    "clip": 0.2,
    "entropy_coefficient": 0.01,
    "max_gradient_norm": 0.1,
    "actor_learning_rate": 5e-4,
    "critic_learning_rate": 5e-3,
}

# Positions of the words behind the gradient.
N_ROWS, N_CHUNKS, ACTOR_MAGNITUDE, CRITIC_MAGNITUDE = 9, 10, 11, 12


def table(*rows: tuple[int, ...]) -> Int32Array:
    return np.array(rows, np.int32)


def gaussian_actor(n_observations: int, n_actions: int, trunk: int, branch: int) -> Int32Array:
    return table(
        (-1, 0, n_observations, trunk, TANH, -1),
        (0, 0, trunk, 2 * branch, TANH, -1),
        (1, 0, branch, n_actions, TANH, 0),
        (1, branch, branch, n_actions, SIGMOID, n_actions),
    )


def categorical_actor(n_observations: int, n_actions: int, trunk: int, branch: int) -> Int32Array:
    return table(
        (-1, 0, n_observations, trunk, TANH, -1),
        (0, 0, trunk, branch, TANH, -1),
        (1, 0, branch, n_actions, IDENTITY, 0),
    )


def critic(n_observations: int, first: int, second: int) -> Int32Array:
    return table(
        (-1, 0, n_observations, first, RELU, -1),
        (0, 0, first, second, RELU, -1),
        (1, 0, second, 1, IDENTITY, 0),
    )


def tangled_actor() -> Int32Array:
    """Readers that overlap, skip columns and read an output; parts of the input read twice."""
    return table(
        (-1, 0, 4, 5, TANH, -1),
        (-1, 2, 3, 19, RELU, -1),
        (0, 1, 3, 7, SIGMOID, -1),
        (0, 2, 3, 2, IDENTITY, 0),  # the means, read again below
        (1, 15, 4, 17, TANH, -1),
        (3, 0, 2, 9, TANH, -1),
        (4, 3, 14, 1, SIGMOID, 2),
        (5, 0, 9, 1, SIGMOID, 3),
        (2, 0, 7, 6, TANH, -1),  # a dead end: its gradient is zero
    )


@dataclass(frozen=True)
class Case:
    """Two networks with weights, and a batch."""

    policy: str
    actor: Int32Array
    critic: Int32Array
    parameters: Float32Array
    observations: Float32Array
    actions: Float32Array
    advantages: Float32Array
    value_targets: Float32Array

    @property
    def n_actor(self) -> int:
        return n_weights(self.actor)

    @property
    def n_rows(self) -> int:
        return len(self.observations)

    @property
    def batch(self) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
        return self.observations, self.actions, self.advantages, self.value_targets

    def learner(self, variant: str = "", **options: Any) -> accel.PpoLearner:
        learner = accel.PpoLearner(
            self.actor,
            self.critic,
            policy=self.policy,
            variant=variant,
            **{**OPTIONS, **options},
        )
        learner.load_parameters(self.parameters)
        learner.load_batch(*self.batch)
        return learner

    def reference(self, **options: Any) -> PpoReference:
        reference = PpoReference(
            self.actor, self.critic, policy=self.policy, **{**OPTIONS, **options}
        )
        reference.parameters = self.parameters.astype(np.float64)
        reference.load_batch(*self.batch)
        return reference

    def moved(self, by: float, seed: int = 5) -> Float32Array:
        """Parameters some way off, so that ratios leave 1."""
        rng = np.random.default_rng(seed)
        factors = 1.0 + by * rng.normal(size=self.parameters.size)
        return (self.parameters * factors).astype(np.float32)


def initial_weights(layers: Int32Array, rng: np.random.Generator) -> Float32Array:
    """Draw weights of size 1/sqrt(n_in), smaller ones where the outputs are made."""
    parts = []
    for _, _, n_in, n_out, _, output in layers.tolist():
        gain = 1.0 if output < 0 else 0.3
        parts.append((gain * rng.normal(size=(n_in, n_out)) / np.sqrt(n_in)).ravel())
        parts.append(0.1 * rng.normal(size=n_out))
    return np.concatenate(parts).astype(np.float32)


def fill(policy: str, actor: Int32Array, critic: Int32Array, n_rows: int, seed: int = 0) -> Case:
    """Draw weights and a batch for given networks."""
    rng = np.random.default_rng(seed)
    n_observations = int((actor[actor[:, 0] < 0][:, 1] + actor[actor[:, 0] < 0][:, 2]).max())
    n_outputs = int((actor[:, 5] + actor[:, 3])[actor[:, 5] >= 0].max())
    actions = (
        rng.normal(size=(n_rows, n_outputs // 2))
        if policy == "gaussian"
        else rng.integers(0, n_outputs, size=(n_rows, 1))
    )
    return Case(
        policy,
        actor,
        critic,
        np.concatenate([initial_weights(actor, rng), initial_weights(critic, rng)]),
        rng.normal(size=(n_rows, n_observations)).astype(np.float32),
        actions.astype(np.float32),
        rng.normal(size=n_rows).astype(np.float32),
        rng.normal(size=n_rows).astype(np.float32),
    )


def make_case(
    policy: str = "gaussian",
    n_observations: int = 10,
    n_actions: int = 1,
    widths: tuple[int, int] = (64, 64),
    n_rows: int = 100,
    seed: int = 0,
) -> Case:
    """Draw the usual networks of a policy, and a batch."""
    make = gaussian_actor if policy == "gaussian" else categorical_actor
    actor = make(n_observations, n_actions, *widths)
    return fill(policy, actor, critic(n_observations, *widths), n_rows, seed)


def every(n_rows: int, size: int) -> Int64Array:
    """Offsets of chunks of `size` rows."""
    return np.array([*range(0, n_rows, size), n_rows], np.int64)


def sums(
    learner: accel.PpoLearner, rows: Int64Array, offsets: Int64Array | None = None, n: int = 0
) -> Int64Array:
    """Accumulators of one call; one chunk, and a minibatch of just these rows, unless told."""
    accumulators = np.full(learner.n_accumulators, -7, np.int64)
    if offsets is None:
        offsets = np.array([0, len(rows)], np.int64)
    learner.gradient(rows, offsets, n or len(rows), accumulators)
    return accumulators


def decode(learner: accel.PpoLearner, accumulators: Int64Array, n_actor: int) -> Any:
    """The gradient in float64."""
    exponents = learner.state()["exponents"]
    gradient = accumulators[: learner.n_parameters].astype(np.float64)
    gradient[:n_actor] *= 2.0 ** -int(exponents[0])
    gradient[n_actor:] *= 2.0 ** -int(exponents[1])
    return gradient


def set_exponents(learner: accel.PpoLearner, actor: int, critic: int) -> None:
    """Choose the units of the fixed-point sums."""
    state = learner.state()
    state["exponents"][:] = actor, critic
    learner.load_state(state)


def settle(
    learner: accel.PpoLearner, rows: Int64Array, offsets: Int64Array | None = None
) -> accel.PpoStep:
    """One optimiser step, computing again while the unit of the sums is not right."""
    for _ in range(20):
        step = learner.apply(sums(learner, rows, offsets))
        if step.status != "recompute":
            return step
    raise AssertionError("the exponents do not settle")
