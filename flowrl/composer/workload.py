"""What the primitives of one off-policy training have to do in one iteration."""

from __future__ import annotations

from dataclasses import dataclass

from flowrl.networks import Layers


@dataclass(frozen=True)
class Workload:
    """Sizes of one training: all that the cost of an iteration depends on, besides the device."""

    algo: str  # "dqn", "ddpg", "td3" or "sac"; "torch": a trainer of the user's own
    n_observations: int
    n_actions: int  # numbers that a stored action takes
    actor: Layers  # the acting network; DQN's only one
    critic: Layers  # no layers for DQN
    batch_size: int  # rows of an update
    insert_size: int  # new rows of an iteration
    capacity: int  # rows of the replay buffer
    fanout: int  # children of a node of the sum tree
    is_prioritized: bool = True

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one stored transition: 4 (2 |s| + |a| + 2)."""
        return 4 * (2 * self.n_observations + self.n_actions + 2)
