"""Off-policy training in one process, as a user runs it."""

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module

QUIET = ("--evaluation.no-at-end", "--progress.display", "none")
SMALL = ("--network.actor-width", "16", "--network.critic-width", "16",
         "--replay.batch-size", "16", "--off-policy.learning-starts", "100",
         "--off-policy.report-interval", "100", *QUIET)  # fmt: skip
COUNTING = ("--env", "tests.flowrl.counting:make")


def train(path, algo, *arguments):
    done = module("flowrl.train", "--algo", algo, *arguments, "--out", str(path))
    assert done.returncode == 0, done.stderr
    return Run.open(path)


@pytest.mark.parametrize(
    ("algo", "arguments"),
    [
        ("dqn", ("--env", "CartPole-v1")),
        ("dqn", ("--env", "shkadov:Shkadov-v0", "--env-args", "n_jets=2", "--dqn.n-levels", "3")),
        ("ddpg", ("--env", "Pendulum-v1", "--replay.priorities", "prioritized")),
        ("td3", ("--env", "shkadov:Shkadov-v0", "--env-args", "n_jets=2")),
        ("sac", ("--env", "shkadov:ShkadovSeparable-v0", "--env-args", "n_jets=2")),
        ("sac", ("--env", "Pendulum-v1", "--off-policy.normalise-observations")),
        ("td3", ("--env", "Pendulum-v1", "--learner", "torch", "--off-policy.n-steps", "3")),
    ],
)
def test_every_algorithm_trains_and_counts_exactly(tmp_path, algo, arguments):
    run = train(tmp_path / "run.h5", algo, "--n-envs", "6", "--n-transitions", "602", *SMALL,
                "--off-policy.updates-per-transition", "0.3", *arguments)  # fmt: skip
    assert run.attributes.status == "finished"
    iterations = run.iterations
    assert iterations["transitions"].tolist() == [102, 204, 300, 402, 504, 600, 602]
    assert iterations["updates"][-1] == int(0.3 * 502)
    assert iterations["update_ratio"][-1] == pytest.approx(0.3, abs=1 / 502)
    assert (iterations["skipped_gradients"] == 0).all()
    assert iterations["replay_size"][-1] == (590 if "--off-policy.n-steps" in arguments else 602)
    for name in ("critic_loss", "mean_value", "td_error"):
        assert np.isfinite(iterations[name][2:-1]).all()
    assert np.isfinite(run.policy["weights"]).all()
    if algo != "dqn":
        assert np.isfinite(iterations["actor_loss"][2:-1]).all()
    if algo == "sac":
        assert iterations["temperature"][-2] < 1.0
    shares = sum(run.seconds[name] for name in ("collect", "insert", "sample", "learn", "update"))
    assert (shares <= run.seconds["total"]).all()


@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path, algo):
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    runs = [
        train(tmp_path / f"{i}.h5", algo, "--env", env, "--n-envs", "2", "--n-transitions", "300",
              "--seed", seed, "--replay.priorities", "prioritized", *SMALL)
        for i, seed in enumerate(["3", "3", "4"])
    ]  # fmt: skip
    weights = [run.policy["weights"] for run in runs]
    np.testing.assert_array_equal(weights[0], weights[1])
    np.testing.assert_array_equal(*(run.iterations["critic_loss"] for run in runs[:2]))
    assert (weights[0] != weights[2]).any()


def test_the_first_actions_are_random_and_later_ones_learnt(tmp_path):
    run = train(tmp_path / "run.h5", "dqn", *COUNTING, "--env-args", "discrete=true",
                "--n-envs", "3", "--n-transitions", "900", *SMALL,
                "--dqn.exploration-share", "0.5")  # fmt: skip
    exploration = run.iterations["exploration"]
    assert exploration[-1] == pytest.approx(0.05)
    assert (np.diff(exploration) <= 0).all()
    assert exploration[0] > 0.7


def test_a_run_is_inspected_evaluated_and_drawn_like_any_other(tmp_path):
    path = tmp_path / "run.h5"
    train(path, "sac", "--env", "Pendulum-v1", "--n-envs", "2", "--n-transitions", "500", *SMALL)
    for program, arguments in (
        ("flowrl.inspect", (str(path),)),
        ("flowrl.evaluate", (str(path), "--n-episodes", "2")),
        ("flowrl.plot", ("curves", str(path), "-o", str(tmp_path / "curves.png"))),
    ):
        done = module(program, *arguments)
        assert done.returncode == 0, done.stderr
    assert "trained" in Run.open(path).evaluation


def test_dry_run_says_what_would_be_learnt(tmp_path):
    out = str(tmp_path / "run.h5")
    done = module("flowrl.train", "--algo", "td3", "--env", "Pendulum-v1", "--dry-run",
                  "--n-transitions", "5000", "--out", out, COLUMNS="200")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4,000 of 256 rows" in done.stdout
    assert "5,000 rows, 0.000 GiB, uniform" in done.stdout
    assert "actor_width = 256" in done.stdout
    assert not (tmp_path / "run.h5").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--algo", "sac", "--env", "CartPole-v1"), "--algo sac must have continuous actions"),
        (("--algo", "dqn", "--env-args", "n_jets=9"), "--dqn.n-levels must leave at most 4096"),
        (("--algo", "td3", "--replay.batch-size", "9", "--replay.capacity", "8"),
         "--replay.batch-size must be at most --replay.capacity (8), got 9"),
        (("--algo", "td3", "--replay.capacity", "99999999999", "--n-transitions",
          "99999999999"),
         "GiB of memory are free"),
        (("--algo", "td3", "--off-policy.updates-per-transition", "0"), "above 0"),
        (("--algo", "td3", "--off-policy.updates-per-transition", "-1"), "above 0"),
        (("--algo", "td3", "--n-transitions", "500"), "--n-transitions must be more than the 1000"),
        (("--algo", "td4",), "td3"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line_before_anything_starts(tmp_path, arguments, message):
    out = tmp_path / "run.h5"
    done = module("flowrl.train", *arguments, "--out", str(out))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not out.exists()
