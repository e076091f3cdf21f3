"""The command that composes, end to end on given costs."""

import json
import os

import h5py
import numpy as np
import pytest

from flowrl.compose import PROGRAM, command
from flowrl.composer.hardware import HardwareSpec
from flowrl.config import ConfigError
from tests.launch import ROOT, module

HARDWARE = ROOT / "runs/hardware/cpu_gpu.toml"
KEYS = ("replay_manager", "learner", "storage", "t_itr_s", "eps", "traffic_s", "mode", "metric",
        "matrix", "ties")  # fmt: skip
COSTS = """
[costs.cpu]
sample = 50e-6
update = 7e-6
insert = 5e-6
train = 600e-6
[costs.cpu.shared]
sample = 60e-6
update = 8e-6
insert = 6e-6
train = 800e-6
[costs.gpu0]
sample = 25e-6
update = 20e-6
insert = 20e-6
train = 150e-6
[costs.gpu0.shared]
sample = 25e-6
update = 20e-6
insert = 20e-6
train = inf
"""


@pytest.fixture
def files(tmp_path):
    """Return the options that name a hardware and a cost file."""
    costs = tmp_path / "costs.toml"
    costs.write_text(COSTS)
    return ["--hardware", str(HARDWARE), "--costs", str(costs)]


def refuse(token):
    raise AssertionError(f"{token} is no JSON")


def strict(text):
    return json.loads(text, parse_constant=refuse)


def test_the_command_prints_one_strict_json_object(files):
    words = (
        "--algo dqn --env CartPole-v1 --batch-size 512 --insert-size 256 "
        "--metric throughput --mode relaxed --tie 0 --json"
    )
    process = module(PROGRAM, *files, *words.split())
    assert (process.returncode, process.stderr) == (0, "")
    found = strict(process.stdout)
    assert set(KEYS) <= set(found)
    assert (found["replay_manager"], found["learner"]) == ("cpu", "gpu0")
    assert found["t_itr_s"] == pytest.approx(50e-6 + 150e-6)
    assert found["eps"] == pytest.approx(512 / 200e-6)
    # Rows of E = 4 (2 x 4 + 1 + 2) bytes: only the batch is moved, in one transfer.
    assert found["storage"] == "cpu"
    assert found["traffic_s"] == pytest.approx(10e-6 + 44 * 512 / 31.5e9)
    assert found["matrix"]["gpu0"]["shared"]["train"] == {"seconds": None, "origin": "given"}
    assert found["matrix"]["cpu"]["alone"]["train"] == {"seconds": 600e-6, "origin": "given"}
    assert found["ties"][0]["learner"] == "gpu0"


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_every_algorithm_is_composed(files, algo, capsys):
    assert command([*files, "--algo", algo, "--env", "Pendulum-v1", "--json"]) == 0
    assert strict(capsys.readouterr().out)["learner"] == "gpu0"


def test_the_table_says_where_numbers_come_from(files, capsys):
    assert command(files) == 0
    text = capsys.readouterr().out
    for part in (
        "600 us g",
        "never g",
        "g given",
        "replay manager",
        "207 us (strict; costs given)",
    ):
        assert part in text


def test_the_matrix_is_written_as_a_cost_file(files, tmp_path, capsys):
    out = tmp_path / "again.toml"
    assert command([*files, "--json", "--out", str(out)]) == 0
    assert command(["--hardware", str(HARDWARE), "--costs", str(out), "--json"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    with pytest.raises(ConfigError, match="--out must be a new file"):
        command([*files, "--out", str(out)])
    assert command([*files, "--out", str(out), "--overwrite"]) == 0


def test_the_matrix_goes_beside_what_a_results_file_holds(files, tmp_path):
    out = tmp_path / "run.h5"
    with h5py.File(out, "w") as file:
        file["iterations/score"] = [1.0]
    assert command([*files, "--out", str(out)]) == 0
    with h5py.File(out) as file:
        assert file["iterations/score"][0] == 1.0
        group = file["composer"]
        assert group.attrs["learner"] == "gpu0"
        assert group["devices"].asstr()[:].tolist() == ["cpu", "gpu0"]
        assert group["alone/seconds"][0].tolist() == [50e-6, 7e-6, 5e-6, 600e-6]
        assert group["alone/seconds"].attrs["unit"] == "s"
        assert group["shared/origin"].asstr()[1, 3] == "given"
        assert np.isinf(group["assignments/t_itr"][1, 1])
    with pytest.raises(ConfigError, match="--out must be a new file"):
        command([*files, "--out", str(out)])


def test_this_machine_is_described(tmp_path, capsys):
    path = tmp_path / "here.toml"
    assert command(["--detect", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: cpu")
    assert HardwareSpec.load(path).host.name == "cpu"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch-size", "0"], "--batch-size must be a whole number 1 to 1e6, got '?0"),
        (["--capacity", "100"], r"--batch-size must be at most --capacity \(100\), got 256"),
        (["--fanout", "12"], "--fanout must be a power of two from 2 to 64, got 12"),
        (["--tie", "-0.1"], "--tie must be a number"),
        (["--tie", "nan"], "--tie must be a number"),
        (["--mode", "lazy"], "--mode must be one of strict, relaxed, pipelined, got 'lazy'"),
        (["--metric", "powr"], "--metric must be one of .* did you mean power"),
        (["--algo", "ppo"], "--algo must be one of dqn, ddpg, td3, sac, got 'ppo'"),
        (["--algo", "sac"], "--algo sac must have continuous actions"),
        (["--env", "CartPol-v1"], "did you mean CartPole-v1"),
        (["--hardware", "none.toml"], "--hardware must be a readable TOML file, got 'none.toml'"),
        (["--capacity", "10000000000"], "capacity must leave the rows a device"),
        (["--out", "none/x.toml"], "--out must be in a folder that can be written"),
        (["--nonsense"], "--nonsense is not an option"),
    ],
)
def test_bad_input_is_told_in_one_line(files, tmp_path, options, message, capsys):
    out = ["--out", str(tmp_path / "out.toml")]
    with pytest.raises(ConfigError, match=message) as raised:
        command([*files, *out, *options])
    assert "\n" not in str(raised.value)
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out.toml").exists()


def test_bad_input_ends_with_exit_code_2(files):
    process = module(PROGRAM, *files, "--batch-size", "-1", "--json")
    assert process.returncode == 2
    assert process.stdout == ""
    assert len(process.stderr.splitlines()) == 1


def test_neither_a_device_nor_a_results_file_is_replaced(files, tmp_path):
    pipe, results = tmp_path / "pipe", tmp_path / "run.h5"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="--out must be an ordinary file"):
        command([*files, "--out", str(pipe), "--overwrite"])
    assert pipe.is_fifo()
    with h5py.File(results, "w") as file:
        file["score"] = 1.0
    with pytest.raises(ConfigError, match="--detect must be a new file"):
        command(["--detect", str(results)])
    with h5py.File(results) as file:
        assert "score" in file


def test_a_name_that_is_too_long_is_refused(files, tmp_path):
    with pytest.raises(ConfigError, match="--out must be a file that can be written"):
        command([*files, "--out", str(tmp_path / (300 * "x"))])
