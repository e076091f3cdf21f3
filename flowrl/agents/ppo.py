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
)
from flowrl.seeding import Stream, generator

# Small heads: the first policy is nearly the same everywhere (Andrychowicz et al. 2021).
HEAD_GAIN = 0.01


@dataclass(frozen=True)
class PpoAgent:
    """An actor and a critic for one interface."""

    kind: PolicyKind
    interface: Interface
    actor: Layers
    critic: Layers
    observation_clip: float

    @classmethod
    def build(cls, config: RunConfig, interface: Interface) -> PpoAgent:
        """Build the layer tables."""
        kind = PolicyKind.CATEGORICAL if interface.is_discrete else PolicyKind.GAUSSIAN
        make = categorical_actor if interface.is_discrete else gaussian_actor
        network = config.network.of(config.algo)
        actor = make(interface.n_observations, interface.n_choices, network.actor_width)
        value = critic(interface.n_observations, network.critic_width)
        return cls(kind, interface, actor, value, config.ppo.observation_clip)

    def initial_parameters(self, seed: int) -> Weights:
        """Draw the flat parameters: the actor's, then the critic's."""
        rng = generator(seed, Stream.INITIALISATION)
        return np.concatenate(
            [
                initial_weights(self.actor, rng, HEAD_GAIN),
                initial_weights(self.critic, rng, HEAD_GAIN),
            ]
        )
