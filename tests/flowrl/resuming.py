"""What the tests of --resume share: runs are wound back to an earlier checkpoint, then resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np

from flowrl.results import Run
from tests.launch import Completed, module

PPO = ("--ppo.n-transitions-per-update", "160", "--ppo.n-epochs", "2", "--n-envs", "6",
       "--n-transitions", "960")  # fmt: skip
OFF_POLICY = ("--n-envs", "3", "--n-transitions", "600", "--network.actor-width", "16",
              "--network.critic-width", "16", "--replay.batch-size", "16",
              "--off-policy.learning-starts", "100",
              "--off-policy.report-interval", "100")  # fmt: skip
QUIET = ("--evaluation.no-at-end", "--progress.display", "none")
STATEFUL = ("--env", "tests.flowrl.counting:make_stateful")


def train(path: Path, *arguments: str, n_ranks: int = 0) -> Run:
    """Train to the end, with a checkpoint after three rows of results and at the end."""
    done = module("flowrl.train", *QUIET, "--checkpoint.interval", "3", "--checkpoint.keep", "9",
                  "--out", str(path), *arguments, n_ranks=n_ranks)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Run.open(path)


def shelf(path: Path) -> Path:
    """Return the directory of a run's checkpoints."""
    return path.with_name(f"{path.name}.checkpoints")


def wind_back(path: Path, to: Path) -> Path:
    """Copy a run of train() as if it had been killed after its last row, before the checkpoint."""
    shutil.copy(path, to)
    shutil.copytree(shelf(path), shelf(to))
    sorted(shelf(to).iterdir())[-1].unlink()
    with h5py.File(to, "r+") as file:
        file.attrs["status"] = "running"
    return to


def resume(path: Path, *arguments: str, n_ranks: int = 0) -> Completed:
    """Resume a run."""
    return module("flowrl.train", "--resume", str(path), "--progress.display", "none", *arguments,
                  n_ranks=n_ranks)  # fmt: skip


def assert_equal_arrays(one: Run, other: Run) -> None:
    """Compare two runs to the bit in everything but wall times."""
    for table in ("iterations", "episodes", "policy"):
        first, second = getattr(one, table), getattr(other, table)
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=f"{table}/{name}")
    assert one.seconds.keys() == other.seconds.keys()
    assert one.n_updates == other.n_updates
