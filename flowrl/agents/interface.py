"""What every algorithm's agent offers: networks, their first weights and the policy that acts."""

from __future__ import annotations

from typing import Protocol, Self

from flowrl.config import RunConfig
from flowrl.envs.interface import Interface
from flowrl.networks import Layers, PolicyKind, Weights
from flowrl.policies import PolicyArrays, policy_arrays


class Networks(Protocol):
    """What is known of a run's networks, whoever computes them."""

    @property
    def kind(self) -> PolicyKind:
        """Return what the policy makes of its network's outputs."""

    @property
    def interface(self) -> Interface:
        """Return the interface as the policy sees it: a box may have become choices."""

    @property
    def actor(self) -> Layers:
        """Return the network that acts; its weights come first."""

    @property
    def critic(self) -> Layers:
        """Return all other networks in one table; no rows where there are none."""

    @property
    def observation_clip(self) -> float:
        """Return the bound of a normalised observation [standard deviations]."""


class Agent(Networks, Protocol):
    """The networks of one algorithm for one interface."""

    @classmethod
    def build(cls, config: RunConfig, interface: Interface) -> Self:
        """Build the networks; UnsupportedEnvironment where the algorithm does not fit."""

    def initial_parameters(self, seed: int) -> Weights:
        """Draw the flat parameters: the actor's, then the critic's."""


def make_policy(agent: Agent) -> PolicyArrays:
    """Allocate the compiled policy of an agent, with zero weights."""
    interface = agent.interface
    return policy_arrays(
        agent.actor,
        agent.kind,
        interface.n_observations,
        interface.action_scale,
        interface.action_offset,
        interface.action_table,
        agent.observation_clip,
    )
