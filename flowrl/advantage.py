"""Generalised advantage estimation over partial trajectories.

    delta_t = r_t + gamma (1 - end_t) V(s'_t) - V(s_t)
    A_t     = delta_t + gamma lambda (1 - end_t)(1 - truncated_t)(1 - cut_t) A_{t+1}

after Schulman et al. 2016 (eq. 16), with the ends of Viquerat & Hachem 2023: `end` is where the
return stops, `truncated` where only the clock stopped the episode and `cut` where the partial
trajectory stops while its episode goes on. s'_t is the true observation after the action.
"""

from __future__ import annotations

import numba
import numpy as np

from flowrl.trajectory import BoolArray, Float64Array, IntArray, Trajectory


def ends(trajectory: Trajectory, bootstrap: str) -> BoolArray:
    """Mark the transitions whose target has no continuation: (n_envs, n_steps).

    `regular` takes a time limit for the end of the task; `eoe` and `pt` only a true termination.
    """
    if bootstrap == "regular":
        return trajectory.ended
    return trajectory.terminated


@numba.njit(cache=True, nogil=True)
def gae(
    rewards: Float64Array,
    values: Float64Array,
    next_values: Float64Array,
    ends: BoolArray,
    truncated: BoolArray,
    lengths: IntArray,
    gamma: float,
    gae_lambda: float,
) -> Float64Array:
    """Return the advantages, (n_envs, n_steps); columns past an environment's length stay zero.

    All arrays are (n_envs, n_steps) but `lengths`, (n_envs,). The last filled transition of each
    row is the cut: nothing flows back over it but its own bootstrap.
    """
    advantages = np.zeros_like(rewards)
    for env in range(rewards.shape[0]):
        following = 0.0
        for t in range(lengths[env] - 1, -1, -1):
            target = rewards[env, t]
            if not ends[env, t]:
                target += gamma * next_values[env, t]
            if ends[env, t] or truncated[env, t]:
                following = 0.0
            following = target - values[env, t] + gamma * gae_lambda * following
            advantages[env, t] = following
    return advantages
