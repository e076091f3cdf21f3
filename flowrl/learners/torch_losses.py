"""Losses of DQN, TD3 and SAC in torch; what they mean stands in `accel.interfaces`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from accel.interfaces import Dqn, Sac, Td3

_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))

Network = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class TorchBatch:
    """A batch of transitions, as `accel.interfaces.Batch`."""

    observations: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    next_observations: torch.Tensor
    discounts: torch.Tensor
    weights: torch.Tensor
    actor_observations: torch.Tensor  # from which the actor learns


@dataclass(frozen=True)
class CriticLoss:
    """Loss of the critics, and what was measured on the way."""

    loss: torch.Tensor  # ()
    td_errors: torch.Tensor  # (n,)
    mean_value: torch.Tensor  # ()


def dqn_targets(options: Dqn, network: Network, target: Network, batch: TorchBatch) -> torch.Tensor:
    """Return y = r + discount Q'(s', argmax Q) of each row: (n,)."""
    values = target(batch.next_observations)
    if options.double:
        best = network(batch.next_observations).argmax(dim=1, keepdim=True)
        following = values.gather(1, best)[:, 0]
    else:
        following = values.amax(dim=1)
    return batch.rewards + batch.discounts * following


def td3_targets(
    options: Td3, target_actor: Network, target_critic: Network, batch: TorchBatch
) -> torch.Tensor:
    """Return y = r + discount min_k Q'_k(s', mu'(s') + clipped noise) of each row: (n,)."""
    actions = target_actor(batch.next_observations)
    noise = options.target_noise * torch.randn_like(actions)
    noise = noise.clamp(-options.noise_clip, options.noise_clip)
    return _following(target_critic, batch, (actions + noise).clamp(-1.0, 1.0), 0.0)


def sac_targets(
    options: Sac, actor: Network, target_critic: Network, alpha: torch.Tensor, batch: TorchBatch
) -> torch.Tensor:
    """Return y = r + discount (min_k Q'_k(s', a') - alpha log pi(a')) of each row: (n,)."""
    actions, log_probability = squashed_normal(options, actor(batch.next_observations))
    return _following(target_critic, batch, actions, alpha * log_probability)


def _following(
    critic: Network, batch: TorchBatch, actions: torch.Tensor, cost: torch.Tensor | float
) -> torch.Tensor:
    values = critic(torch.cat([batch.next_observations, actions], dim=1)).amin(dim=1)
    return batch.rewards + batch.discounts * (values - cost)


def critic_loss(
    options: Dqn | Td3 | Sac, network: Network, batch: TorchBatch, targets: torch.Tensor
) -> CriticLoss:
    """Compare the values of the learnt actions with their targets."""
    if isinstance(options, Dqn):
        values = network(batch.observations).gather(1, batch.actions.long())
        delta = options.huber_delta
    else:
        values = network(torch.cat([batch.observations, batch.actions], dim=1))
        delta = float("inf")
    errors = values - targets[:, None]
    size = errors.abs()
    losses = 0.5 * errors.square()
    if delta < float("inf"):
        losses = torch.where(size <= delta, losses, delta * (size - 0.5 * delta))
    loss = (batch.weights[:, None] * losses).sum() / len(errors)
    return CriticLoss(loss, size.detach().mean(dim=1), values.detach().mean())


def squashed_normal(options: Sac, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw actions (n, n_actions) and return their log-probabilities (n,)."""
    mean, log_std = outputs.chunk(2, dim=1)
    log_std = log_std.clamp(*options.log_std_range)
    noise = torch.randn_like(mean)
    u = mean + log_std.exp() * noise
    # log(1 - tanh^2 u), accurate where tanh u rounds to 1
    log_slope = 2.0 * (np.log(2.0) - u - torch.nn.functional.softplus(-2.0 * u))
    terms = -0.5 * noise.square() - log_std - _HALF_LOG_TWO_PI - log_slope
    return u.tanh(), terms.sum(dim=1)
