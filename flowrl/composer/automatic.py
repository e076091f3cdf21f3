"""Place a training on this machine's devices by measuring them: `--placement auto`."""

from __future__ import annotations

from dataclasses import replace

from flowrl.composer.accelerators import configured_accelerators
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.placement import Mode, compose
from flowrl.composer.profile import profile
from flowrl.composer.runnable import runnable_places
from flowrl.config import ConfigError, RunConfig


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
    # Rows that come between two updates.
    insert_size = max(1, round(1.0 / config.off_policy.updates_per_transition))
    accelerators = configured_accelerators(_measured(config, in_turn), insert_size)
    capacity = min(config.replay.capacity, config.n_transitions)
    workload = replace(accelerators.workload, capacity=capacity)
    spec, mode = HardwareSpec.detect(), Mode.STRICT if in_turn else Mode(config.parallel.iteration)
    costs = profile(spec, replace(accelerators, workload=workload), mode).costs
    placement = compose(spec, workload, costs, mode=mode)
    places = runnable_places(placement, spec, workload.is_prioritized)
    line = (
        f"placement: {places}, {1e6 * placement.t_itr_s:.3g} us an iteration by what was measured"
    )
    return replace(config, placement=str(places)), line


def _measured(config: RunConfig, in_turn: bool) -> RunConfig:
    """Return the run with its actors where they will be, and no file of its rows."""
    workers = 0 if in_turn else max(1, config.parallel.workers)
    return replace(
        config,
        parallel=replace(config.parallel, workers=workers),
        replay=replace(config.replay, storage="memory", file=None),
    )
