"""What a policy needs to know of an environment, read from its Gymnasium spaces."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np

from flowrl.config import ConfigError
from flowrl.networks import PolicyKind
from flowrl.trajectory import Float32Array

# Inputs and outputs of one network layer.
MOST_UNITS = 16384
# Magnitude of an action or a reward whose square still is a number after a sum.
LARGEST = 1e30


class UnsupportedEnvironment(ConfigError):
    """An environment that flowrl cannot train on, and why."""


class EnvironmentFault(RuntimeError):
    """An environment gave, in the middle of a run, what no agent can learn from."""


@dataclass(frozen=True)
class Interface:
    """Sizes and scales between one environment and its policy."""

    n_observations: int
    kind: PolicyKind
    n_choices: int  # action components (Gaussian) or discrete actions (categorical)
    n_actions: int  # columns of a stored action: n_choices, or 1 holding the index
    action_scale: Float32Array  # (n_actions,) environment action per policy action
    action_offset: Float32Array  # (n_actions,)
    episode_steps: int | None  # time limit [steps]
    agents_per_group: int  # agents that share one environment and step together


def read_interface(
    observation_space: gymnasium.Space[object],
    action_space: gymnasium.Space[object],
    episode_steps: int | None,
    agents_per_group: int = 1,
) -> Interface:
    """Read the sizes of one agent's spaces; the observation space is a flat box.

    Raises UnsupportedEnvironment for an action space that no policy of flowrl can serve.
    """
    n_observations = _flat_size(observation_space)
    if isinstance(action_space, gymnasium.spaces.Discrete):
        kind, n_choices, n_actions = PolicyKind.CATEGORICAL, int(action_space.n), 1
        scale, offset = np.ones(1, np.float32), np.zeros(1, np.float32)
    elif isinstance(action_space, gymnasium.spaces.Box):
        kind, n_choices = PolicyKind.GAUSSIAN, int(np.prod(action_space.shape))
        n_actions = n_choices
        scale, offset = _box_scale(action_space)
    else:
        raise UnsupportedEnvironment(
            f"the action space must be a Box or Discrete, got {action_space}; "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenAction"
        )
    if not 1 <= n_choices <= MOST_UNITS:
        raise UnsupportedEnvironment(
            f"the action space must have 1 to {MOST_UNITS} actions, got {action_space}"
        )
    return Interface(
        n_observations, kind, n_choices, n_actions, scale, offset, episode_steps, agents_per_group
    )


def _flat_size(space: gymnasium.Space[object]) -> int:
    try:
        size = gymnasium.spaces.flatdim(space)
    except (NotImplementedError, ValueError) as error:
        raise UnsupportedEnvironment(
            f"the observation space must have a fixed size, got {space}"
        ) from error
    if not 1 <= size <= MOST_UNITS:
        raise UnsupportedEnvironment(
            f"the observation space must have 1 to {MOST_UNITS} numbers, got {size} in {space}"
        )
    return size


def _box_scale(space: gymnasium.spaces.Box) -> tuple[Float32Array, Float32Array]:
    """Map the policy's [-1, 1] onto the box; an unbounded side keeps the unit scale."""
    low = space.low.astype(np.float64).ravel()
    high = space.high.astype(np.float64).ravel()
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    scale, offset = high / 2 - low / 2, high / 2 + low / 2
    if max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)) > LARGEST:
        raise UnsupportedEnvironment(
            f"the action space must have bounds within +-{LARGEST:g}, or none, got {space}"
        )
    return scale.astype(np.float32), offset.astype(np.float32)
