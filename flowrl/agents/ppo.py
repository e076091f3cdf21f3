"""The networks of PPO and their first weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flowrl.config import RunConfig
from flowrl.envs.interface import Interface
from flowrl.networks import (
    Layers,
    PolicyKind,
    Weights,
    categorical_actor,
    critic,
    gaussian_actor,
    initial_weights,
    n_weights,
)
from flowrl.policies import PolicyArrays, policy_arrays
from flowrl.seeding import Stream, generator

# Small heads: the first policy is nearly the same everywhere (Andrychowicz et al. 2021).
HEAD_GAIN = 0.01


@dataclass(frozen=True)
class PpoAgent:
    """An actor and a critic for one interface."""

    kind: PolicyKind
    actor: Layers
    critic: Layers

    @property
    def n_actor_weights(self) -> int:
        """Return how many of the flat parameters are the actor's; they come first."""
        return n_weights(self.actor)

    @classmethod
    def build(cls, config: RunConfig, interface: Interface) -> PpoAgent:
        """Build the layer tables."""
        make = gaussian_actor if interface.kind is PolicyKind.GAUSSIAN else categorical_actor
        actor = make(interface.n_observations, interface.n_choices, config.network.actor_width)
        value = critic(interface.n_observations, config.network.critic_width)
        return cls(interface.kind, actor, value)

    def initial_parameters(self, seed: int) -> Weights:
        """Draw the flat parameters: the actor's, then the critic's."""
        rng = generator(seed, Stream.INITIALISATION)
        return np.concatenate(
            [
                initial_weights(self.actor, rng, HEAD_GAIN),
                initial_weights(self.critic, rng, HEAD_GAIN),
            ]
        )

    def policy(self, interface: Interface, observation_clip: float) -> PolicyArrays:
        """Allocate the compiled policy."""
        return policy_arrays(
            self.actor,
            self.kind,
            interface.n_observations,
            interface.action_scale,
            interface.action_offset,
            observation_clip,
        )
