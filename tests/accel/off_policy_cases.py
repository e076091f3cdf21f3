"""Networks, options and batches for the tests of the off-policy learners."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accel.backends import BackendError, load
from accel.interfaces import Adam, Batch, Dqn, OffPolicyLearner, Options, Sac, Td3, ddpg
from accel.reference import IDENTITY, RELU, TANH, OffPolicyReference, n_weights
from tests.accel.cases import initial_weights, table

Float32Array = NDArray[np.float32]
Int32Array = NDArray[np.int32]

ALGORITHMS: dict[str, Options] = {
    "dqn": Dqn(double=False, huber_delta=float("inf"), target_interval=2, target_rate=0.3),
    "double-dqn": Dqn(target_interval=3, huber_delta=0.7),
    "ddpg": ddpg(),
    "td3": Td3(policy_delay=2, target_noise=0.3, noise_clip=0.4),
    "td3-each-step": Td3(policy_delay=1, critic=Adam(max_gradient_norm=0.05)),
    "sac": Sac(target_entropy=-2.0, initial_temperature=0.4, temperature=Adam(1e-2)),
    "sac-fixed": Sac(target_entropy=0.0, temperature=Adam(0.0), log_std_range=(-1.0, 0.1)),
}


@dataclass(frozen=True)
class Case:
    """An algorithm, its networks with weights, and a batch."""

    options: Options
    actor: Int32Array | None
    critic: Int32Array
    parameters: Float32Array
    targets: Float32Array
    batch: Batch
    seed: int = 7

    @property
    def n_actor(self) -> int:
        return 0 if self.actor is None else n_weights(self.actor)

    @property
    def n_rows(self) -> int:
        return len(self.batch.rewards)

    def reference(self) -> OffPolicyReference:
        reference = OffPolicyReference(self.options, self.actor, self.critic, self.seed)
        reference.load_parameters(self.parameters, self.targets)
        return reference

    def learner(self, backend: str, **own: Any) -> OffPolicyLearner:
        make = make_learner(backend)
        learner: OffPolicyLearner = make(
            self.options, self.actor, self.critic, seed=self.seed, **own
        )
        learner.load_parameters(self.parameters, self.targets)
        return learner

    def with_batch(self, **fields: Any) -> "Case":
        return replace(self, batch=self.batch._replace(**fields))


def make_learner(backend: str) -> Any:
    """The backend's class, or a skip with the reason."""
    try:
        return load(backend).OffPolicyLearner
    except BackendError as error:
        pytest.skip(str(error))


def stack(n_inputs: int, widths: tuple[int, ...], n_outputs: int, kinds: tuple[int, int]) -> Any:
    """One chain of layers; `kinds` are the activations of the hidden ones and of the last."""
    sizes = (n_inputs, *widths, n_outputs)
    rows = [(i - 1, 0, sizes[i], sizes[i + 1], kinds[0], -1) for i in range(len(widths))]
    last = len(widths)
    return table(*rows, (last - 1, 0, sizes[last], n_outputs, kinds[1], 0))


def critics(n_inputs: int, widths: tuple[int, ...], n: int, kind: int) -> Int32Array:
    """`n` critics in one table, their first layers side by side in one."""
    if not widths:
        return table(*((-1, 0, n_inputs, 1, IDENTITY, k) for k in range(n)))
    rows: list[tuple[int, ...]] = [(-1, 0, n_inputs, n * widths[0], kind, -1)]
    for k in range(n):
        source, begin = 0, k * widths[0]
        for n_in, n_out in pairwise(widths):
            rows.append((source, begin, n_in, n_out, kind, -1))
            source, begin = len(rows) - 1, 0
        rows.append((source, begin, widths[-1], 1, IDENTITY, k))
    return table(*rows)


def make_batch(
    rng: np.random.Generator, n_rows: int, n_observations: int, actions: NDArray[Any]
) -> Batch:
    """Transitions with some ends of episodes and importance weights."""
    observations, following = rng.normal(size=(2, n_rows, n_observations)).astype(np.float32)
    discounts = np.where(rng.random(n_rows) < 0.3, 0.0, 0.9).astype(np.float32)
    weights = rng.uniform(0.2, 1.0, n_rows).astype(np.float32)
    rewards = rng.normal(size=n_rows).astype(np.float32)
    return Batch(observations, actions.astype(np.float32), rewards, following, discounts, weights)


def make_case(
    algorithm: str,
    n_rows: int = 33,
    widths: tuple[int, ...] = (17, 12),
    n_observations: int = 5,
    n_actions: int = 3,
    kind: int = TANH,
    seed: int = 0,
    options: Options | None = None,
) -> Case:
    """Draw networks and a batch for one of ALGORITHMS."""
    rng = np.random.default_rng(seed)
    options = options or ALGORITHMS[algorithm]
    if isinstance(options, Dqn):
        actor = None
        critic = stack(n_observations, widths, n_actions, (kind, IDENTITY))
        actions: NDArray[Any] = rng.integers(0, n_actions, (n_rows, 1))
    else:
        n_critics = 1 if algorithm == "ddpg" else 2
        head = (2 * n_actions, IDENTITY) if isinstance(options, Sac) else (n_actions, TANH)
        actor = stack(n_observations, widths, head[0], (kind, head[1]))
        critic = critics(n_observations + n_actions, widths, n_critics, kind)
        actions = rng.uniform(-1, 1, (n_rows, n_actions))
    tables = [layers for layers in (actor, critic) if layers is not None]
    parameters = [initial_weights(layers, rng) for layers in tables]
    if isinstance(options, Sac):
        parameters.append(np.array([np.log(options.initial_temperature)], np.float32))
    flat = np.concatenate(parameters)
    n_networks = sum(n_weights(layers) for layers in tables)
    first = 0 if isinstance(options, Td3) or actor is None else n_weights(actor)
    moved = flat[first:n_networks] * (1 + 0.2 * rng.normal(size=n_networks - first))
    batch = make_batch(rng, n_rows, n_observations, actions)
    return Case(options, actor, critic, flat, moved.astype(np.float32), batch)


SHAPES: dict[str, dict[str, Any]] = {
    "one-row": {"n_rows": 1},
    "two-rows": {"n_rows": 2, "n_actions": 1, "kind": RELU},
    "31-rows": {"n_rows": 31, "n_actions": 7, "kind": RELU},
    "32-rows": {"n_rows": 32, "widths": (64, 64), "n_observations": 4, "n_actions": 2},
    "33-rows": {"n_rows": 33, "n_actions": 4, "widths": (16, 16, 16)},
    "256-rows": {"n_rows": 256, "n_actions": 5, "widths": (40, 33), "kind": RELU},
    "one-layer": {"widths": (), "n_actions": 6},
    "two-layers": {"widths": (20,), "n_actions": 2, "kind": IDENTITY},
    "width-one": {"widths": (1, 1), "n_actions": 2},
    "width-1024": {"widths": (1024,), "n_rows": 32, "kind": RELU},
    "wide-and-narrow": {"widths": (300, 5, 128), "n_rows": 70, "n_observations": 11},
}
