"""From what was composed to what a run can be told."""

from __future__ import annotations

from flowrl.composer.hardware import HardwareSpec, Kind
from flowrl.composer.placement import Placement
from flowrl.config.placement import Places


def runnable_places(placement: Placement, spec: HardwareSpec, is_prioritized: bool) -> Places:
    """Return the devices of a placement as `--placement` takes them.

    Rows composed for the memory of a GPU stay in the host's: no storage of ours is there yet.
    Without priorities there is no tree: the host draws.
    """
    host, storage = spec.host.name, placement.storage
    return Places(
        placement.replay_manager if is_prioritized else host,
        placement.learner,
        host if spec.device(storage).kind is Kind.CUDA else storage,
    )
