"""Off-policy training whose actors are MPI ranks: exact counts, and no rank dies alone."""

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module, python

pytestmark = pytest.mark.mpi

SMALL = ("--algo", "td3", "--network.actor-width", "16", "--network.critic-width", "16",
         "--replay.batch-size", "16", "--off-policy.learning-starts", "60",
         "--off-policy.report-interval", "100", "--n-envs", "5", "--n-transitions", "403",
         "--evaluation.no-at-end", "--progress.display", "none")  # fmt: skip
COUNTING = ("--env", "tests.flowrl.counting:make")


def train(tmp_path, name, *arguments, n_ranks=0):
    path = tmp_path / f"{name}.h5"
    done = module("flowrl.train", *SMALL, *arguments, "--out", str(path), n_ranks=n_ranks)
    assert done.returncode == 0, done.stderr
    return Run.open(path)


@pytest.mark.parametrize(
    ("n_ranks", "n_envs", "arguments"),
    [
        (2, 5, ()),
        (4, 5, ("--parallel.setting", "relayed", "--off-policy.steps-per-collection", "3")),
        (4, 2, ()),  # one rank has no environment
    ],
)
def test_counts_are_exact(tmp_path, n_ranks, n_envs, arguments):
    arguments = (*COUNTING, *arguments, "--n-envs", str(n_envs))
    run = train(tmp_path, "run", *arguments, n_ranks=n_ranks)
    assert run.attributes.status == "finished"
    assert run.iterations["transitions"][-1] == 403
    assert run.iterations["updates"][-1] == 403 - 60
    assert run.iterations["update_ratio"][-1] == 1.0
    assert run.iterations["replay_size"][-1] == 403
    # Each environment's episodes are whole: 5, 5 and 4 steps, again and again.
    terminated = run.episodes["terminated"].astype(bool)
    assert set(run.episodes["length"][terminated]) == {4}
    assert set(run.episodes["length"][~terminated]) == {5}
    assert set(run.episodes["env"]) == set(range(n_envs))


def test_without_a_lag_ranks_give_the_bits_of_one_process(tmp_path):
    arguments = ("--env", "Pendulum-v1", "--replay.priorities", "prioritized")
    alone = train(tmp_path, "alone", *arguments)
    ranks = train(tmp_path, "ranks", *arguments, "--parallel.lag", "0", n_ranks=3)
    for table in ("iterations", "episodes", "policy"):
        for name, values in getattr(alone, table).items():
            np.testing.assert_array_equal(values, getattr(ranks, table)[name], err_msg=name)


def failing(tmp_path, n_ranks, *arguments):
    """Train what fails; it must end by itself, and soon: `python` raises after 60 s."""
    arguments = (*SMALL, *arguments, "--out", str(tmp_path / "run.h5"))
    done = python(["-m", "flowrl.train", *arguments], n_ranks, timeout=60.0)
    assert done.returncode != 0
    return done.stderr


def failing_env(rank, how, at="step"):
    arguments = (f"rank={rank}", f"how={how}", f"at={at}")
    return ("--env", "tests.flowrl.counting:fails", "--env-args", *arguments)


def test_an_exception_of_an_actor_ends_the_job_with_its_traceback(tmp_path):
    said = failing(tmp_path, 4, *failing_env(2, "break"))
    assert "rank 2 of 4" in said
    assert "ZeroDivisionError: the solver broke" in said


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_a_killed_actor_ends_the_job(tmp_path, n_ranks):
    failing(tmp_path, n_ranks, *failing_env(1, "SIGKILL"))


def test_an_error_of_root_ends_the_actors(tmp_path):
    said = failing(tmp_path, 3, "--env", "tests.flowrl.counting:far_too_large")
    assert "10 updates in a row were not finite" in said
    assert Run.open(tmp_path / "run.h5").attributes.status == "failed"


def test_an_exception_of_root_ends_the_job_with_its_traceback(tmp_path):
    # Root makes environments, too, to score the policy when all actors have done their work.
    said = failing(tmp_path, 2, "--env", "tests.flowrl.counting:fails_held_out",
                   "--evaluation.at-end")  # fmt: skip
    assert "rank 0 of 2" in said
    assert "ZeroDivisionError: the solver broke" in said


def test_workers_beside_ranks_are_refused_in_one_line(tmp_path):
    said = failing(tmp_path, 2, *COUNTING, "--parallel.workers", "1")
    assert said.strip().count("\n") == 0
    assert "--parallel.workers must be 0" in said
