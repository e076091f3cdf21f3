"""The results file: whole after a kill, readable while it grows, nobody else's."""

import os
import random
import resource
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from flowrl.quantities import EPISODES, ON_POLICY_ITERATIONS, ON_POLICY_SECONDS
from flowrl.recorder import Recorder, RecorderError, record_evaluation
from flowrl.results import Run
from tests.flowrl.recording import append, config, create, header, n_episodes, policy
from tests.launch import python

N_KILLS = 12


def check(run, n_updates=None):
    """Check that a run holds whole updates, all of them, and a policy of one of them."""
    updates = run.iterations["updates"]
    assert updates.tolist() == list(range(1, len(updates) + 1))
    if n_updates is not None:
        assert len(updates) == n_updates
    assert (run.iterations["score_mean"] == updates).all()
    assert len(run.seconds["total"]) == len(updates)
    ended = np.repeat(updates, [n_episodes(update) for update in updates])
    assert run.episodes["update"][: len(ended)].tolist() == ended.tolist()
    assert (run.episodes["return"] == run.episodes["update"]).all()
    assert len(set(run.policy["weights"])) == 1
    assert run.policy["weights"][0] == run.policy["updates"]


def writer(path):
    command = [sys.executable, "-m", "tests.flowrl.recording", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_everything_comes_back(tmp_path):
    path = tmp_path / "run.h5"
    with create(path, config=config(seed=5)) as recorder:
        for update in range(1, 8):
            append(recorder, update)
    run = Run.open(path)
    check(run, 7)
    assert run.attributes.status == "finished"
    assert (run.attributes.seed, run.config.seed) == (5, 5)
    assert run.attributes.end_time >= run.attributes.start_time
    assert run.policy_notes == {"kind": "gaussian"}
    assert run.policy["observation_std"].tolist() == [1.0] * 10
    assert np.isnan(run.iterations["entropy"]).all()
    assert np.isfinite(run.seconds["record"][1:]).all()
    assert run.episodes["terminated"].dtype == bool


def test_every_dataset_says_what_it_is(tmp_path):
    create(tmp_path / "run.h5").finish("finished")
    with h5py.File(tmp_path / "run.h5") as file:
        found = []
        file.visititems(lambda name, item: found.append((name, item)))
        datasets = {name: item for name, item in found if isinstance(item, h5py.Dataset)}
        for item in datasets.values():
            assert item.attrs["unit"]
            assert item.attrs["description"]
    for table, quantities in (("iterations", ON_POLICY_ITERATIONS), ("seconds", ON_POLICY_SECONDS),
                              ("episodes", EPISODES)):  # fmt: skip
        assert {f"{table}/{quantity.name}" for quantity in quantities} <= set(datasets)


def test_a_run_without_updates_has_a_policy(tmp_path):
    create(tmp_path / "run.h5").finish("failed")
    run = Run.open(tmp_path / "run.h5")
    assert (run.n_updates, run.attributes.status, run.policy["updates"]) == (0, "failed", 0)


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_the_status_says_how_it_ended(tmp_path, error, status):
    recorder = create(tmp_path / "run.h5")
    with pytest.raises(error), recorder:
        raise error
    assert Run.open(tmp_path / "run.h5").attributes.status == status


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_of_another_run_stays(tmp_path, overwrite):
    path = tmp_path / "run.h5"
    running = create(path)
    append(running, 1)
    with pytest.raises(RecorderError, match="in progress"):
        create(path, overwrite)
    running.finish("finished")
    if not overwrite:
        with pytest.raises(RecorderError, match=r"holds a run \(finished.*--overwrite"):
            create(path)
        check(Run.open(path), 1)
        return
    create(path, overwrite).finish("finished")
    check(Run.open(path), 0)
    assert sorted(os.listdir(tmp_path)) == ["run.h5"]


def test_a_killed_run_is_named_so(tmp_path):
    path = tmp_path / "run.h5"
    with writer(path) as process:
        process.stdout.readline()
        process.kill()
    with pytest.raises(RecorderError, match="killed"):
        create(path)
    create(path, overwrite=True).finish("finished")


@pytest.mark.parametrize("content", [b"", b"mine", b"\x89HDF\r\n\x1a\n"])
def test_what_is_no_run_is_never_overwritten(tmp_path, content):
    path = tmp_path / "thesis.h5"
    path.write_bytes(content)
    with pytest.raises(RecorderError, match="not a readable flowrl run"):
        create(path, overwrite=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["directory", "file/run.h5", "x" * 300])
def test_places_where_nothing_can_be_written(tmp_path, name):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(RecorderError, match=name[:20]):
        create(tmp_path / name)


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_several_runs_started_at_once_one_wins(tmp_path, overwrite):
    path = tmp_path / "run.h5"
    code = (
        "import sys, time; from tests.flowrl.recording import create, RecorderError\n"
        "time.sleep(max(0.0, float(sys.argv[2]) - time.time()))\n"
        "try: recorder = create(sys.argv[1], sys.argv[3] == 'True')\n"
        "except RecorderError as error: sys.exit(str(error))\n"
        "time.sleep(2); recorder.finish('finished')"
    ).replace(", RecorderError", "; from flowrl.recorder import RecorderError")
    if overwrite:
        create(path).finish("finished")
    start = str(time.time() + 3.0)
    command = [sys.executable, "-c", code, str(path), start, str(overwrite)]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    messages = [run.communicate()[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 1, 1, 1]
    assert all(message == "" or "another" in message for message in messages)
    assert all(len(message.splitlines()) <= 1 for message in messages)
    assert Run.open(path).attributes.status == "finished"
    assert os.listdir(tmp_path) == ["run.h5"]


def test_a_killed_writer_leaves_every_completed_update(tmp_path):
    generator = random.Random(0)
    for trial in range(N_KILLS):
        path = tmp_path / f"{trial}.h5"
        with writer(path) as process:
            process.stdout.readline()
            time.sleep(generator.uniform(0.0, 0.4))
            process.kill()
            said = [line for line in process.stdout if line.endswith("\n")]
        completed = 1 + len(said)
        run = Run.open(path)
        check(run)
        assert run.n_updates in (completed, completed + 1)
        with h5py.File(path, "r+") as file:  # and can be appended to
            file.attrs["status"] = "failed"


def test_readers_follow_a_run(tmp_path):
    path = tmp_path / "run.h5"
    with writer(path) as process:
        process.stdout.readline()
        seen = []
        for _ in range(20):
            run = Run.open(path)
            check(run)
            seen.append(run.n_updates)
            with h5py.File(path, "r", locking=False) as file:
                assert file.attrs["status"] == "running"
        process.kill()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_the_writing_process_reads_its_own_file(tmp_path):
    recorder = create(tmp_path / "run.h5")
    append(recorder, 1)
    check(Run.open(tmp_path / "run.h5"), 1)
    append(recorder, 2)
    check(Run.open(tmp_path / "run.h5"), 2)
    recorder.finish("finished")


def test_a_removed_file_is_reported_and_the_run_goes_on(tmp_path):
    path = tmp_path / "run.h5"
    recorder = create(path)
    append(recorder, 1)
    path.unlink()
    for update in (2, 3):
        with pytest.raises(RecorderError, match="removed or replaced"):
            append(recorder, update)
    with pytest.raises(RecorderError, match="removed or replaced"):
        recorder.finish("finished")
    recorder.finish("finished")  # a second time there is nothing left to do


def said_by(recorder, update):
    """Append an update; return the message where that fails."""
    try:
        append(recorder, update)
    except RecorderError as error:
        return str(error)
    return None


def test_a_full_disk_is_reported_and_nothing_is_lost_when_there_is_room_again(tmp_path):
    path = tmp_path / "run.h5"
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    recorder = create(path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        messages = [said for update in range(1, 1200) if (said := said_by(recorder, update))]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert set(messages) == {f"{path}: cannot be written: File too large"}
    assert len(messages) > 100
    check(Run.open(path), 1199 - len(messages))
    recorder.finish("finished")
    check(Run.open(path), 1199)
    assert Run.open(path).attributes.status == "finished"


def test_a_system_that_cannot_allocate_ahead_writes_all_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    with create(tmp_path / "run.h5") as recorder:
        append(recorder, 1)
    check(Run.open(tmp_path / "run.h5"), 1)


def test_a_run_that_ends_on_a_full_disk_keeps_what_it_had(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from tests.flowrl.recording import append, create\n"
        "recorder = create(sys.argv[1])\n"
        "size = Path(sys.argv[1]).stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "with recorder:\n"
        "    for update in range(1, 1200): append(recorder, update)\n"
    )
    process = python(["-c", code, str(tmp_path / "run.h5")])
    assert process.returncode == 1
    assert "RecorderError" in process.stderr.splitlines()[-1]
    run = Run.open(tmp_path / "run.h5")
    check(run)
    assert run.n_updates > 100
    assert run.attributes.status == "failed"


def test_unknown_and_missing_names_are_refused(tmp_path):
    recorder = create(tmp_path / "run.h5")
    counts = dict.fromkeys(
        ("transitions", "updates", "n_episodes", "skipped_gradients", "blow_ups"), 1
    )
    with pytest.raises(ValueError, match=r"iterations.entropi is not .* did you mean entropy\?"):
        recorder.append({**counts, "entropi": 1.0}, {})
    with pytest.raises(ValueError, match=r"iterations.updates must be given"):
        recorder.append({"transitions": 1}, {})
    with pytest.raises(ValueError, match=r"seconds.colect .* did you mean collect\?"):
        recorder.append(counts, {"colect": 1.0})
    with pytest.raises(ValueError, match=r"episodes.length must be given"):
        recorder.append(counts, {}, {"return": np.zeros(1)})
    with pytest.raises(ValueError, match=r"policy.weights must keep its shape \(20000,\)"):
        recorder.append(counts, {}, None, {"weights": np.zeros(3)})
    with pytest.raises(ValueError, match=r"policy.actor_layers does not change"):
        recorder.append(counts, {}, None, {"actor_layers": np.zeros((4, 6))})
    with pytest.raises(ValueError, match=r"status must be one of"):
        recorder.finish("done")
    with pytest.raises(ValueError, match=r"policy.wieghts is not a known quantity"):
        Recorder.create(tmp_path / "b.h5", header(), {**policy(), "wieghts": np.zeros(1)})
    recorder.finish("finished")
    assert Run.open(tmp_path / "run.h5").n_updates == 0
    assert os.listdir(tmp_path) == ["run.h5"]


def test_an_evaluation_replaces_the_one_before(tmp_path):
    path = tmp_path / "run.h5"
    with create(path) as recorder:
        append(recorder, 1)
        recorder.record_evaluation({"trained": np.array([-1.0, -3.0])}, 0.5)
    record_evaluation(
        path, {"trained": np.array([-1.0]), "random": np.zeros(3)}, 0.25, {"seed": 7.0}
    )
    run = Run.open(path)
    check(run, 1)
    assert {name: control.mean for name, control in run.evaluation.items()} == {
        "trained": -1.0, "random": 0.0}  # fmt: skip
    assert run.evaluation_notes == {"gain": 0.25, "seed": 7.0}
    with h5py.File(path) as file:
        assert dict(file["evaluation/random"].attrs) == {"mean": 0.0, "std": 0.0, "n": 3}
    with pytest.raises(ValueError, match=r"evaluation.traned .* did you mean trained\?"):
        record_evaluation(path, {"traned": np.zeros(1)}, None)
    check(Run.open(path), 1)


def test_an_evaluation_goes_into_a_run_only(tmp_path):
    (tmp_path / "text.h5").write_text("no")
    h5py.File(tmp_path / "foreign.h5", "w").close()
    for name in ("text.h5", "foreign.h5", "none.h5"):
        with pytest.raises(RecorderError, match=name):
            record_evaluation(tmp_path / name, {"trained": np.zeros(1)}, None)
    recorder = create(tmp_path / "run.h5")
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from flowrl.recorder import record_evaluation\n"
        "record_evaluation(Path(sys.argv[1]), {'trained': np.zeros(1)}, None)"
    )
    process = python(["-c", code, str(tmp_path / "run.h5")])
    assert "cannot be written" in process.stderr.splitlines()[-1]
    recorder.finish("finished")
