"""Episodes played to be drawn: on every kind of environment, to their very end."""

import gymnasium
import numpy as np
import pytest

from flowrl import playback
from flowrl.config import ConfigError
from flowrl.evaluation import Evaluator
from flowrl.playback import GroupStage, SingleStage
from tests.flowrl.counting import Counting
from tests.flowrl.recording import config

FILM = {"L0": 60.0, "first_jet": 60.0, "start_time": 5.0, "n_starts": 3, "n_realisations": 3,
        "episode_time": 0.5, "n_jets": 2}  # fmt: skip


class Drawn(Counting):
    """Counts without a time limit; shows the step it is at."""

    def __init__(self, limit=10**9):
        super().__init__(limit)
        self.episode_steps = None

    def snapshot(self):
        return {"step": self.step_number}

    def draw_episodes(self, recordings, path):
        raise NotImplementedError


def play(name, **arguments):
    evaluator = Evaluator(config(env=name, env_args=arguments, n_envs=2), 2)
    stage = playback._make_stage(evaluator, name)
    return evaluator, stage, playback._play(stage, evaluator.uncontrolled(), evaluator)


@pytest.mark.parametrize("name", ["Shkadov-v0", "ShkadovSeparable-v0"])
def test_films_are_played_to_their_end_and_score_as_in_an_evaluation(name):
    evaluator, stage, snapshots = play(f"shkadov:{name}", **FILM)
    assert isinstance(stage, GroupStage)
    times = [float(snapshot["time"]) for snapshot in snapshots]
    assert times == pytest.approx(np.arange(11) * 0.05)
    score = sum(float(snapshot["reward"]) for snapshot in snapshots[1:])
    first = evaluator.evaluate(evaluator.uncontrolled()).returns["uncontrolled"]
    n_agents = evaluator.interface.agents_per_group
    assert score == pytest.approx(first[:n_agents].mean(), rel=1e-9)


def test_both_kinds_of_film_are_the_same_film():
    whole, jets = (play(f"shkadov:{name}", **FILM)[2]
                   for name in ("Shkadov-v0", "ShkadovSeparable-v0"))  # fmt: skip
    for a, b in zip(whole, jets, strict=True):
        np.testing.assert_array_equal(a["h"], b["h"])


def test_an_episode_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(playback, "MOST_STEPS", 20)
    _, stage, snapshots = play("tests.flowrl.test_playback:Drawn")
    assert isinstance(stage, SingleStage)
    assert [snapshot["step"] for snapshot in snapshots] == list(range(21))
    assert len(play("tests.flowrl.test_playback:Drawn", limit=5)[2]) == 6


def test_observations_of_any_shape_are_played(monkeypatch):
    class Square(Drawn):
        def __init__(self, limit=5):
            super().__init__(limit)
            self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2, 1), np.float64)

        def _observation(self):
            return super()._observation().astype(np.float64)[:, None]

    monkeypatch.setattr("tests.flowrl.test_playback.Drawn", Square)
    assert len(play("tests.flowrl.test_playback:Drawn")[2]) == 6


def test_what_cannot_be_drawn_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="CartPole-v1 cannot be drawn: it has no method snapshot"):
        play("CartPole-v1")
