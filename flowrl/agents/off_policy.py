"""The networks of DQN, DDPG, TD3 and SAC, and how each explores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from accel.interfaces import Adam, Dqn, Options, Sac, Td3
from flowrl.config import DqnConfig, NetworkConfig, RunConfig
from flowrl.envs.interface import Interface, UnsupportedEnvironment
from flowrl.exploration import NoiseSource, epsilon_greedy_noise, gaussian_noise, own_noise
from flowrl.networks import (
    NO_LAYERS,
    Activation,
    Layers,
    PolicyKind,
    Weights,
    perceptron,
    twins,
    uniform_weights,
)
from flowrl.seeding import Stream, generator


@dataclass(frozen=True)
class OffPolicyAgent:
    """Networks of one off-policy algorithm, what its learner is told, and its exploration."""

    kind: PolicyKind
    interface: Interface
    actor: Layers
    critic: Layers
    observation_clip: float
    options: Options

    @classmethod
    def build(cls, config: RunConfig, interface: Interface) -> Self:
        """Build the layer tables; UnsupportedEnvironment where the algorithm does not fit."""
        if config.algo == "dqn":
            return cls(*_dqn(config, interface))
        _require_box(config.algo, interface)
        return cls(*(_sac if config.algo == "sac" else _deterministic)(config, interface))

    def initial_parameters(self, seed: int) -> Weights:
        """Draw the flat parameters: the actor's, then the critics'."""
        rng = generator(seed, Stream.INITIALISATION)
        return np.concatenate([uniform_weights(self.actor, rng), uniform_weights(self.critic, rng)])


_Fields = tuple[PolicyKind, Interface, Layers, Layers, float, Options]


def _require_box(algo: str, interface: Interface) -> None:
    if interface.is_discrete:
        raise UnsupportedEnvironment(
            f"--algo {algo} must have continuous actions, got a choice of {interface.n_choices}; "
            "use --algo dqn or ppo"
        )


def _dqn(config: RunConfig, interface: Interface) -> _Fields:
    dqn = config.dqn
    if interface.is_box:
        interface = interface.discretised(dqn.n_levels)
    width = _widths(config).critic_width
    network = perceptron(
        interface.n_observations, (width, width), interface.n_choices, Activation.RELU
    )
    options = Dqn(
        Adam(dqn.learning_rate, max_gradient_norm=dqn.max_gradient_norm),
        dqn.double,
        dqn.huber_delta,
        dqn.target_rate,
        dqn.target_interval,
    )
    clip = config.off_policy.observation_clip
    return PolicyKind.CATEGORICAL, interface, network, NO_LAYERS, clip, options


def _deterministic(config: RunConfig, interface: Interface) -> _Fields:
    n = interface.n_actions
    widths = _widths(config)
    actor = perceptron(
        interface.n_observations, (widths.actor_width,) * 2, n, Activation.RELU, Activation.TANH
    )
    n_critics = 1 if config.algo == "ddpg" else 2
    critic = twins(interface.n_observations + n, widths.critic_width, n_critics)
    clip = config.off_policy.observation_clip
    return PolicyKind.DETERMINISTIC, interface, actor, critic, clip, _td3_options(config)


def _td3_options(config: RunConfig) -> Td3:
    if config.algo == "ddpg":
        own = config.ddpg
        rates = Adam(own.actor_learning_rate), Adam(own.critic_learning_rate)
        return Td3(*rates, 0.0, 0.0, 1, own.target_rate)
    td3 = config.td3
    return Td3(
        Adam(td3.actor_learning_rate),
        Adam(td3.critic_learning_rate),
        td3.target_noise,
        td3.noise_clip,
        td3.policy_delay,
        td3.target_rate,
    )


def _sac(config: RunConfig, interface: Interface) -> _Fields:
    n, sac, widths = interface.n_actions, config.sac, _widths(config)
    actor = perceptron(interface.n_observations, (widths.actor_width,) * 2, 2 * n, Activation.RELU)
    critic = twins(interface.n_observations + n, widths.critic_width, 2)
    options = Sac(
        sac.target_entropy * n,
        Adam(sac.actor_learning_rate),
        Adam(sac.critic_learning_rate),
        Adam(sac.temperature_learning_rate),
        sac.initial_temperature,
        target_rate=sac.target_rate,
    )
    clip = config.off_policy.observation_clip
    return PolicyKind.SQUASHED, interface, actor, critic, clip, options


def _widths(config: RunConfig) -> NetworkConfig:
    return config.network.of(config.algo)


def exploration(config: RunConfig, transitions: int) -> float:
    """Return how much noise is added to the policy after so many transitions.

    Epsilon for DQN, falling linearly over a share of the run; the standard deviation of the noise
    for DDPG and TD3; 0 for SAC, whose policy is noise enough.
    """
    if config.algo == "dqn":
        return _epsilon(config.dqn, transitions / config.n_transitions)
    return {"ddpg": config.ddpg.exploration_noise, "td3": config.td3.exploration_noise}.get(
        config.algo, 0.0
    )


def reported_exploration(config: RunConfig, transitions: int) -> float:
    """Return `exploration`, NaN where the policy itself is all the noise there is (SAC)."""
    return float("nan") if config.algo == "sac" else exploration(config, transitions)


def _epsilon(dqn: DqnConfig, progress: float) -> float:
    fallen = min(progress / dqn.exploration_share, 1.0)
    return dqn.first_epsilon + fallen * (dqn.final_epsilon - dqn.first_epsilon)


def exploring_noise(kind: PolicyKind, amount: float) -> NoiseSource:
    """Return the noise of an exploration, see `exploration`."""
    if kind is PolicyKind.CATEGORICAL:
        return epsilon_greedy_noise(amount)
    if kind is PolicyKind.DETERMINISTIC:
        return gaussian_noise(amount)
    return own_noise(kind)
