"""Reading results files of any state and origin, and showing them."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowrl import inspect
from flowrl.config import BOOTSTRAPS, PpoConfig
from flowrl.inspect import summarise
from flowrl.results import ResultError, Run
from tests.flowrl.recording import append, config, create, make_run
from tests.launch import module

EVALUATION = {"trained": np.array([-0.2, -0.3]), "uncontrolled": np.array([-1.4, -1.2])}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    settings = config(seed=3, bootstrap=BOOTSTRAPS[1], ppo=PpoConfig(clip=0.1))
    return make_run(path, [-2.0, -1.0, -0.5], settings, EVALUATION)


def text_of(path, capsys):
    assert inspect.command([str(path)]) == 0
    return capsys.readouterr().out


def test_the_tables_show_what_matters(finished, capsys):
    text = text_of(finished, capsys)
    for part in ("finished", "ppo on shkadov:Shkadov-v0, seed 3", "300 of 200,000", "-0.5",
                 "bootstrap=eoe", "ppo.clip=0.1", "-0.2500", "-1.3000", "50.0%", "1.50 s",
                 "collect", "50.0%", "iterations/entropy", "nat", "3", "policy/weights", "2x100",
                 "return of the latest episodes", "python -m flowrl.train", "delta=0.1",
                 "positions=[150.0, 160.0]"):  # fmt: skip
        assert part.replace("1.50 s", "1.5 s") in text, part
    assert "learning_rate" not in text  # at its default


def test_json_holds_the_same(finished):
    process = module("flowrl.inspect", str(finished), "--json")
    assert (process.returncode, process.stderr) == (0, "")
    summary = json.loads(process.stdout)
    assert summary["status"] == "finished"
    assert summary["progress"]["transitions"] == 300
    assert summary["progress"]["episodes"] == 2 + 3 + 4
    assert summary["last"]["score_mean"] == -0.5
    assert summary["last"]["entropy"] is None
    assert summary["seconds"]["total"] == 1.5
    assert summary["evaluation"]["trained"] == {"mean": -0.25, "std": pytest.approx(0.05), "n": 2}
    assert summary["evaluation"]["gain"] == 0.5
    assert summary["environment_parameters"] == {
        "delta": 0.1, "n_jets": 5, "positions": [150.0, 160.0], "limit": None, "start": "a.h5",
        "noise": None}  # fmt: skip
    assert {"name", "shape", "dtype", "unit", "description"} == set(summary["datasets"][0])


def test_a_run_in_progress_and_an_empty_one(tmp_path, capsys):
    recorder = create(tmp_path / "run.h5")
    assert "no episode has ended yet" in text_of(tmp_path / "run.h5", capsys)
    append(recorder, 1, float("nan"))
    assert "running, or killed" in text_of(tmp_path / "run.h5", capsys)
    json.dumps(summarise(Run.open(tmp_path / "run.h5")), allow_nan=False)
    recorder.finish("finished")


def test_a_configuration_of_another_version_is_shown_all_the_same(tmp_path, capsys):
    path = make_run(tmp_path / "run.h5", [1.0])
    with h5py.File(path, "r+") as file:
        file.attrs["config"] = "from_the_future = 3"
    assert "from_the_future=3" in text_of(path, capsys)
    with pytest.raises(ResultError, match="configuration can't be used"):
        _ = Run.open(path).config


def test_a_file_from_before_the_parameters_were_stored_is_read(tmp_path):
    path = tmp_path / "run.h5"
    without("environment_parameters")(path)
    assert Run.open(path).attributes.environment_parameters == {}


def test_texts_of_a_stranger_do_not_reach_the_terminal_raw(tmp_path, capsys):
    path = make_run(tmp_path / "run.h5", [1.0])
    with h5py.File(path, "r+") as file:
        file.attrs["command"] = "\x1b[2J[bold]\n"
        file["iterations/\x1b[31m"] = np.zeros(1)
    text = text_of(path, capsys)
    assert "\x1b" not in text
    assert "[bold]" in text


def foreign(path):
    h5py.File(path, "w").close()


def newer(path):
    make_run(path, [1.0])
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 99


def cut_short(path):
    make_run(path, [1.0])
    os.truncate(path, path.stat().st_size // 2)


def without(name):
    def make(path):
        make_run(path, [1.0])
        with h5py.File(path, "r+") as file:
            if name in file.attrs:
                del file.attrs[name]
            else:
                del file[name]

    return make


def saying(name, text):
    def make(path):
        make_run(path, [1.0])
        with h5py.File(path, "r+") as file:
            file.attrs[name] = text

    return make


def holding(name, values):
    def make(path):
        make_run(path, [1.0])
        with h5py.File(path, "r+") as file:
            if name in file:
                del file[name]
            file.create_dataset(name, data=values, maxshape=np.shape(values))

    return make


def sparse(path):
    """Claim a terabyte in a small file."""
    make_run(path, [1.0])
    with h5py.File(path, "r+") as file:
        file.create_dataset("policy/huge", (2**40,), "u1", chunks=(2**20,))


def bent(path):
    """Point to a file elsewhere."""
    make_run(path, [1.0])
    with h5py.File(path, "r+") as file:
        file["policy/elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, "no such file"),
        (lambda path: path.mkdir(), "not a file"),
        (lambda path: path.touch(), "empty"),
        (lambda path: path.write_text("hello"), "not an HDF5 file"),
        (foreign, "not a flowrl run"),
        (newer, "newer flowrl"),
        (cut_short, "cut short"),
        (without("versions"), "versions"),
        (saying("versions", "[]"), "not a JSON object"),
        (saying("environment_parameters", '{"a": [[1]]}'), "nested too deeply"),
        (without("policy"), "policy"),
        (without("iterations"), "iterations"),
        (holding("iterations/entropy", np.zeros((2, 2))), "one dimension"),
        (holding("policy/weights", np.array([b"x"])), "numbers"),
        (holding("policy/updates", np.zeros(0)), "damaged"),
        (sparse, "more bytes"),
        (bent, "damaged"),
    ],
)
def test_files_that_cannot_be_used_are_refused_in_one_line(tmp_path, make, reason):
    path = tmp_path / "run.h5"
    make(path)
    with pytest.raises(ResultError) as caught:
        Run.open(path)
    assert str(caught.value).startswith(str(path))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_ends_with_two_and_one_line(tmp_path):
    for arguments in ([], [str(tmp_path / "none.h5")], ["a.h5", "--jso"], ["a.h5", "b.h5"]):
        process = module("flowrl.inspect", *arguments)
        assert process.returncode == 2
        assert process.stdout == ""
        assert process.stderr.startswith("flowrl.inspect: error: ")
        assert process.stderr.count("\n") == 1


def mutate(content, data):
    """Return the content of a file with some bytes changed, moved or cut off."""
    content = bytearray(content)
    places = st.integers(0, len(content) - 1)
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 20]))):
        kind, place = data.draw(st.sampled_from(["byte", "block", "copy"])), data.draw(places)
        if kind == "byte":
            content[place] = data.draw(st.integers(0, 255))
        elif kind == "block":
            size = data.draw(st.sampled_from([4, 8, 64, 512]))
            content[place : place + size] = bytes([data.draw(st.sampled_from([0, 1, 255]))]) * size
        else:
            source = data.draw(places)
            piece = content[source : source + 64]  # shorter near the end, where it must not cut
            content[place : place + len(piece)] = piece
    if data.draw(st.integers(0, 9)) == 0:
        del content[data.draw(places) :]
    return bytes(content)


class Reader:
    """Reads files in another process, as HDF5 crashes, or loops, on some; counts those."""

    def __init__(self):
        self.n_crashes = 0
        self._process = None

    def message(self, path):
        """Return in one line what reading a file says; None where HDF5 crashed or looped."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.flowrl.test_inspect"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line.endswith("\n"):
            return line[:-1]
        # Nothing but a signal may end it: an exception that escapes is ours.
        assert self._process.wait() < 0
        self.close()
        self.n_crashes += 1
        return None

    def close(self):
        if self._process is not None:
            self._process.communicate()
            self._process = None


@pytest.fixture
def reader(capsys):
    reader = Reader()
    yield reader
    reader.close()
    with capsys.disabled():
        sys.stdout.write(f" [{reader.n_crashes} crashes and endless loops inside HDF5] ")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damaged_file_is_shown_or_refused_in_one_line(finished, tmp_path, reader, data):
    path = tmp_path / "damaged.h5"
    path.write_bytes(mutate(finished.read_bytes(), data))
    os.utime(path, (0, 0))  # not recent: no second try
    message = reader.message(path)
    assert message is None or message.startswith((str(path), "shown"))


def read_aloud(path):
    """Say in one line whether a file was shown, or why not."""
    signal.setitimer(signal.ITIMER_PROF, 3.0)  # s of this process: an endless loop is killed
    try:
        run = Run.open(path)
    except ResultError as caught:
        message = str(caught)
        assert "\n" not in message
    else:
        json.dumps(summarise(run), allow_nan=False)
        with contextlib.redirect_stdout(io.StringIO()):
            inspect.show(run, summarise(run))
        message = "shown"
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for LINE in sys.stdin:
        read_aloud(Path(LINE.rstrip("\n")))
