"""From a trajectory to what the update learns from: values, advantages and targets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flowrl.advantage import ends, gae
from flowrl.envs.moments import normalise
from flowrl.learners import Batch, Learner
from flowrl.policies import PolicyArrays
from flowrl.trajectory import Float32Array, Float64Array, Trajectory

# Columns of an environment's sums, from which every rank takes the same moments.
N_SUMS = 6


@dataclass(frozen=True)
class Assessment:
    """What one rank's critic thinks of its trajectory, on the networks that collected it."""

    batch: Batch  # rows in environment order; advantages not yet normalised
    sums: Float64Array  # (n_envs, N_SUMS) count, A, A^2, target, target^2, value


def assess(
    trajectory: Trajectory,
    learner: Learner,
    policy: PolicyArrays,
    bootstrap: str,
    gamma: float,
    gae_lambda: float,
) -> Assessment:
    """Compute log-probabilities, values, advantages and value targets of a trajectory.

    Observations are normalised as the policy saw them, so that its log-probabilities are those
    of the actions it drew.
    """
    filled = trajectory.filled
    observations = _normalised(trajectory.observations[filled], policy)
    actions = trajectory.actions[filled]
    values = np.zeros(filled.shape)
    values[filled] = learner.values(observations)
    following = _next_values(trajectory, values, learner, policy)
    advantages = gae(
        trajectory.rewards,
        values,
        following,
        ends(trajectory, bootstrap),
        trajectory.truncated,
        trajectory.lengths,
        gamma,
        gae_lambda,
    )
    targets = advantages + values
    batch = Batch(
        observations=observations,
        actions=actions,
        log_probabilities=learner.log_probabilities(observations, actions),
        advantages=advantages[filled].astype(np.float32),
        value_targets=targets[filled].astype(np.float32),
    )
    return Assessment(batch, _sums(trajectory, advantages, targets, values))


def _normalised(observations: Float32Array, policy: PolicyArrays) -> Float32Array:
    return normalise(
        observations, policy.observation_mean, policy.observation_scale, policy.observation_clip
    )


def _next_values(
    trajectory: Trajectory, values: Float64Array, learner: Learner, policy: PolicyArrays
) -> Float64Array:
    """Return V(s'): the next column's value, but the true last observation's at ends and cuts."""
    following = np.zeros_like(values)
    following[:, :-1] = values[:, 1:]
    last = trajectory.filled & (trajectory.ended | trajectory.cut)
    observations = _normalised(trajectory.next_observations[last], policy)
    following[last] = learner.values(observations)
    return following


def _sums(
    trajectory: Trajectory, advantages: Float64Array, targets: Float64Array, values: Float64Array
) -> Float64Array:
    """Sum per environment: a row depends on its environment alone, not on its rank's others."""
    sums = np.zeros((len(trajectory.lengths), N_SUMS))
    for env, n in enumerate(trajectory.lengths):
        a, target, value = advantages[env, :n], targets[env, :n], values[env, :n]
        sums[env] = (n, a.sum(), (a * a).sum(), target.sum(), (target * target).sum(), value.sum())
    return sums


@dataclass(frozen=True)
class Moments:
    """Moments of an update's advantages and targets over all ranks."""

    advantage_mean: float
    advantage_std: float
    value_mean: float
    explained_variance: float  # 1 - Var(target - value) / Var(target) [-]

    @classmethod
    def of(cls, sums: Float64Array) -> Moments:
        """Reduce the sums of all environments, in global order: (n_envs, N_SUMS)."""
        n, a, a2, target, target2, value = sums.sum(axis=0)
        variance = max(a2 / n - (a / n) ** 2, 0.0)
        target_variance = max(target2 / n - (target / n) ** 2, 0.0)
        explained = 1.0 - variance / target_variance if target_variance > 0.0 else float("nan")
        return cls(a / n, variance**0.5, value / n, explained)


def normalised_advantages(batch: Batch, moments: Moments) -> Batch:
    """Return the batch with its advantages scaled by the moments of the whole update."""
    # The constant keeps an update whose advantages are all equal at zero, not at infinity.
    scaled = (batch.advantages - moments.advantage_mean) / (moments.advantage_std + 1e-8)
    return replace(batch, advantages=scaled.astype(np.float32))
