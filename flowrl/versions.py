"""Tell what software a run was made with, without importing it."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path

PACKAGES = ("flowrl", "numpy", "numba", "gymnasium", "h5py", "mpi4py", "mpich", "openmpi", "torch")


def versions() -> dict[str, str]:
    """Return the version of Python and of every package present that shapes a run."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str:
    """Return the commit of the checkout this package runs from ("+" if changed), or ""."""
    here = Path(__file__).resolve().parent
    commit = _git(here, "rev-parse", "HEAD")
    # An installed package may lie inside somebody else's checkout: that commit says nothing.
    if not commit or not _git(here, "ls-files", "--", Path(__file__).name):
        return ""
    return commit + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def _git(directory: Path, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
