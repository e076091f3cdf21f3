"""Off-policy learners: one whole learning step on drawn rows, whatever computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from accel.backends import load
from accel.interfaces import Batch, Dqn, LearningStep, Sac
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.networks import Weights, n_weights
from flowrl.replay.storage import Rows
from flowrl.trajectory import Float32Array, IntArray


class OffPolicyLearner(Protocol):
    """Learns an agent's networks from rows of a replay buffer."""

    def learn(
        self,
        rows: Rows,
        indices: IntArray,
        weights: Float32Array,
        actor_observations: Float32Array | None = None,
    ) -> LearningStep:
        """Make one step on the rows at `indices`, with importance weights (n,).

        The actor learns from `actor_observations` (n, n_observations) if given.
        """

    def actor_weights(self) -> Weights:
        """Return a copy of the acting network's weights."""

    def parameters(self) -> Weights:
        """Return a copy of the actor's weights, then the critics'."""

    def load_parameters(self, flat: Weights) -> None:
        """Take over the actor's weights and the critics'; the targets become equal to them."""

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""


class NativeOffPolicyLearner:
    """The fused learner of a backend of `accel`."""

    def __init__(
        self,
        agent: OffPolicyAgent,
        seed: int,
        backend: str = "cpu",
        n_threads: int = 1,
        device: str = "",
    ) -> None:
        """Make a learner on a backend, on one of its devices; its noise comes from the seed.

        On the processor each thread takes its part of a batch: other sums, so other bits.
        """
        is_dqn = isinstance(agent.options, Dqn)
        self._n_actor = n_weights(agent.actor)
        self._n_networks = self._n_actor + n_weights(agent.critic)
        self._options = agent.options
        parts: dict[str, Any] = {}
        if backend == "cpu":
            parts = {"n_pipelines": n_threads, "n_threads": n_threads}
        self._learner = load(backend).OffPolicyLearner(
            agent.options,
            None if is_dqn else agent.actor,
            agent.actor if is_dqn else agent.critic,
            seed=seed,
            device=device,
            **parts,
        )

    def learn(
        self,
        rows: Rows,
        indices: IntArray,
        weights: Float32Array,
        actor_observations: Float32Array | None = None,
    ) -> LearningStep:
        """Make one step on the rows at `indices`, with importance weights (n,)."""
        batch = Batch(
            rows.observations,
            rows.actions,
            rows.rewards,
            rows.next_observations,
            rows.discounts,
            weights,
        )
        learner = self._learner
        if actor_observations is None:
            return learner.learn(batch, indices)
        learner.apply_critic(learner.critic_gradient(batch, indices))
        return learner.apply_actor(learner.actor_gradient(actor_observations))

    def actor_weights(self) -> Weights:
        """Return a copy of the acting network's weights."""
        return self._learner.parameters()[: self._n_actor]

    def parameters(self) -> Weights:
        """Return a copy of the actor's weights, then the critics'."""
        return self._learner.parameters()[: self._n_networks]

    def load_parameters(self, flat: Weights) -> None:
        """Take over the actor's weights and the critics'; the targets become equal to them."""
        if isinstance(self._options, Sac):
            log_alpha = np.float32(np.log(self._options.initial_temperature))
            flat = np.append(flat, log_alpha)
        self._learner.load_parameters(flat)

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""
        return self._learner.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self._learner.load_state(state)
