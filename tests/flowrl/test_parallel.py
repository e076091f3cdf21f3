"""Local workers: counts, bits, and what becomes of a run when one of its processes ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from flowrl.comm import SerialCommunicator
from flowrl.config import ConfigError
from flowrl.parallel.trainer import make_trainer
from flowrl.results import Run
from tests.flowrl.parallel_runs import assert_same_bits, config, run
from tests.launch import ROOT, module

HARD = {"n_steps": 3, "normalise_observations": True, "priorities": "prioritized",
        "capacity": 300, "steps_per_collection": 2, "updates_per_transition": 0.7}  # fmt: skip
# Time after which something hangs that should take a second or two [s].
HANG = 60.0


@pytest.mark.parametrize(("workers", "setting"), [(2, "joined"), (3, "relayed")])
def test_without_a_lag_a_run_has_the_bits_of_one_process(workers, setting):
    alone = run(config(**HARD))
    beside = run(config(**HARD, workers=workers, lag=0, setting=setting))
    assert_same_bits(alone, beside)


def test_lagged_policies_give_the_same_bits_on_any_number_of_workers():
    runs = [run(config(**HARD, workers=n, lag=3, policy="lagged")) for n in (1, 2)]
    assert_same_bits(*runs)
    assert runs[0].last["staleness"] > 0


@pytest.mark.parametrize(("workers", "setting"), [(1, "joined"), (2, "joined"), (3, "relayed")])
def test_every_transition_arrives_once_and_the_ratio_is_exact(workers, setting):
    alone = run(config(updates_per_transition=0.3))
    # Actions differ, but this environment's numbers do not depend on them.
    beside = run(config(updates_per_transition=0.3, workers=workers, setting=setting))
    for name in ("observations", "rewards", "next_observations", "discounts"):
        np.testing.assert_array_equal(beside.rows[name], alone.rows[name], err_msg=name)
    np.testing.assert_array_equal(beside.episodes, alone.episodes)
    for name in ("transitions", "updates", "update_ratio"):
        measured = [report.iteration()[name] for report in beside.reports]
        np.testing.assert_equal(measured, [report.iteration()[name] for report in alone.reports])
    assert beside.last["updates"] == int(0.3 * (403 - 60))
    assert beside.last["replay_size"] == 403
    # Never older than the lag of two collections of five transitions, and one in the making.
    assert beside.last["staleness"] <= 0.3 * 5 * 2 + 1


@pytest.mark.parametrize("setting", ["joined", "relayed"])
def test_it_learns(setting):
    settings = {"algo": "ddpg", "updates_per_transition": 1.0, "batch_size": 64, "workers": 2}
    outcome = run(config("tests.flowrl.targets:make", 1500, **settings, setting=setting))
    returns = outcome.episodes[:, 1]
    assert returns[:100].mean() < -0.2
    assert returns[-300:].mean() > -0.03  # 0.01 is the variance of the exploration


def assert_complete(run_, n_transitions):
    assert run_.last["transitions"] == n_transitions == len(run_.rows["rewards"])
    assert run_.last["updates"] == n_transitions - 60


def kill_first_worker(trainer, reported):
    if not reported:
        reported.append(True)
        trainer._transport._workers[0].process.kill()


def test_a_killed_worker_is_reported_and_replaced_and_nothing_is_lost(capsys):
    reported = []
    settings = config(workers=2, n_transitions=600)
    outcome = run(settings, lambda trainer: kill_first_worker(trainer, reported))
    assert_complete(outcome, 600)
    said = capsys.readouterr().err
    assert said == (
        "flowrl: worker 0 (environments 0 to 2) was killed by SIGKILL; replaced (1 of at most 10)\n"
    )
    # The other worker's environments go on where they were.
    assert set(outcome.episodes[outcome.episodes[:, 0] >= 3, 2]) == {4, 5}


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("SIGKILL", "was killed by SIGKILL"),
        ("break", "ended by an exception"),
        ("os._exit 0", "left with exit code 0 before its work was done"),
    ],
)
def test_a_worker_that_ends_in_a_step_is_replaced(tmp_path, capsys, how, cause):
    arguments = {"marker": str(tmp_path / "failed"), "how": how}
    settings = config("tests.flowrl.counting:fails_once", env_args=arguments, workers=1, n_steps=3)
    outcome = run(settings)
    assert outcome.last["transitions"] == 403
    said = capsys.readouterr().err
    assert said.count("replaced") == 1
    assert cause in said
    assert ("ZeroDivisionError: the solver broke" in said) == (how == "break")
    # No row joins the life before with the life after: an environment's steps go one by one.
    rows = outcome.rows
    within = rows["next_observations"][:, 1] - rows["observations"][:, 1]
    assert set(within.tolist()) <= {1.0, 2.0, 3.0}


def test_too_many_replacements_end_the_run(tmp_path):
    path = tmp_path / "run.h5"
    done = module(
        "flowrl.train", "--algo", "td3", "--env", "tests.flowrl.counting:fails_once",
        "--env-args", f"marker={tmp_path / 'failed'}", "how=break", "always=true",
        "--parallel.workers", "2", "--parallel.max-replacements", "1",
        "--n-transitions", "2000", "--off-policy.report-interval", "50",
        "--progress.display", "none", "--out", str(path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "ZeroDivisionError: the solver broke" in done.stderr
    assert "--parallel.max-replacements 1 is reached" in done.stderr.splitlines()[-1]
    assert Run.open(path).iterations["transitions"][-1] >= 50


def test_an_error_of_the_learner_ends_the_run_with_its_cause():
    for setting in ("joined", "relayed"):
        trainer = make_trainer(config(workers=1, setting=setting), SerialCommunicator())
        trainer.learning.learner.learn = broken
        trainer.warm_up()
        with pytest.raises(ZeroDivisionError, match="the learner broke"):
            list(trainer.updates())
        trainer.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flowrl")]


def broken(*_):
    raise ZeroDivisionError("the learner broke")


def test_shared_memory_has_no_name():
    def look(_):
        prefix = f"pym-{os.getpid()}-"
        assert not [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]

    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")
    run(config(workers=1, n_transitions=200), look)


def heed_interrupts():
    """Undo what a shell does to programs in the background: they ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def long_run(tmp_path):
    """Start a run that would take long; give it when it has made a report."""
    command = [
        sys.executable, "-m", "flowrl.train", "--algo", "td3", "--env", "Pendulum-v1",
        "--n-envs", "2", "--parallel.workers", "2", "--n-transitions", "100000000",
        "--replay.capacity", "1000", "--off-policy.report-interval", "100",
        "--progress.display", "plain", "--progress.interval", "0", "--out", str(tmp_path / "r.h5"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True, preexec_fn=heed_interrupts,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        while "transitions=" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def living_in_group(group):
    """Return the processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            found += [path.parent.name] if int(its_group) == group and state != "Z" else []
    return found


def assert_group_ends(group):
    end = time.monotonic() + HANG
    while left := living_in_group(group):
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find processes")
def test_workers_end_when_the_host_is_killed(tmp_path):
    with long_run(tmp_path) as process:
        assert len(living_in_group(process.pid)) >= 3
        process.kill()
        assert_group_ends(process.pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find processes")
def test_an_interrupt_ends_everything_in_one_line(tmp_path):
    with long_run(tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, said = process.communicate(timeout=HANG)
        assert process.returncode == 130
        assert said.splitlines() == ["flowrl: interrupted"]
        assert_group_ends(process.pid)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="at most the 5 environments"):
        make_trainer(config(workers=6), SerialCommunicator())
    with pytest.raises(ConfigError, match=r"--parallel.workers must be 0 for PPO"):
        config(workers=1, algo="ppo")
    with pytest.raises(ConfigError, match=r"--parallel.lag"):
        config(workers=1, lag=-1)
    large = config(workers=1, lag=100, steps_per_collection=10**6, n_transitions=10**9)
    with pytest.raises(ConfigError, match="GiB of memory are free"):
        make_trainer(large, SerialCommunicator())


def test_a_worker_that_can_not_begin_is_a_configuration_error():
    settings = config("tests.flowrl.counting:made_by_host", workers=1, max_replacements=1)
    trainer = make_trainer(settings, SerialCommunicator())
    with pytest.raises(ConfigError, match=r"--parallel.max-replacements 1 is reached"):
        trainer.warm_up()
    trainer.close()


def test_dry_run_says_who_acts(tmp_path):
    done = module(
        "flowrl.train", "--algo", "sac", "--env", "Pendulum-v1", "--n-envs", "5", "--dry-run",
        "--parallel.workers", "2", "--out", str(tmp_path / "r.h5"), COLUMNS="200",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    plan = {name.strip(): value.strip() for _, name, value, _ in cells}
    assert plan["workers"] == "2 local processes"
    assert plan["environments per worker"] == "2 to 3"
    assert plan["replay manager and learner"] == "joined"
    assert plan["collections ahead of the updates"] == "2, newest policy"
    assert plan["memory of messages"].endswith("MiB")
