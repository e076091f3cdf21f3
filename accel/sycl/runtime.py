"""The oneAPI runtime out of its wheels: found, set up and loaded when it is first needed."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# In the order in which they need each other; see `accel.sycl` for why they are loaded by hand.
_LIBRARIES = (
    ("intel-cmplr-lib-rt", "libintlc.so.5"),
    ("intel-cmplr-lib-rt", "libimf.so"),
    ("intel-cmplr-lib-rt", "libirng.so"),
    ("intel-cmplr-lib-rt", "libsvml.so"),
    ("intel-opencl-rt", "libOpenCL.so.1"),
    ("intel-sycl-rt", "libsycl.so.8"),
)
_DRIVERS = {
    "cpu": ("intel-opencl-rt", "libintelocl.so"),
    "fpga_emulator": ("intel-opencl-fpga-emu-rt", "libintelocl_emu.so"),
}
# A kernel of a pipeline holds a thread of the emulator until its last item has passed, so there
# must be as many as kernels run at the same time; more would only wait.
N_EMULATOR_THREADS = 32


@cache
def load() -> None:
    """Load the libraries and the extension, so that `accel._sycl` can be imported.

    ImportError with a one-line reason where a wheel is missing or the extension was not built.
    """
    for variable, value in environment(os.environ).items():
        os.environ[variable] = value
    for distribution, name in _LIBRARIES:
        try:
            ctypes.CDLL(find(distribution, name))
        except OSError as error:
            raise ImportError(f"{name} of {distribution} does not load: {error}") from error
    try:
        import accel._sycl  # noqa: F401
    except ImportError as error:
        raise ImportError(f"accel._sycl was not built or does not load: {error}") from error


def environment(present: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to the environment before the first OpenCL call."""
    drivers = [find(*_DRIVERS["cpu"])]
    # The emulator is optional: the CPU device alone is useful.
    if installed(_DRIVERS["fpga_emulator"][0]):
        drivers.append(find(*_DRIVERS["fpga_emulator"]))
    chosen = present.get("OCL_ICD_FILENAMES", "")
    drivers = [path for path in drivers if path not in chosen.split(":")]
    return {
        "OCL_ICD_FILENAMES": ":".join(filter(None, [chosen, *drivers])),
        "DPCPP_CPU_NUM_CUS": present.get("DPCPP_CPU_NUM_CUS", str(N_EMULATOR_THREADS)),
    }


def check_threads(n_kernels: int) -> None:
    """Raise ValueError where concurrent kernels would wait for each other forever."""
    n_threads = int(os.environ["DPCPP_CPU_NUM_CUS"])
    if n_kernels > n_threads:
        raise ValueError(
            f"concurrent must be False for {n_kernels} kernels on {n_threads} threads "
            f"(DPCPP_CPU_NUM_CUS), got True"
        )


def installed(distribution: str) -> bool:
    """Say whether a wheel is installed."""
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def find(distribution: str, name: str) -> str:
    """Return the full path of a wheel's file; ImportError where it is missing.

    Without ".." in it: libsycl-jit derives the place of its headers from its own path.
    """
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"{distribution} is not installed: install the extra [sycl]") from None
    for file in files:
        if file.name == name:
            return str(Path(str(file.locate())).resolve())
    raise ImportError(f"{name} is not among the files of {distribution}: install [sycl] again")


@cache
def versions() -> str:
    """Return the versions of the wheels that compiled code depends on."""
    names = {distribution for distribution, _ in (*_LIBRARIES, *_DRIVERS.values())}
    return " ".join(
        f"{name}=={importlib.metadata.version(name)}" for name in sorted(names) if installed(name)
    )
