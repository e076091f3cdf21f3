"""Place a training on this machine's devices by measuring them: `--placement auto`."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.agent_workload import agent_workload
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.placement import compose
from flowrl.composer.profile import measure_costs
from flowrl.composer.runnable import runnable_places
from flowrl.config import ConfigError, RunConfig
from flowrl.registry import EnvironmentSource, build_agent


def place(config: RunConfig, in_turn: bool) -> tuple[RunConfig, str]:
    """Return the configuration with the devices of the highest throughput, and a line about it.

    `in_turn`: nobody acts beside the learner. Measurements are kept: only the first run of its kind
    takes time. Raises ConfigError.
    """
    if config.learner != "native":
        raise ConfigError(
            f"--placement must name devices for --learner {config.learner}, got auto, which "
            "measures the native learner; use --placement cpu"
        )
    interface = EnvironmentSource(config.env, config.env_args).interface(config.n_envs)
    agent = cast(OffPolicyAgent, build_agent(config, interface))
    # Rows that come between two updates.
    insert_size = max(1, round(1.0 / config.off_policy.updates_per_transition))
    workload = agent_workload(config, agent, insert_size)
    workload = replace(workload, capacity=min(workload.capacity, config.n_transitions))
    spec, mode = HardwareSpec.detect(), "strict" if in_turn else config.parallel.iteration
    costs = measure_costs(spec, workload, interface, mode, in_turn=in_turn)
    placement = compose(spec, workload, costs, mode=mode)
    places = runnable_places(placement, spec, workload.is_prioritized)
    line = (
        f"placement: {places}, {1e6 * placement.t_itr_s:.3g} us an iteration by what was measured"
    )
    return replace(config, placement=str(places)), line
