"""What must be settled before NumPy and numba load: threads, and where compiled code is kept.

Import this first in every command.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_PACKAGES = ("flowrl", "shkadov")


def cache_root() -> Path:
    """Return the user's cache directory for this project."""
    # As shkadov.cache does; importing that here would load NumPy and numba.
    if own := os.environ.get("FLOWRL_CACHE"):
        return Path(own).expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches/flowrl").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "flowrl"


def _digest() -> str:
    """Hash every source file that numba may compile from."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                source = path.read_bytes()
                if package != "flowrl" or b"numba" in source:
                    digest.update(str(path).encode() + source)
    return digest.hexdigest()[:16]


def _settle() -> None:
    # Ranks are the parallelism here: N ranks of N threads each would fight for the cores.
    for variable in _THREADS:
        os.environ.setdefault(variable, "1")
    # numba checks a function's own file for changes, not those of the functions it calls.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_root() / f"numba-{_digest()}"))


def has_compiled_code() -> bool:
    """Tell whether an earlier process has left its compiled code for this one."""
    return any(Path(os.environ["NUMBA_CACHE_DIR"]).glob("*flowrl*/*.nbc"))


_settle()
