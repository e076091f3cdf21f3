"""Write the device assignment matrix and the choice into an HDF5 file, group /composer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flowrl.composer.costs import PRIMITIVES, SHARES, Costs
from flowrl.composer.placement import Placement

GROUP = "composer"


class MatrixFileError(RuntimeError):
    """Report in one line why a file can't take the matrix."""


def holds_matrix(path: Path) -> bool:
    """Tell whether an HDF5 file has the group already; MatrixFileError if it is none."""
    try:
        with h5py.File(path, "r") as file:
            return GROUP in file
    except OSError as error:
        raise MatrixFileError(f"is not an HDF5 file that can be read ({error})") from None


def write_matrix(path: Path, costs: Costs, placement: Placement) -> None:
    """Write the group, instead of an older one; what else a file holds stays."""
    try:
        with h5py.File(path, "a") as file:
            if GROUP in file:
                del file[GROUP]
            group = file.create_group(GROUP)
            for name, value in _attributes(placement).items():
                group.attrs[name] = value
            _write_costs(group, costs)
            _write_assignments(group, len(costs), placement)
    except OSError as error:
        raise MatrixFileError(f"can't be written ({error})") from None


def _attributes(placement: Placement) -> dict[str, str | float]:
    return {
        "replay_manager": placement.replay_manager,
        "learner": placement.learner,
        "storage": placement.storage,
        "t_itr_s": placement.t_itr_s,
        "eps": placement.eps,
        "traffic_s": placement.traffic_s,
        "mode": str(placement.mode),
        "metric": str(placement.metric),
        "tie": placement.tie,
    }


def _write_costs(group: Any, costs: Costs) -> None:
    for name, names in (("devices", tuple(costs)), ("primitives", PRIMITIVES)):
        _write(group, name, np.array(names, h5py.string_dtype()), "", f"names of {name}")
    for share in SHARES:
        # (n_devices, n_primitives)
        numbers = [
            [getattr(getattr(device, share), primitive) for primitive in PRIMITIVES]
            for device in costs.values()
        ]
        where = "a device that has both parts" if share == "shared" else "a device that has one"
        seconds = np.array([[number.value for number in row] for row in numbers])
        spread = np.array([[number.spread for number in row] for row in numbers])
        origins = np.array([[number.origin for number in row] for row in numbers], object)
        _write(group, f"{share}/seconds", seconds, "s", f"time of each primitive on {where}")
        _write(group, f"{share}/spread", spread, "s", "interquartile range, 0 if not measured")
        origins = origins.astype(h5py.string_dtype())
        _write(group, f"{share}/origin", origins, "", "measured, modelled or given")


def _write_assignments(group: Any, n_devices: int, placement: Placement) -> None:
    shape = n_devices, n_devices
    pairs = placement.assignments
    seconds = np.array([pair.t_itr_s for pair in pairs]).reshape(shape)
    eps = np.array([pair.eps for pair in pairs]).reshape(shape)
    pair_text = "by the devices of replay manager and learner"
    _write(group, "assignments/t_itr", seconds, "s", f"time of an iteration, {pair_text}")
    _write(group, "assignments/eps", eps, "samples/s", f"throughput, {pair_text}")


def _write(group: Any, name: str, values: Any, unit: str, description: str) -> None:
    dataset = group.create_dataset(name, data=values)
    dataset.attrs["unit"] = unit
    dataset.attrs["description"] = description
