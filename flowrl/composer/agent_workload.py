"""Say what training one of the project's algorithms takes."""

from __future__ import annotations

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.workload import Workload
from flowrl.config import RunConfig


def agent_workload(config: RunConfig, agent: OffPolicyAgent, insert_size: int) -> Workload:
    """Return the sizes of a configured training with insert_size new rows to an update."""
    return Workload(
        algo=config.algo,
        n_observations=agent.interface.n_observations,
        n_actions=agent.interface.n_actions,
        actor=agent.actor,
        critic=agent.critic,
        batch_size=config.replay.batch_size,
        insert_size=insert_size,
        capacity=config.replay.capacity,
        fanout=config.replay.fanout,
        is_prioritized=config.replay.priorities == "prioritized",
    )
