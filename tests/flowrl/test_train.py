"""The main command, as a user runs it, in one process."""

import json

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module, python

QUIET = ("--evaluation.no-at-end", "--progress.display", "none")
FAST = ("--ppo.n-epochs", "2", "--ppo.n-transitions-per-update", "160", *QUIET)


def train(path, *arguments):
    done = module("flowrl.train", *arguments, "--out", str(path))
    assert done.returncode == 0, done.stderr
    return Run.open(path)


@pytest.mark.parametrize(
    ("env", "arguments"),
    [
        ("Pendulum-v1", ()),
        ("CartPole-v1", ()),
        ("tests.flowrl.counting:make", ("--env-args", "limit=7", "discrete=true")),
        ("shkadov:Shkadov-v0", ("--env-args", "n_jets=2")),
        ("shkadov:ShkadovSeparable-v0", ("--env-args", "n_jets=2")),
    ],
)
def test_any_environment_trains_and_counts_exactly(tmp_path, env, arguments):
    run = train(tmp_path / "run.h5", "--env", env, "--n-transitions", "1002", "--n-envs", "6",
                *arguments, *FAST)  # fmt: skip
    assert run.attributes.status == "finished"
    transitions = run.iterations["transitions"]
    assert transitions.tolist() == [160, 320, 480, 640, 800, 960, 1002]
    assert (run.iterations["first_approximate_kl"] == 0.0).all()
    for name in ("policy_loss", "value_loss", "entropy", "approximate_kl"):
        assert np.isfinite(run.iterations[name]).all()
    assert np.isfinite(run.policy["weights"]).all()


def test_episodes_are_those_of_the_environment(tmp_path):
    run = train(tmp_path / "run.h5", "--env", "tests.flowrl.counting:make", "--n-envs", "3",
                "--n-transitions", "480", *FAST)  # fmt: skip
    terminated = run.episodes["terminated"].astype(bool)
    assert set(run.episodes["length"][terminated]) == {4}
    assert set(run.episodes["length"][~terminated]) == {5}
    assert set(run.episodes["return"]) == {10.0, 15.0}
    # 160 steps of each environment are 11 rounds of 5 + 5 + 4 steps, then 5 more and a start.
    assert len(run.episodes["return"]) == 3 * 34
    assert set(run.episodes["env"]) == {0, 1, 2}


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    runs = [
        train(tmp_path / f"{i}.h5", "--n-transitions", "960", "--seed", seed, *FAST)
        for i, seed in enumerate(["3", "3", "4"])
    ]
    same = [run.policy["weights"] for run in runs]
    np.testing.assert_array_equal(same[0], same[1])
    assert (same[0] != same[2]).any()


def test_normalisation_can_be_switched_off(tmp_path):
    run = train(tmp_path / "run.h5", "--env", "Pendulum-v1", "--n-transitions", "320", *FAST,
                "--ppo.no-normalise-observations", "--ppo.no-normalise-advantages")  # fmt: skip
    assert np.isfinite(run.policy["weights"]).all()


def test_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path):
    out = tmp_path / "run.h5"
    wide = {"COLUMNS": "200"}
    done = module("flowrl.train", "--n-envs", "64", "--dry-run", "--out", str(out), **wide)
    assert done.returncode == 0, done.stderr
    assert not out.exists()
    assert "n_envs = 64" in done.stdout.splitlines()
    cells = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    plan = {name.strip(): value.strip() for _, name, value, _ in cells}
    # 200,000 transitions: 62 updates of 64 x 50 and one of 64 x 25.
    expected = {
        "results file": str(out),
        "ranks": "1",
        "environments per rank": "64",
        "steps per environment between two collections": "50",
        "steps per rank between two collections": "3200",
        "transitions per update": "3200",
        "updates": "63",
        "transitions": "200,000",
        "transitions of the last collection": "1600",
    }
    assert {name: plan.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--n-env", "3"), "--n-envs"),
        (("--env", "Pendulum-v9"), "did you mean Pendulum-v1?"),
        (("--env", "no_such_package:make"), "no_such_package"),
        (("--env", "tests.flowrl.counting:mak"), "make"),
        (("--env-args", "n_jet=2"), "n_jets"),
        (("--env-args", "n_jets=-2"), "n_jets"),
        (("--bootstrap", "eoe", "--ppo.n-transitions-per-update", "500"), "multiple of 400"),
        (("--algo", "ppq"), "ppo"),
        (("--ppo.clip", "nan"), "--ppo.clip"),
        (("--n-transitions", "0"), "--n-transitions"),
        (("--out", "/proc/nothing/run.h5"), "/proc/nothing/run.h5"),
    ],
)
def test_bad_input_is_one_line_and_code_2(tmp_path, arguments, names):
    arguments = arguments if "--out" in arguments else (*arguments, "--out", str(tmp_path / "r.h5"))
    done = module("flowrl.train", *arguments, *QUIET)
    assert done.returncode == 2
    assert done.stderr.startswith("flowrl.train: error: ")
    assert done.stderr.strip().count("\n") == 0
    assert names in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_finished_run_is_not_overwritten_unless_asked(tmp_path):
    out = tmp_path / "run.h5"
    arguments = ("--n-transitions", "320", *FAST)
    first = train(out, *arguments)
    again = module("flowrl.train", *arguments, "--out", str(out))
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert Run.open(out).attributes.start_time == first.attributes.start_time
    train(out, *arguments, "--overwrite")


