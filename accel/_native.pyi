"""Types of the compiled module."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accel import interfaces
from accel.interfaces import Batch, Options

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

class PpoStep:
    """What one call of apply did, and means over the rows of the minibatch."""

    @property
    def status(self) -> Literal["applied", "recompute", "non_finite"]: ...
    @property
    def actor_gradient_norm(self) -> float: ...
    @property
    def critic_gradient_norm(self) -> float: ...
    @property
    def policy_loss(self) -> float: ...
    @property
    def value_loss(self) -> float: ...
    @property
    def entropy(self) -> float: ...
    @property
    def kl(self) -> float: ...
    @property
    def clip_fraction(self) -> float: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_overflow_chunks(self) -> int: ...
    @property
    def n_non_finite_chunks(self) -> int: ...

class PpoLearner:
    """Learn a policy and a value function by proximal policy optimisation.

    loss = -mean min(r A, clip(r, 1 - c, 1 + c) A) - entropy_coefficient mean H, and mean
    (V - target)^2 / 2 for the value function (Schulman et al. 2017). The networks are layer tables
    (see `accel`). A "gaussian" actor makes the means, then the standard deviations, these by layers
    that end in a sigmoid and make nothing else; a "categorical" one makes logits.

    Each network has its own gradient clipping, learning rate and Adam. `variant` picks the
    instruction set (see `variants`), the best one unless named.
    """

    def __init__(
        self,
        actor_layers: Int32Array,
        critic_layers: Int32Array,
        *,
        policy: str,
        clip: float,
        entropy_coefficient: float,
        max_gradient_norm: float,
        actor_learning_rate: float,
        critic_learning_rate: float,
        adam_betas: tuple[float, float] = (0.9, 0.999),
        adam_epsilon: float = 1e-5,
        variant: str = "",
    ) -> None: ...
    @property
    def n_parameters(self) -> int:
        """Number of weights, the actor's and the critic's."""

    @property
    def n_accumulators(self) -> int:
        """Length of the sums: the gradient, then statistics and flags."""

    @property
    def n_steps(self) -> int:
        """Optimiser steps applied."""

    @property
    def n_skipped(self) -> int:
        """Steps left out because a gradient or a loss was not finite."""

    @property
    def variant(self) -> str:
        """Instruction set in use."""

    def parameters(self) -> Float32Array:
        """Return a copy of the flat parameters: the actor's weights, then the critic's."""

    def load_parameters(self, flat: Float32Array) -> None:
        """Take over flat parameters; the optimiser's moments stay."""
    def load_batch(
        self,
        observations: Float32Array,
        actions: Float32Array,
        advantages: Float32Array,
        value_targets: Float32Array,
        log_probabilities: Float32Array | None = None,
    ) -> None:
        """Copy the transitions that `gradient` picks rows of.

        observations (n_rows, n_observations) as the networks see them; actions as sampled, one
        column a dimension, or one column that holds the index; the rest (n_rows,).
        log_probabilities are those of the policy that acted. Left out, they are computed here, by
        the present parameters: then, as with those `log_probabilities` gave when the policy acted,
        the first ratio is exactly 1.
        """

    def log_probabilities(self, observations: Float32Array, actions: Float32Array) -> Float32Array:
        """Return the log-probability (density) of each action: (n_rows,)."""

    def values(self, observations: Float32Array) -> Float32Array:
        """Return the critic's value of each observation: (n_rows,)."""
    def gradient(
        self,
        rows: Int64Array,
        chunk_offsets: Int64Array,
        n_minibatch: int,
        accumulators: Int64Array,
    ) -> None:
        """Overwrite `accumulators` with the sums over chunks of rows.

        Chunk c is rows[chunk_offsets[c]:chunk_offsets[c + 1]]; n_minibatch counts the rows of the
        whole minibatch, those of other ranks too. A chunk's gradient is summed in float32 and added
        as 64-bit integers; its bits depend on its rows and the parameters alone. So accumulators
        may be added over any number of ranks, and the sum is the same however chunks were dealt
        out. At most 4096 chunks may meet in one sum.
        """
    def apply(self, accumulators: Int64Array, learning_rate_factor: float = 1.0) -> PpoStep:
        """Step the optimiser with the sums over all ranks, the same bits on each.

        status "applied"; "recompute": the integers' unit was too fine or too coarse and has been
        changed, nothing else: call `gradient` and `apply` again; "non_finite": a chunk had a NaN or
        an infinity, the step is skipped and counted.
        """

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that a step changes: parameters, moments, counters, exponents."""

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state` returned."""

class OffPolicyStep:
    """What one learning step measured, see `accel.interfaces.LearningStep`."""

    @property
    def td_errors(self) -> Float32Array: ...
    @property
    def critic_loss(self) -> float: ...
    @property
    def mean_value(self) -> float: ...
    @property
    def critic_gradient_norm(self) -> float: ...
    @property
    def actor_loss(self) -> float: ...
    @property
    def actor_gradient_norm(self) -> float: ...
    @property
    def entropy(self) -> float: ...
    @property
    def temperature(self) -> float: ...
    @property
    def applied(self) -> bool: ...

