"""Keep a study of devices: costs, throughput of all assignments and choices, in an HDF5 file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from flowrl.claim import temporary_beside
from flowrl.composer.costs import PRIMITIVES, SHARES, Origin
from flowrl.config import ConfigError
from flowrl.results import ResultError
from flowrl.trajectory import Float64Array

Texts = NDArray[np.object_]

CONTENT = "devices"  # attribute "study" of such a file
JOINT = " + "  # between the origins of a number that is made of several
_ORIGINS = frozenset(Origin)
_COMMAND = "python -m flowrl.bench devices"


@dataclass(frozen=True)
class DeviceStudy:
    """Costs of N networks at B batch sizes on D devices, and what the composer makes of them.

    NaN: was not measured; infinite seconds: the device can't do it.
    """

    devices: tuple[str, ...]
    emulated: tuple[bool, ...]  # an FPGA emulated on the processor
    networks: tuple[str, ...]
    batch_sizes: tuple[int, ...]  # ascending [rows]
    seconds: Mapping[str, Float64Array]  # "alone", "shared": (N, B, D, primitives) [s]
    spread: Mapping[str, Float64Array]  # the same shapes: interquartile ranges [s]
    origin: Mapping[str, Texts]  # the same shapes: measured, modelled or given
    n_iterations: NDArray[np.int64]  # (N, B, D), of which each time is the median; 0: none
    eps: Float64Array  # (N, B, D, D) by replay manager and learner [samples/s]
    eps_origin: Texts  # (N, B, D, D) origins of the seconds in it, joined by JOINT
    choice: NDArray[np.int64]  # (N, B, 2) devices chosen for replay manager and learner
    choice_here: NDArray[np.int64]  # the same shape: of devices that are not modelled only
    attributes: Mapping[str, str | int | float]  # settings and conditions

    def __post_init__(self) -> None:
        """Check shapes and values against each other; ResultError for what doesn't fit."""
        shape = len(self.networks), len(self.batch_sizes), len(self.devices)
        if 0 in shape:
            raise ResultError("a study must have networks, batch sizes and devices")
        for share in SHARES:
            for part in (self.seconds, self.spread, self.origin):
                _check_shape(share, part[share], (*shape, len(PRIMITIVES)))
            _check_origins(share, self.origin[share])
            _check_positive(share, self.seconds[share])
        _check_shape("n_iterations", self.n_iterations, shape)
        _check_shape("eps", self.eps, (*shape, len(self.devices)))
        _check_shape("eps_origin", self.eps_origin, self.eps.shape)
        _check_origins("eps_origin", self.eps_origin)
        _check_positive("eps", self.eps)
        for name, choice in (("choice", self.choice), ("choice_here", self.choice_here)):
            _check_shape(name, choice, (*shape[:2], 2))
            if not np.isin(choice, np.arange(len(self.devices))).all():
                raise ResultError(f"{name} must be numbers of devices")

    def origin_of(self, device: int, network: int, primitives: slice) -> Origin:
        """Return where a device's times come from, the least certain of several."""
        found = set(self.origin["alone"][network, :, device, primitives].flat)
        return next(o for o in (Origin.MODELLED, Origin.GIVEN, Origin.MEASURED) if o in found)


def _check_shape(name: str, values: NDArray[Any], shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ResultError(f"{name} must be of shape {shape}, got {values.shape}")


def _check_origins(name: str, values: Texts) -> None:
    found = {part for text in values.flat for part in str(text).split(JOINT)}
    if found - _ORIGINS:
        raise ResultError(f"origins of {name} must be {', '.join(Origin)}, got {sorted(found)}")


def _check_positive(name: str, values: Float64Array) -> None:
    if (values < 0).any():
        raise ResultError(f"{name} must be at least 0 everywhere, got {np.nanmin(values)}")


def write_study(path: Path, study: DeviceStudy) -> None:
    """Put the file in place as a whole; ConfigError where that fails."""
    temporary = temporary_beside(path)
    try:
        with h5py.File(temporary, "w") as file:
            file.attrs["study"] = CONTENT
            for name, value in study.attributes.items():
                file.attrs[name] = value
            _write_axes(file, study)
            _write_numbers(file, study)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"--out {path}: cannot be written: {error.strerror or error}") from None


