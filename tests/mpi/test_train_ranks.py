"""One experiment on any number of ranks: the same bits, and no rank dies alone."""

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module, python

pytestmark = pytest.mark.mpi

SHORT = ("--n-transitions", "1200", "--ppo.n-transitions-per-update", "480", "--ppo.n-epochs", "4",
         "--evaluation.no-at-end", "--progress.display", "none")  # fmt: skip


def train(tmp_path, name, *arguments, n_ranks=0):
    path = tmp_path / f"{name}.h5"
    done = module("flowrl.train", *SHORT, *arguments, "--out", str(path), n_ranks=n_ranks)
    assert done.returncode == 0, done.stderr
    return Run.open(path)


def assert_same_bits(one, other):
    for table in ("iterations", "episodes", "policy"):
        first, second = getattr(one, table), getattr(other, table)
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=f"{table}/{name}")


# The ranks on which each case must give the bits of one process.
CASES = {
    "film": ((), (1, 2, 4, 8)),
    "film, odd": (("--n-envs", "7", "--bootstrap", "pt"), (2, 4)),
    # Two films of three jets: some of four ranks have no film at all.
    "separable film": (("--env", "shkadov:ShkadovSeparable-v0", "--env-args", "n_jets=3",
                        "--n-envs", "6"), (2, 4)),
    "whole episodes": (("--n-envs", "4", "--bootstrap", "eoe", "--n-transitions", "2000",
                        "--ppo.n-transitions-per-update", "800"), (2, 4)),
    "python": (("--env", "tests.flowrl.counting:make", "--n-envs", "6"), (2, 4)),
    "discrete": (("--env", "tests.flowrl.counting:make", "--env-args", "discrete=true",
                  "--n-envs", "6"), (2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_training_is_the_same_to_the_bit_on_any_number_of_ranks(tmp_path, case):
    arguments, numbers = CASES[case]
    alone = train(tmp_path, "alone", *arguments)
    for n_ranks in numbers:
        assert_same_bits(alone, train(tmp_path, str(n_ranks), *arguments, n_ranks=n_ranks))


def test_torch_learner_is_equal_up_to_rounding(tmp_path):
    runs = [train(tmp_path, str(n), "--learner", "torch", n_ranks=n) for n in (0, 2)]
    # The first rollout is equal to the bit; the update's sums differ in their order.
    np.testing.assert_allclose(
        runs[0].policy["weights"], runs[1].policy["weights"], rtol=0, atol=2e-3
    )


def failing(tmp_path, n_ranks, *arguments):
    """Train what fails; it must end by itself, and soon: `python` raises after 60 s."""
    arguments = (*SHORT, "--out", str(tmp_path / "run.h5"), *arguments)
    done = python(["-m", "flowrl.train", *arguments], n_ranks, timeout=60.0)
    assert done.returncode != 0
    return done.stderr


def failing_env(rank, how, at):
    arguments = (f"rank={rank}", f"how={how}", f"at={at}")
    return ("--env", "tests.flowrl.counting:fails", "--env-args", *arguments)


@pytest.mark.parametrize(
    ("rank", "at", "n_ranks"),
    [(-1, "step", 2), (-1, "step", 4), (0, "step", 2), (0, "make", 2), (1, "make", 2)],
)
def test_an_exception_on_any_rank_ends_the_job_with_its_traceback(tmp_path, rank, at, n_ranks):
    said = failing(tmp_path, n_ranks, *failing_env(rank, "break", at))
    assert f"rank {rank % n_ranks} of {n_ranks}" in said
    assert "ZeroDivisionError: the solver broke" in said


@pytest.mark.parametrize(
    ("rank", "how", "at"),
    [
        (0, "sys.exit", "step"),
        (1, "sys.exit", "step"),
        (0, "sys.exit", "make"),
        (1, "sys.exit", "make"),
        (1, "sys.exit 0", "step"),
        (0, "os._exit", "step"),
        (1, "os._exit", "step"),
    ],
)
def test_a_rank_that_leaves_takes_the_others_with_it(tmp_path, rank, how, at):
    failing(tmp_path, 2, *failing_env(rank, how, at))


def test_a_refusal_of_one_rank_alone_is_one_line(tmp_path):
    said = failing(tmp_path, 4, *failing_env(2, "refuse", "make"))
    assert said.strip().count("\n") == 0
    assert "how must be another" in said


def test_a_failure_in_the_evaluation_ends_the_job_and_keeps_what_was_trained(tmp_path):
    said = failing(tmp_path, 2, "--env", "tests.flowrl.counting:fails_held_out",
                   "--evaluation.at-end")  # fmt: skip
    assert "rank 0 of 2" in said
    assert "ZeroDivisionError: the solver broke" in said
    assert Run.open(tmp_path / "run.h5").iterations["transitions"].tolist() == [480, 960, 1200]


def test_an_error_of_the_user_is_one_line_from_root(tmp_path):
    done = module("flowrl.train", "--n-env", "3", "--out", str(tmp_path / "x.h5"), n_ranks=4)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "--n-envs" in done.stderr
    assert not (tmp_path / "x.h5").exists()
