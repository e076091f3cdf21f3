"""Which backends this build has and this machine runs, and the primitives by backend name."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from accel.interfaces import OffPolicyLearner, Options, SumTree

NAMES = ("cpu", "portable", "cuda", "sycl")
# The extension that a backend needs, and how to get it.
_EXTENSIONS = {
    "cpu": ("accel._native", "install accel again"),
    "portable": ("accel._native", "install accel again"),
    "cuda": ("accel._cuda", "install again where nvcc is on the PATH"),
    "sycl": ("accel._sycl", "install again with ACCEL_SYCL=1 and the extra [sycl]"),
}


class BackendError(RuntimeError):
    """Report, in one line, why a backend can't be used here."""


class Backend(Protocol):
    """What the package of a backend holds: `accel.cpu`, `accel.cuda` and so on."""

    def devices(self) -> list[str]:
        """Name the usable devices; ImportError or RuntimeError with the reason for none."""

    def SumTree(self, capacity: int, fanout: int = 16, *, device: str = "") -> SumTree:
        """Make a sum tree, see `accel.interfaces.SumTree`."""

    def OffPolicyLearner(
        self,
        options: Options,
        actor_layers: NDArray[np.int32] | None,
        critic_layers: NDArray[np.int32],
        *,
        seed: int = 0,
        device: str = "",
        **own: Any,
    ) -> OffPolicyLearner:
        """Make a learner, see `accel.interfaces.OffPolicyLearner`."""


@dataclass(frozen=True)
class Status:
    """What became of one backend, or of one of its devices."""

    backend: str
    device: str
    built: bool
    loadable: bool
    reason: str  # empty where it loads


def load(name: str) -> Backend:
    """Return a backend; raise BackendError with the reason where it can't be used here."""
    if name not in NAMES:
        raise BackendError(f"backend must be one of {', '.join(NAMES)}, got {name!r}")
    try:
        backend = cast(Backend, importlib.import_module(f"accel.{name}"))
        if backend.devices():
            return backend
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendError(_why(name, error)) from error
    raise BackendError(f"backend {name} finds no device")


def status(name: str) -> list[Status]:
    """Say of each device of a backend whether it can be used, or why none can."""
    built = _is_built(name)
    try:
        return [Status(name, device, built, True, "") for device in load(name).devices()]
    except BackendError as error:
        return [Status(name, "", built, False, str(error))]


def statuses() -> list[Status]:
    """Say of every backend and device whether it can be used."""
    return [line for name in NAMES for line in status(name)]


def _is_built(name: str) -> bool:
    return importlib.util.find_spec(_EXTENSIONS[name][0]) is not None


def _why(name: str, error: Exception) -> str:
    extension, remedy = _EXTENSIONS[name]
    if not _is_built(name):
        return f"{extension} was not built: {remedy}"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]
