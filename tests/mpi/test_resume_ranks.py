"""Resumed runs on ranks: the same bits on as many, or on others; a signal stops all at once."""

import pytest

from flowrl.results import Run
from tests.flowrl.resuming import (
    PPO,
    QUIET,
    STATEFUL,
    assert_equal_arrays,
    resume,
    shelf,
    train,
    wind_back,
)
from tests.launch import module

pytestmark = pytest.mark.mpi

FILM = ("--env-args", "n_jets=2")


@pytest.mark.parametrize(
    ("arguments", "env_again"),
    [
        ((*PPO, *FILM), ()),
        ((*PPO, *STATEFUL), STATEFUL),
        # Two films of two jets: two of four ranks have none.
        ((*PPO, "--env", "shkadov:ShkadovSeparable-v0", *FILM, "--n-envs", "4"), ()),
    ],
)
def test_a_run_on_four_ranks_goes_on_to_the_bit_on_any_number(tmp_path, arguments, env_again):
    whole = train(tmp_path / "whole.h5", *arguments, n_ranks=4)
    for n_ranks in (4, 2, 0):
        half = wind_back(tmp_path / "whole.h5", tmp_path / f"on{n_ranks}.h5")
        done = resume(half, *env_again, n_ranks=n_ranks)
        assert done.returncode == 0, done.stderr
        assert_equal_arrays(whole, Run.open(half))
        says_so = f"on 4 ranks, it goes on with {n_ranks or 1}" in done.stderr
        assert says_so == (n_ranks != 4)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_signal_to_any_rank_stops_all_after_the_same_update(tmp_path, rank):
    env = "tests.flowrl.counting:make_signalled"
    arguments = (*PPO, "--env", env, "--env-args", "signal_name=SIGUSR1", f"rank={rank}")
    whole = train(tmp_path / "whole.h5", *arguments, "at=100000")
    stopped = tmp_path / "stopped.h5"
    done = module("flowrl.train", *arguments, "at=100", *QUIET, "--out", str(stopped), n_ranks=4)
    assert done.returncode == 75, done.stderr
    assert 0 < Run.open(stopped).n_updates < whole.n_updates
    done = resume(stopped, "--env", env, n_ranks=4)
    assert done.returncode == 0, done.stderr
    assert_equal_arrays(whole, Run.open(stopped))


def test_without_a_sound_checkpoint_all_ranks_leave_with_one_line(tmp_path):
    train(tmp_path / "whole.h5", *PPO, *FILM)
    half = wind_back(tmp_path / "whole.h5", tmp_path / "half.h5")
    for checkpoint in shelf(half).iterdir():
        checkpoint.write_bytes(b"something else")
    before = half.read_bytes()
    done = resume(half, n_ranks=4)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "not a flowrl checkpoint" in done.stderr
    assert half.read_bytes() == before
