"""Where this package keeps what takes long to make: start states, and its compiled code.

numba's own cache notices a change of the file that a function stands in, not of the constants and
functions it takes from other files. So the compiled code of every version of this package is kept
in a directory of its own, named by a hash of all its sources.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def cache_directory() -> Path:
    """Return where all this is kept: FLOWRL_CACHE, or the platform's cache directory."""
    chosen = os.environ.get("FLOWRL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "flowrl"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/flowrl").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "flowrl"


def compiled(forceinline: bool = False) -> Callable[[Function], Function]:
    """Return numba's decorator with the options of this package, and its cache directory.

    A NUMBA_CACHE_DIR of the user comes first; it then has to be another for another version.
    """

    def decorate(function: Function) -> Function:
        settings: Any = numba.core.config
        before = settings.CACHE_DIR
        directory = before or code_directory(cache_directory(), Path(__file__).parent)
        njit: Any = numba.njit(
            nogil=True, cache=bool(directory), error_model="numpy", forceinline=forceinline
        )
        # numba reads it here and never again: functions of other packages are not concerned.
        settings.CACHE_DIR = directory
        try:
            return cast(Function, njit(function))
        finally:
            settings.CACHE_DIR = before

    return decorate


@cache
def code_directory(root: Path, package: Path) -> str:
    """Return the directory of a package's compiled code, "" if it cannot be written.

    Without a directory numba would fall back on one beside the sources, which could be stale.
    """
    digest = hashlib.sha256()
    for path in sorted(package.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    directory = root / f"numba-shkadov-{digest.hexdigest()[:16]}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(directory) if os.access(directory, os.W_OK | os.X_OK) else ""