def test_evaluate_scores_all_controls_and_writes_them_back(tmp_path):
    out = tmp_path / "run.h5"
    train(out, "--n-transitions", "320", *FAST)
    done = module("flowrl.evaluate", str(out), "--n-episodes", "4", "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    for control in ("trained", "uncontrolled", "random", "constant"):
        assert scores[control]["n"] == 4
        assert scores[control]["mean"] < 0.0
        assert scores[control]["std"] > 0.0
    trained, uncontrolled = scores["trained"]["mean"], scores["uncontrolled"]["mean"]
    assert scores["gain"] == pytest.approx((trained - uncontrolled) / abs(uncontrolled))
    stored = Run.open(out).evaluation
    assert stored["trained"].mean == pytest.approx(trained)
    repeated = json.loads(module("flowrl.evaluate", str(out), "--n-episodes", "4", "--json").stdout)
    assert repeated == scores


@pytest.mark.parametrize("switch", ["--ppo.normalise-observations",
                                    "--ppo.no-normalise-observations"])  # fmt: skip
def test_the_score_at_the_end_is_what_evaluate_gives(tmp_path, switch):
    out = tmp_path / "run.h5"
    run = train(out, "--n-transitions", "640", "--ppo.n-transitions-per-update", "160", switch,
                "--evaluation.n-episodes", "4", "--progress.display", "plain")  # fmt: skip
    at_end, gain = run.evaluation, run.evaluation_notes["gain"]
    again = module("flowrl.evaluate", str(out), "--n-episodes", "4", "--json")
    assert again.returncode == 0, again.stderr
    scores = json.loads(again.stdout)
    for control in ("trained", "uncontrolled", "random", "constant"):
        expected = (at_end[control].mean, at_end[control].std, 4)
        assert tuple(scores[control][name] for name in ("mean", "std", "n")) == expected
    assert scores["trained"] != scores["uncontrolled"]
    assert scores["gain"] == gain


def test_the_learner_of_torch_trains_alone(tmp_path):
    pytest.importorskip("torch")
    run = train(tmp_path / "run.h5", "--n-transitions", "480", "--learner", "torch", *FAST)
    native = train(tmp_path / "native.h5", "--n-transitions", "480", *FAST)
    assert run.attributes.status == "finished"
    assert run.iterations["transitions"].tolist() == [160, 320, 480]
    # The same gradients up to rounding, from the same start and with the same random numbers.
    for name in ("policy_loss", "value_loss", "actor_gradient_norm"):
        np.testing.assert_allclose(
            run.iterations[name][0], native.iterations[name][0], rtol=1e-3, atol=1e-5
        )
    assert (run.policy["weights"] != 0.0).any()


def test_runs_without_torch_and_without_mpi4py(tmp_path):
    """Neither is loaded unless it is asked for."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name in ('torch', 'mpi4py'): raise ImportError(name + ' is not here')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from flowrl.train import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = python(["-c", code, "--n-transitions", "320", *FAST, "--out", str(tmp_path / "r.h5")])
    assert done.returncode == 0, done.stderr
