"""Start programs as a user does: alone or under mpirun, each in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
Completed = subprocess.CompletedProcess[str]


def mpirun() -> list[str]:
    """Return the launcher of this environment, or skip the test."""
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        pytest.skip("no mpirun: install flowrl[mpi]")
    pytest.importorskip("mpi4py")
    return [found]


def python(
    arguments: Sequence[str], n_ranks: int = 0, timeout: float = 240.0, **variables: str
) -> Completed:
    """Run this Python with arguments, under mpirun where n_ranks is not zero."""
    launcher = [*mpirun(), "-n", str(n_ranks)] if n_ranks else []
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [*launcher, sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        cwd=ROOT,
        check=False,
    )


def module(name: str, *arguments: str, n_ranks: int = 0, **variables: str) -> Completed:
    """Run `python -m name` with arguments."""
    return python(["-m", name, *arguments], n_ranks, **variables)
