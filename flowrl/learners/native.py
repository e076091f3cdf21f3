"""The PPO learner of `accel`: fused, compiled, the same bits however rows are spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import accel
from flowrl.agents.ppo import PpoAgent
from flowrl.config import PpoConfig
from flowrl.learners import Batch, Step, StepReport
from flowrl.minibatches import Minibatch
from flowrl.networks import Weights
from flowrl.trajectory import Float32Array, IntArray

_STEPS = {
    "applied": Step.APPLIED,
    "recompute": Step.RESCALED,
    "non_finite": Step.SKIPPED,
}


class NativeLearner:
    """`accel.PpoLearner` behind the interface of all learners."""

    def __init__(self, agent: PpoAgent, config: PpoConfig) -> None:
        self._native = accel.PpoLearner(
            agent.actor,
            agent.critic,
            policy=str(agent.kind),
            clip=config.clip,
            entropy_coefficient=config.entropy_coefficient,
            max_gradient_norm=config.max_gradient_norm,
            actor_learning_rate=config.actor_learning_rate,
            critic_learning_rate=config.critic_learning_rate,
        )
        self.n_accumulators = self._native.n_accumulators

    def parameters(self) -> Weights:
        """Return a copy of the flat parameters: the actor's weights, then the critic's."""
        return self._native.parameters()

    def load_parameters(self, flat: Weights) -> None:
        """Take over flat parameters."""
        self._native.load_parameters(flat)

    def values(self, observations: Float32Array) -> Float32Array:
        """Return the critic's value of each normalised observation: (n_rows,)."""
        return self._native.values(observations)

    def log_probabilities(self, observations: Float32Array, actions: Float32Array) -> Float32Array:
        """Return the log-probability (density) of each action as sampled: (n_rows,)."""
        return self._native.log_probabilities(observations, actions)

    def load_batch(self, batch: Batch) -> None:
        """Take the transitions of the next update."""
        if not len(batch.advantages):  # a rank without environments in this update
            return
        self._native.load_batch(
            batch.observations,
            batch.actions,
            batch.advantages,
            batch.value_targets,
            batch.log_probabilities,
        )

    def gradient(self, minibatch: Minibatch, accumulators: IntArray) -> None:
        """Overwrite `accumulators` with this rank's part of the minibatch's sums."""
        if not minibatch.rows.size:
            accumulators[:] = 0
            return
        self._native.gradient(minibatch.rows, minibatch.chunks, minibatch.n_total, accumulators)

    def apply(self, accumulators: IntArray, rate_factor: float) -> StepReport:
        """Step the optimiser with the sums over all ranks, at its learning rates x the factor."""
        step = self._native.apply(accumulators, rate_factor)
        return StepReport(
            step=_STEPS[step.status],
            policy_loss=step.policy_loss,
            value_loss=step.value_loss,
            entropy=step.entropy,
            approximate_kl=step.kl,
            clip_fraction=step.clip_fraction,
            actor_gradient_norm=step.actor_gradient_norm,
            critic_gradient_norm=step.critic_gradient_norm,
        )

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""
        return self._native.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self._native.load_state(dict(state))
