"""Who unrolls how many steps before which update.

One *collection* is what all environments unroll on one policy; it feeds one update, or, in the
flawed baselines that unroll whole episodes in more environments than an update needs, several
successive ones. Transitions are counted exactly: the last update may be shorter, never longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from flowrl.config import ConfigError
from flowrl.trajectory import IntArray


class ScheduleError(ConfigError):
    """Numbers of environments, steps and transitions that do not fit together."""


@dataclass(frozen=True)
class Collection:
    """One unroll of all environments and the updates made from it."""

    lengths: IntArray  # (n_envs,) steps each environment unrolls
    updates: tuple[IntArray, ...]  # global indices of the environments that feed each update

    @property
    def n_transitions(self) -> int:
        """Count the transitions of the collection."""
        return int(self.lengths.sum())


@dataclass(frozen=True)
class Schedule:
    """All collections of a run, from a few numbers; agents of one group step together."""

    n_envs: int
    n_transitions: int
    n_transitions_per_update: int
    bootstrap: str
    episode_steps: int | None
    agents_per_group: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be met exactly."""
        group = self.agents_per_group
        for name in ("n_envs", "n_transitions", "n_transitions_per_update"):
            value = getattr(self, name)
            if value % group:
                raise ScheduleError(
                    f"{_OPTION[name]} must be a multiple of the {group} agents that step together, "
                    f"got {value}; the nearest is {max(group, round(value / group) * group)}"
                )
        if self.bootstrap != "pt":
            self._check_whole_episodes()

    def _check_whole_episodes(self) -> None:
        if self.episode_steps is None:
            raise ScheduleError(
                f"--bootstrap {self.bootstrap} unrolls whole episodes, but the environment names "
                "no time limit (spec.max_episode_steps); use --bootstrap pt"
            )
        needed = self.episode_steps * self.agents_per_group
        if self.n_transitions_per_update % needed:
            raise ScheduleError(
                f"--ppo.n-transitions-per-update must be a multiple of {needed} (whole episodes of "
                f"{self.episode_steps} steps) with --bootstrap {self.bootstrap}, got "
                f"{self.n_transitions_per_update}; choose a multiple or use --bootstrap pt"
            )

    def collections(self, n_made: int = 0) -> Iterator[Collection]:
        """Yield the collections after so many transitions in order until all are used."""
        left = (self.n_transitions - n_made) // self.agents_per_group
        if left == 0:
            return
        collection = self._next(left)
        size = collection.n_transitions // self.agents_per_group
        while left > 0:
            if left < size:  # all but the last one are alike
                collection = self._next(left)
                size = collection.n_transitions // self.agents_per_group
            left -= size
            yield collection

    def outline(self) -> tuple[Collection, Collection, int]:
        """Return the first and the last collection and the number of updates, by arithmetic."""
        first = self._next(self.n_transitions // self.agents_per_group)
        n_whole, rest = divmod(self.n_transitions, first.n_transitions)
        if not rest:
            return first, first, n_whole * len(first.updates)
        last = self._next(rest // self.agents_per_group)
        return first, last, n_whole * len(first.updates) + len(last.updates)

    def _next(self, left: int) -> Collection:
        """Return the next collection where `left` steps of all groups together are to be made."""
        return self._partial(left) if self.bootstrap == "pt" else self._whole(left)

    def _partial(self, left: int) -> Collection:
        """Spread one update's transitions evenly over all environments."""
        n_groups = self.n_envs // self.agents_per_group
        due = min(self.n_transitions_per_update // self.agents_per_group, left)
        lengths = due // n_groups + (np.arange(n_groups) < due % n_groups)
        return self._collection(lengths, 1)

    def _whole(self, left: int) -> Collection:
        """Deal whole episodes to the environments; enough for one update or one for each."""
        steps = cast(int, self.episode_steps)  # checked above
        n_groups = self.n_envs // self.agents_per_group
        per_update = self.n_transitions_per_update // self.agents_per_group // steps
        due = min(max(per_update, n_groups) * steps, left)
        episodes = np.full(-(-due // steps), steps)
        episodes[-1] -= len(episodes) * steps - due
        lengths = np.zeros(n_groups, np.int64)
        np.add.at(lengths, np.arange(len(episodes)) % n_groups, episodes)
        return self._collection(lengths, -(-len(episodes) // per_update))

    def _collection(self, group_lengths: IntArray, n_updates: int) -> Collection:
        # Strided, so that every rank has a share of each successive update.
        active = np.flatnonzero(group_lengths)
        updates = tuple(self._agents(active[first::n_updates]) for first in range(n_updates))
        lengths = np.repeat(group_lengths, self.agents_per_group).astype(np.int64)
        return Collection(lengths, updates)

    def _agents(self, groups: IntArray) -> IntArray:
        members = np.arange(self.agents_per_group)
        return (groups[:, None] * self.agents_per_group + members).ravel()


_OPTION = {
    "n_envs": "--n-envs",
    "n_transitions": "--n-transitions",
    "n_transitions_per_update": "--ppo.n-transitions-per-update",
}


def share(n_envs: int, n_ranks: int, agents_per_group: int = 1) -> IntArray:
    """Return how many environments each rank owns, whole groups only, in rank order: (n_ranks,)."""
    n_groups = n_envs // agents_per_group
    groups = n_groups // n_ranks + (np.arange(n_ranks) < n_groups % n_ranks)
    return groups.astype(np.int64) * agents_per_group
