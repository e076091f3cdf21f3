"""What a policy needs to know of an environment, read from its Gymnasium spaces."""

from __future__ import annotations

from dataclasses import dataclass, replace

import gymnasium
import numpy as np

from flowrl.config import ConfigError
from flowrl.trajectory import Float32Array

# Inputs and outputs of one network layer.
MOST_UNITS = 16384
# Choices that a discretised box may have: combinations of the levels of all its components.
MOST_CHOICES = 4096
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
    is_box: bool  # the environment's actions are vectors, not choices
    n_choices: int  # action components, or number of actions to choose from
    n_actions: int  # columns of a stored action: n_choices, or 1 holding the index
    action_scale: Float32Array  # (n_env_actions,) environment action per policy action
    action_offset: Float32Array  # (n_env_actions,)
    action_table: Float32Array  # (n_choices, n_env_actions) a discrete choice's action; else empty
    episode_steps: int | None  # time limit [steps]
    agents_per_group: int  # agents that share one environment and step together

    @property
    def is_discrete(self) -> bool:
        """Tell whether a policy picks one of n_choices."""
        return len(self.action_table) > 0

    @property
    def n_env_actions(self) -> int:
        """Count the numbers of one action as the environment gets it."""
        return len(self.action_scale)

    def discretised(self, n_levels: int) -> Interface:
        """Return the interface of a policy that picks each component from equidistant levels.

        Raises UnsupportedEnvironment where that makes too many choices.
        """
        n_choices = n_levels**self.n_env_actions
        if n_choices > MOST_CHOICES:
            raise UnsupportedEnvironment(
                f"--dqn.n-levels must leave at most {MOST_CHOICES} choices, got {n_levels} levels "
                f"of {self.n_env_actions} actions, {n_choices}; lower it, or use --algo td3 or sac"
            )
        levels = np.linspace(-1.0, 1.0, n_levels)
        grid = np.meshgrid(*[levels] * self.n_env_actions, indexing="ij")
        table = np.stack([axis.ravel() for axis in grid], axis=1)
        actions = (self.action_offset + self.action_scale * table).astype(np.float32)
        return replace(self, n_choices=n_choices, n_actions=1, action_table=actions)


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
        is_box, n_choices, n_actions = False, int(action_space.n), 1
        scale, offset = np.ones(1, np.float32), np.zeros(1, np.float32)
        table = np.arange(min(n_choices, MOST_UNITS), dtype=np.float32)[:, None]
    elif isinstance(action_space, gymnasium.spaces.Box):
        is_box, n_choices = True, int(np.prod(action_space.shape))
        n_actions = n_choices
        scale, offset = _box_scale(action_space)
        table = np.empty((0, n_actions), np.float32)
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
        n_observations=n_observations,
        is_box=is_box,
        n_choices=n_choices,
        n_actions=n_actions,
        action_scale=scale,
        action_offset=offset,
        action_table=table,
        episode_steps=episode_steps,
        agents_per_group=agents_per_group,
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
