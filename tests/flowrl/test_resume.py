"""Runs that go on from a checkpoint: to the bit as if they had never stopped."""

import os

import h5py
import numpy as np
import pytest

from flowrl.config import ConfigError
from flowrl.results import Run
from flowrl.resuming import resumed_config
from tests.flowrl.resuming import (
    OFF_POLICY,
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

FILM = ("--env-args", "n_jets=2")
RICH = ("--replay.priorities", "prioritized", "--off-policy.n-steps", "3")

CASES = {
    "PPO, film": (*PPO, *FILM),
    "PPO, separable film": (*PPO, "--env", "shkadov:ShkadovSeparable-v0", *FILM),
    "PPO, discrete, torch": (*PPO, *STATEFUL, "--env-args", "discrete=true", "--learner", "torch"),
    "PPO, time limit": (*PPO, *STATEFUL, "--env-args", "wrapped=true"),
    "PPO, whole episodes": (*PPO, *STATEFUL, "--bootstrap", "eoe", "--n-envs", "64"),
    "DQN": ("--algo", "dqn", *OFF_POLICY, *STATEFUL, "--env-args", "discrete=true", *RICH),
    "SAC, film": ("--algo", "sac", *OFF_POLICY, *FILM, *RICH, "--replay.capacity", "200"),
    "TD3, normalised": ("--algo", "td3", *OFF_POLICY, *STATEFUL, *RICH,
                        "--off-policy.normalise-observations",
                        "--replay.actor-batches", "uniform"),
    "SAC, torch": ("--algo", "sac", *OFF_POLICY, *STATEFUL, "--learner", "torch"),
    "DDPG, before the first update": ("--algo", "ddpg", *OFF_POLICY, *FILM,
                                      "--off-policy.learning-starts", "450"),
}  # fmt: skip


def env_again(arguments):
    """Return --env as it must be repeated where it names a function."""
    return STATEFUL if STATEFUL[1] in arguments else ()


@pytest.mark.parametrize("case", list(CASES))
def test_a_resumed_run_is_that_which_never_stopped(tmp_path, case):
    arguments = CASES[case]
    if "torch" in arguments:
        pytest.importorskip("torch")
    whole = train(tmp_path / "whole.h5", *arguments)
    half = wind_back(tmp_path / "whole.h5", tmp_path / "half.h5")
    done = resume(half, *env_again(arguments))
    assert done.returncode == 0, done.stderr
    resumed = Run.open(half)
    assert_equal_arrays(whole, resumed)
    assert resumed.attributes.status == "finished"


@pytest.mark.parametrize(
    ("signal_name", "algo"), [("SIGTERM", "ppo"), ("SIGINT", "td3"), ("SIGUSR1", "td3")]
)
def test_a_signal_stops_a_run_that_can_be_resumed(tmp_path, signal_name, algo):
    env = "tests.flowrl.counting:make_signalled"
    sizes = PPO if algo == "ppo" else OFF_POLICY
    # More than half of the steps of an environment: the signal does not come again.
    at = "at=100" if algo == "ppo" else "at=120"
    arguments = ("--algo", algo, *sizes, "--env", env, "--env-args", f"signal_name={signal_name}")
    whole = train(tmp_path / "whole.h5", *arguments, "at=100000")
    stopped = tmp_path / "stopped.h5"
    done = module("flowrl.train", *arguments, at, *QUIET, "--out", str(stopped))
    assert done.returncode == 75
    assert f"flowrl.train: {signal_name}: stopping" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    half = Run.open(stopped)
    assert half.attributes.status == "interrupted"
    assert 0 < half.n_updates < whole.n_updates
    done = resume(stopped, "--env", env)
    assert done.returncode == 0, done.stderr
    assert_equal_arrays(whole, Run.open(stopped))


def test_environments_that_tell_no_state_begin_anew_and_it_says_so(tmp_path):
    arguments = (*PPO, "--env", "Pendulum-v1")
    train(tmp_path / "whole.h5", *arguments)
    half = wind_back(tmp_path / "whole.h5", tmp_path / "half.h5")
    done = resume(half)
    assert done.returncode == 0
    assert "all environments begin new episodes" in done.stderr
    assert Run.open(half).iterations["transitions"].tolist() == [160 * i for i in range(1, 7)]


def test_without_its_replay_buffer_a_run_fills_it_anew(tmp_path):
    arguments = ("--algo", "td3", *OFF_POLICY, *FILM, "--checkpoint.replay", "none")
    whole = train(tmp_path / "whole.h5", *arguments)
    half = wind_back(tmp_path / "whole.h5", tmp_path / "half.h5")
    done = resume(half)
    assert done.returncode == 0
    assert "the replay buffer is empty" in done.stderr
    resumed = Run.open(half).iterations
    assert resumed["transitions"].tolist() == whole.iterations["transitions"].tolist()
    # 100 transitions fill the buffer, three by three: 99 updates of 500 are never made.
    assert resumed["updates"].tolist()[-3:] == [203, 302, 401]
    assert resumed["replay_size"][-1] == 300


def test_a_finished_run_goes_on_with_more_transitions(tmp_path):
    path = tmp_path / "run.h5"
    first = train(path, "--algo", "sac", *OFF_POLICY, *FILM, *RICH)
    done = resume(path)
    assert done.returncode == 2
    assert "has finished; give more --n-transitions than its 600" in done.stderr
    done = resume(path, "--n-transitions", "900")
    assert done.returncode == 0, done.stderr
    longer = Run.open(path)
    assert longer.iterations["transitions"].tolist()[-4:] == [600, 702, 801, 900]
    assert longer.config.n_transitions == 900
    for name, values in first.iterations.items():
        np.testing.assert_array_equal(values, longer.iterations[name][: len(values)])


def refused(tmp_path, path, *arguments):
    """Resume what is refused: one line, exit code 2, and no byte changed."""
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.h5") if file.is_file()}
    done = resume(path, *arguments)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.h5") if file.is_file()} == before
    return done.stderr


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Return a run that was killed."""
    folder = tmp_path_factory.mktemp("half")
    train(folder / "whole.h5", *PPO, *FILM)
    return wind_back(folder / "whole.h5", folder / "half.h5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", "3"), "--seed must be as in the run, '0', got '3'"),
        (("--ppo.clip", "0.3"), "--ppo.clip must be as in the run"),
        (("--env-args", "n_jets=3"), "--env-args.n-jets must be as in the run"),
        (("--algo", "sac"), "--algo must be as in the run"),
        (("--n-envs", "7"), "--n-envs must be as in the run"),
        (("--n-transitions", "900"), "--n-transitions must be at least the 960"),
        (("--out", "other.h5"), "--out can't be given with --resume"),
        (("--config", "other.toml"), "--config can't be given with --resume"),
        (("--overwrite",), "--overwrite must be as in the run"),
        (("--no-such-option", "3"), "--no-such-option is not an option"),
    ],
)
def test_what_would_change_the_experiment_is_refused(half, arguments, message):
    with pytest.raises(ConfigError) as caught:
        resumed_config(("--resume", str(half), *arguments), half, "flowrl.train")
    assert message in str(caught.value)


def test_a_refusal_is_one_line_and_changes_no_file(half):
    assert "--seed must be as in the run" in refused(half.parent, half, "--seed", "3")


def test_the_surroundings_may_change(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    done = resume(path, "--checkpoint.keep", "1", "--progress.interval", "3", "--comm.polite", "on")
    assert done.returncode == 0, done.stderr
    assert len(list(shelf(path).iterdir())) == 1
    assert Run.open(path).config.checkpoint.keep == 1


def test_a_function_that_a_file_names_is_not_called_unasked(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    marker = tmp_path / "marker"
    with h5py.File(path, "r+") as file:
        text = file.attrs["config"].replace("shkadov:Shkadov-v0", "os:system")
        file.attrs["config"] = text.replace("n_jets = 2", f'command = "touch {marker}"')
    assert "names code to be run" in refused(tmp_path, path)
    assert not marker.exists()


def test_a_file_that_a_file_names_is_not_overwritten_unasked(tmp_path):
    rows = tmp_path / "rows"
    arguments = ("--algo", "td3", *OFF_POLICY, *FILM, "--replay.storage", "file",
                 "--replay.file", str(rows))  # fmt: skip
    whole = train(tmp_path / "whole.h5", *arguments)
    path = wind_back(tmp_path / "whole.h5", tmp_path / "half.h5")
    assert "--replay.file must be given" in refused(tmp_path, path)
    done = resume(path, "--replay.file", str(tmp_path / "others"))
    assert done.returncode == 0, done.stderr
    assert_equal_arrays(whole, Run.open(path))


DAMAGES = {
    "cut short": lambda path: os.truncate(path, 1000),
    "newer": lambda path: path.write_bytes(
        path.read_bytes().replace(b"checkpoint 1", b"checkpoint 9", 1)),
    "none": lambda path: path.unlink(),
}  # fmt: skip
REASONS = {"cut short": "cut short", "newer": "by a newer flowrl", "none": "holds no checkpoint"}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_without_a_sound_checkpoint_nothing_is_touched(half, tmp_path, damage):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    for checkpoint in shelf(path).iterdir():
        DAMAGES[damage](checkpoint)
    assert REASONS[damage] in refused(tmp_path, path)


def test_a_checkpoint_of_another_run_is_refused(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["run_id"] = "another"
    assert "of another run" in refused(tmp_path, path)


def test_a_checkpoint_of_other_sizes_is_refused(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["config"] = file.attrs["config"].replace("n_jets = 2", "n_jets = 3")
    assert "of a run with other sizes" in refused(tmp_path, path)


def test_a_results_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "run.h5"
    assert "no such file" in refused(tmp_path, path)
    path.write_bytes(b"no HDF5")
    assert "not an HDF5 file" in refused(tmp_path, path)


def test_a_run_of_parallel_actors_is_refused(tmp_path):
    path = tmp_path / "run.h5"
    arguments = ("--algo", "td3", *OFF_POLICY, *FILM, "--parallel.workers", "1")
    done = module("flowrl.train", *arguments, *QUIET, "--out", str(path))
    assert done.returncode == 0, done.stderr
    assert not shelf(path).exists()
    assert "must be without --parallel.workers" in refused(tmp_path, path, "--n-transitions", "900")


def test_a_run_in_progress_is_refused(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    with h5py.File(path, "r+", locking=True):
        done = resume(path)
    assert done.returncode == 2
    assert "by a run in progress" in done.stderr


def test_a_new_run_does_not_take_over_old_checkpoints(half, tmp_path):
    path = wind_back(half.with_name("whole.h5"), tmp_path / "run.h5")
    path.unlink()
    arguments = (*PPO, *QUIET, "--out", str(path))
    done = module("flowrl.train", *arguments)
    assert done.returncode == 2
    assert "holds checkpoints of an earlier run" in done.stderr
    done = module("flowrl.train", *arguments, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in shelf(path).iterdir()] == ["000000000960.h5"]
