"""Learning as a whole: fails if the bootstrap, the advantages or the all-reduce are broken."""

import json

import numpy as np
import pytest

from flowrl.results import Run
from tests.launch import module

# One step an environment and update: every transition is cut, all the future is bootstrap.
LADDER = (
    "--env", "tests.learning.ladder:make", "--n-envs", "128", "--n-transitions", "12800",
    "--ppo.n-transitions-per-update", "128", "--ppo.n-epochs", "8", "--ppo.gamma", "0.9",
    "--ppo.actor-learning-rate", "2e-3", "--ppo.max-gradient-norm", "1",
    "--evaluation.no-at-end", "--progress.display", "none",
)  # fmt: skip


def train(path, *arguments, n_ranks=0):
    done = module("flowrl.train", *arguments, "--out", str(path), n_ranks=n_ranks)
    assert done.returncode == 0, done.stderr
    return Run.open(path)


def evaluate(path, *arguments):
    done = module("flowrl.evaluate", str(path), *arguments, "--json", "--n-episodes", "64")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.mpi
def test_looks_past_its_partial_trajectory_and_the_time_limit(tmp_path):
    run = train(tmp_path / "two.h5", *LADDER, n_ranks=2)
    # From rung r = 0..3 the best is 4 - r climbs at -0.2, then 1 a step: 12 steps pay 9 on average.
    scores = evaluate(tmp_path / "two.h5", "--env", "tests.learning.ladder:make")
    assert scores["trained"]["mean"] > 8.9
    assert scores["uncontrolled"]["mean"] == pytest.approx(2.4)
    # At the top the value is 1 / (1 - 0.9) = 10, although no episode lasts longer than 12 steps.
    assert 8.5 < run.iterations["value_mean"][-5:].mean() < 10.5
    # Both ranks took the step of all transitions, not of their own.
    alone = train(tmp_path / "one.h5", *LADDER)
    np.testing.assert_array_equal(run.policy["weights"], alone.policy["weights"])


def test_without_bootstrap_the_same_agent_stays_where_it_is(tmp_path):
    """The control: what the first test measures is the bootstrap, not luck."""
    run = train(tmp_path / "run.h5", *LADDER, "--bootstrap", "regular",
                "--ppo.n-transitions-per-update", "1536")  # fmt: skip
    assert run.iterations["value_mean"][-1] < 7.0


@pytest.mark.mpi
def test_learns_to_control_the_film(tmp_path):
    path = tmp_path / "film.h5"
    # 105 steps a film and update: cuts inside episodes of 400, time limits inside partial ones.
    train(path, "--n-envs", "32", "--n-transitions", "63840",
          "--ppo.n-transitions-per-update", "3360",
          "--evaluation.no-at-end", "--progress.display", "none", n_ranks=2)  # fmt: skip
    scores = evaluate(path)
    assert scores["gain"] > 0.5
    assert scores["trained"]["mean"] > scores["constant"]["mean"]
    assert scores["trained"]["mean"] > scores["random"]["mean"]