class OffPolicyLearner:
    """Learn by DQN, DDPG, TD3 or SAC on the processor, see `accel.interfaces.OffPolicyLearner`.

    `actor_layers` is None for DQN. The rows of a batch are shared out among `n_pipelines` (1 to
    256), which `n_threads` (at most as many) work on. Bits of the results depend on the pipelines
    and the instruction set `variant` (see `variants`), not on the threads.
    """

    def __init__(
        self,
        options: Options,
        actor_layers: Int32Array | None,
        critic_layers: Int32Array,
        *,
        seed: int = 0,
        n_pipelines: int = 1,
        n_threads: int = 1,
        device: str = "",
        variant: str = "",
    ) -> None: ...
    @property
    def n_parameters(self) -> int:
        """Number of flat parameters."""

    @property
    def n_steps(self) -> int:
        """Learning steps done, those left out too."""

    @property
    def n_skipped(self) -> int:
        """Steps left out because a gradient or a loss was not finite."""

    @property
    def backend(self) -> str:
        """Return "cpu"."""

    @property
    def device(self) -> str:
        """Return "cpu"."""

    @property
    def variant(self) -> str:
        """Instruction set in use."""

    def learn(self, batch: Batch, rows: Int64Array | None = None) -> OffPolicyStep:
        """Do one whole step: critics, then actor and temperature, then targets."""

    def critic_gradient(
        self, batch: Batch, rows: Int64Array | None = None, first_row: int = 0
    ) -> Float32Array:
        """Return the critics' gradient; all NaN where the loss is not finite."""

    def apply_critic(self, gradient: Float32Array) -> None:
        """Clip, step the critics' optimiser."""

    def actor_gradient(self, observations: Float32Array | None = None) -> Float32Array:
        """Return the gradient by actor and log(alpha); empty where no actor step is due."""

    def apply_actor(self, gradient: Float32Array) -> OffPolicyStep:
        """Step actor and temperature, move the targets, count the step."""

    def parameters(self) -> Float32Array:
        """Return a copy of the flat parameters."""

    def load_parameters(self, flat: Float32Array, targets: Float32Array | None = None) -> None:
        """Take over flat parameters; the targets become equal to them unless given."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that a step changes: parameters, targets, moments, counters."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` returned."""

class SumTree:
    """Keep a replay buffer's priorities in float64 on the CPU, see `accel.interfaces.SumTree`.

    `n_threads` share a large batch of draws. `variant` picks the instruction set (see `variants`),
    the best one unless named; all give equal bits. Several threads sample or one changes, in turns.
    """

    def __init__(
        self,
        capacity: int,
        fanout: int = 16,
        *,
        device: str = "",
        n_threads: int = 1,
        variant: str = "",
    ) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def fanout(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def n_threads(self) -> int: ...
    @property
    def variant(self) -> str: ...
    def total(self) -> float:
        """Return the sum of all priorities."""

    def largest(self) -> float:
        """Return the largest priority so far, 1 before the first positive one."""

    def sample(self, targets: Float64Array) -> tuple[Int64Array, Float64Array]:
        """Return index and priority for each target."""

    def sample_stratified(
        self, uniforms: Float64Array, beta: float
    ) -> tuple[Int64Array, Float32Array]:
        """Return one index a stratum, and importance weights."""

    def retrieve(self, indices: Int64Array) -> Float64Array:
        """Return the priorities of rows."""

    def update(self, indices: Int64Array, deltas: Float64Array) -> None:
        """Add to priorities; none may become negative."""

    def set(self, indices: Int64Array, priorities: Float64Array) -> None:
        """Replace priorities."""

    def set_td_errors(
        self, indices: Int64Array, td_errors: Float32Array, alpha: float, epsilon: float
    ) -> None:
        """Replace priorities by (|td error| + epsilon)^alpha."""

    def insert(self, start: int, n: int, priority: float | None = None) -> None:
        """Set the priorities of n rows from `start`, round the ring."""

    def rebuild(self) -> None:
        """Compute every inner node from the leaves again."""

    def priorities(self) -> Float64Array:
        """Return a copy of all priorities (capacity,)."""

    def load(self, priorities: Float64Array, largest: float) -> None:
        """Take over priorities (capacity,) and the largest so far."""

def forward(
    layers: Int32Array, weights: Float32Array, inputs: Float32Array, variant: str = ""
) -> Float32Array:
    """Evaluate a network on rows: (n_rows, n_inputs) -> (n_rows, n_outputs)."""

def elementary(function: str, x: Float32Array, variant: str = "") -> Float32Array:
    """Evaluate exp, log, log1p_unit (0 <= x <= 1), tanh or sigmoid as the kernels do."""

def multiply_adds(n: int, variant: str = "") -> float:
    """Do n rounds of independent multiply-adds; return how many operations that were."""

def variants() -> list[str]:
    """Name the instruction sets this build has and this processor runs, best first."""

def PortableSumTree(
    capacity: int,
    fanout: int = 16,
    *,
    device: str = "",
    dtype: Literal["float32", "float64"] = "float64",
    order: int = 0,
) -> interfaces.SumTree: ...
def PortableOffPolicyLearner(
    options: Options,
    actor_layers: Int32Array | None,
    critic_layers: Int32Array,
    *,
    seed: int = 0,
    n_pipelines: int = 4,
    device: str = "",
    order: int = 0,
) -> interfaces.OffPolicyLearner: ...