def _write_axes(file: Any, study: DeviceStudy) -> None:
    for name, texts in (
        ("devices", study.devices),
        ("networks", study.networks),
        ("primitives", PRIMITIVES),
    ):
        _write(file, f"axes/{name}", _texts(texts), "", f"names of {name}")
    _write(file, "axes/emulated", np.array(study.emulated), "", "FPGA emulated on the processor")
    _write(file, "axes/batch_sizes", np.array(study.batch_sizes), "rows", "rows of an update")


def _write_numbers(file: Any, study: DeviceStudy) -> None:
    axes = "by network, batch size, device"
    for share in SHARES:
        where = "has replay manager and learner" if share == "shared" else "has one of the two"
        of = f"{axes} and primitive, on a device that {where}"
        text = f"median time of an iteration's part, {of}; nan: not measured, inf: impossible"
        _write(file, f"{share}/seconds", study.seconds[share], "s", text)
        text = f"interquartile range of seconds, {of}; 0 where not measured"
        _write(file, f"{share}/spread", study.spread[share], "s", text)
        text = f"measured, modelled or given, {of}"
        _write(file, f"{share}/origin", _texts(study.origin[share]), "", text)
    text = f"iterations behind a measured time, {axes}; 0: not measured"
    _write(file, "n_iterations", study.n_iterations, "iterations", text)
    pairs = "by network, batch size, device of the replay manager and of the learner"
    text = f"predicted throughput, {pairs}; nan: not known, 0: impossible"
    _write(file, "assignments/eps", study.eps, "samples/s", text)
    text = f"origins of the seconds that a throughput is made of, {pairs}"
    _write(file, "assignments/origin", _texts(study.eps_origin), "", text)
    text = "the composer's devices for replay manager and learner, by network and batch size"
    _write(file, "assignments/choice", study.choice, "index of axes/devices", text)
    text += "; of devices that are not modelled only"
    _write(file, "assignments/choice_here", study.choice_here, "index of axes/devices", text)


def _texts(values: Any) -> Any:
    return np.array(values, object).astype(h5py.string_dtype())


def _write(file: Any, name: str, values: Any, unit: str, description: str) -> None:
    dataset = file.create_dataset(name, data=values)
    dataset.attrs["unit"] = unit
    dataset.attrs["description"] = description


def read_study(path: Path) -> DeviceStudy:
    """Return what `write_study` wrote; ResultError in one line for any other file."""
    if not path.is_file():
        raise ResultError(f"{path}: no such file")
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("study") != CONTENT:
                raise ResultError("not a study of devices")
            return _read(file)
    except ResultError as error:
        raise ResultError(f"{path}: {error}; make one by {_COMMAND}") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, OSError) else f"incomplete or damaged ({error})"
        raise ResultError(f"{path}: not a study of devices: {reason}") from None


def _read(file: Any) -> DeviceStudy:
    def texts(name: str) -> Texts:
        return np.asarray(file[name].asstr()[()], object)

    def numbers(name: str) -> Float64Array:
        return np.asarray(file[name][()], np.float64)

    def whole(name: str) -> NDArray[np.int64]:
        return np.asarray(file[name][()], np.int64)

    return DeviceStudy(
        devices=tuple(texts("axes/devices")),
        emulated=tuple(bool(x) for x in file["axes/emulated"][()]),
        networks=tuple(texts("axes/networks")),
        batch_sizes=tuple(int(x) for x in file["axes/batch_sizes"][()]),
        seconds={share: numbers(f"{share}/seconds") for share in SHARES},
        spread={share: numbers(f"{share}/spread") for share in SHARES},
        origin={share: texts(f"{share}/origin") for share in SHARES},
        n_iterations=whole("n_iterations"),
        eps=numbers("assignments/eps"),
        eps_origin=texts("assignments/origin"),
        choice=whole("assignments/choice"),
        choice_here=whole("assignments/choice_here"),
        attributes={name: _plain(value) for name, value in file.attrs.items() if name != "study"},
    )


def _plain(value: Any) -> str | int | float:
    return value.item() if isinstance(value, np.generic) else str(value)


def joint_origin(origins: Any) -> str:
    """Return the distinct origins of the numbers that another is made of."""
    return JOINT.join(sorted({str(origin) for origin in origins}))
