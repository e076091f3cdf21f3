"""Learners: the gradient half of an algorithm, one interface whatever computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from flowrl.minibatches import Minibatch
from flowrl.networks import Weights
from flowrl.trajectory import Float32Array, IntArray


class Step(Enum):
    """What became of one gradient step."""

    APPLIED = "applied"
    RESCALED = "rescaled"  # the sums left the fixed-point range: compute the same step again
    SKIPPED = "skipped"  # a gradient was not finite; nothing was changed


@dataclass(frozen=True)
class StepReport:
    """One gradient step, averaged over its whole minibatch, all ranks."""

    step: Step
    policy_loss: float
    value_loss: float
    entropy: float  # [nat]
    approximate_kl: float  # mean of (ratio - 1) - log ratio [nat]
    clip_fraction: float
    actor_gradient_norm: float  # before clipping
    critic_gradient_norm: float


@dataclass(frozen=True)
class Batch:
    """One rank's transitions of one update."""

    observations: Float32Array  # (n_rows, n_observations) normalised
    actions: Float32Array  # (n_rows, n_actions) as sampled
    log_probabilities: Float32Array  # (n_rows,) under the policy that acted
    advantages: Float32Array  # (n_rows,)
    value_targets: Float32Array  # (n_rows,)


class Learner(Protocol):
    """Gradients of the PPO loss, and the optimiser's step.

    `gradient` writes sums of fixed-point integers. Their sum over ranks is exact, so every rank
    applies the same step to the bit, and the step does not depend on who computed which rows.
    """

    n_accumulators: int

    def parameters(self) -> Weights:
        """Return a copy of the flat parameters: the actor's weights, then the critic's."""

    def load_parameters(self, flat: Weights) -> None:
        """Take over flat parameters."""

    def values(self, observations: Float32Array) -> Float32Array:
        """Return the critic's value of each normalised observation: (n_rows,)."""

    def log_probabilities(self, observations: Float32Array, actions: Float32Array) -> Float32Array:
        """Return the log-probability (density) of each action as sampled: (n_rows,)."""

    def load_batch(self, batch: Batch) -> None:
        """Take the transitions of the next update."""

    def gradient(self, minibatch: Minibatch, accumulators: IntArray) -> None:
        """Overwrite `accumulators` with this rank's part of the minibatch's sums."""

    def apply(self, accumulators: IntArray, rate_factor: float) -> StepReport:
        """Step the optimiser with the sums over all ranks, at its learning rates x the factor."""

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
