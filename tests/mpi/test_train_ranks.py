"""One experiment on any number of ranks: the same bits, and no rank dies alone."""

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module

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


CASES = {
    "film": (),
    "film, odd": ("--n-envs", "7", "--bootstrap", "pt"),
    "whole episodes": ("--n-envs", "4", "--bootstrap", "eoe", "--n-transitions", "2000",
                       "--ppo.n-transitions-per-update", "800"),
    "python": ("--env", "tests.flowrl.counting:make", "--n-envs", "6"),
    "discrete": ("--env", "tests.flowrl.counting:make", "--env-args", "discrete=true",
                 "--n-envs", "6"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_training_is_the_same_to_the_bit_on_1_2_4_and_8_ranks(tmp_path, case):
    alone = train(tmp_path, "alone", *CASES[case])
    for n_ranks in (1, 2, 4, 8):
        assert_same_bits(alone, train(tmp_path, str(n_ranks), *CASES[case], n_ranks=n_ranks))


def test_torch_learner_is_equal_up_to_rounding(tmp_path):
    runs = [train(tmp_path, str(n), "--learner", "torch", n_ranks=n) for n in (0, 2)]
    # The first rollout is equal to the bit; the update's sums differ in their order.
    np.testing.assert_allclose(
        runs[0].policy["weights"], runs[1].policy["weights"], rtol=0, atol=2e-3
    )


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_an_exception_on_any_rank_ends_the_job_with_its_traceback(tmp_path, n_ranks):
    done = module(
        "flowrl.train", *SHORT, "--env", "tests.flowrl.counting:fails_on_last_rank",
        "--out", str(tmp_path / "run.h5"), n_ranks=n_ranks,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"rank {n_ranks - 1} of {n_ranks}" in done.stderr
    assert "ZeroDivisionError: the solver broke" in done.stderr


def test_an_error_of_the_user_is_one_line_from_root(tmp_path):
    done = module("flowrl.train", "--n-env", "3", "--out", str(tmp_path / "x.h5"), n_ranks=4)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "--n-envs" in done.stderr
    assert not (tmp_path / "x.h5").exists()
