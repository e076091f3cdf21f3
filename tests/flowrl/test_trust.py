"""A results file from a stranger has no code run."""

import h5py
import pytest

from flowrl.config import ConfigError
from flowrl.trust import require_trust
from tests.launch import module

SMALL = ["--algo", "dqn", "--env", "CartPole-v1", "--n-transitions", "300"]
REST = ["--off-policy.learning-starts", "280", "--evaluation.no-at-end"]


@pytest.mark.parametrize("env", ["os:system", "pty:Pendulum-v1", "my.module:make"])
def test_code_that_a_file_names_must_be_given_too(env):
    require_trust(env, [env])
    with pytest.raises(ConfigError, match="if you trust the file"):
        require_trust(env, ["other:make"])


@pytest.mark.parametrize("env", ["CartPole-v1", "shkadov:Shkadov-v0"])
def test_registered_environments_need_no_trust(env):
    require_trust(env, [])


def test_a_strangers_file_calls_nothing(tmp_path):
    path, victim = tmp_path / "run.h5", tmp_path / "touched"
    done = module("flowrl.train", *SMALL, *REST, "--out", str(path))
    assert done.returncode == 0, done.stderr
    with h5py.File(path, "r+") as file:
        text = str(file.attrs["config"]).replace("CartPole-v1", "os:system")
        assert "[env_args]" in text
        text = text.replace("[env_args]", f'[env_args]\ncommand = "touch {victim}"')
        file.attrs["config"] = text
    figure = str(tmp_path / "x.png")
    for command in (
        ("flowrl.evaluate", str(path)),
        ("flowrl.plot", "film", str(path), "-o", figure),
        ("flowrl.train", "--resume", str(path), "--n-transitions", "400"),
        ("flowrl.inspect", str(path)),
    ):
        done = module(*command)
        assert done.returncode == (0 if "inspect" in command[0] else 2), done.stderr
        assert not victim.exists()
