"""From what was composed to what a run can be told."""

from __future__ import annotations

from flowrl.composer.hardware import HardwareSpec, Kind
from flowrl.composer.placement import Placement
from flowrl.config.placement import Places


def runnable_places(placement: Placement, spec: HardwareSpec) -> Places:
    """Return the devices of a placement as `--placement` takes them.

    Rows composed for the memory of a GPU stay in the host's: no storage of ours is there yet.
    """
    storage = placement.storage
    if spec.device(storage).kind is Kind.CUDA:
        storage = spec.host.name
    return Places(placement.replay_manager, placement.learner, storage)
