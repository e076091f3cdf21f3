from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray
from PIL import Image

from shkadov import render
from shkadov.env import ShkadovEnv

from .films import QUICK

Snapshots = list[dict[str, NDArray[Any]]]


def play(env: ShkadovEnv, n: int, amplitude: float) -> tuple[Snapshots, float]:
    env.reset(seed=0, options={"start": 0})
    snapshots, score = [env.snapshot()], 0.0
    for k in range(n):
        action = np.full(env.film.n_jets, amplitude * np.sin(0.5 * k))
        score += env.step(action)[1]
        snapshots.append(env.snapshot())
    return snapshots, score


@pytest.fixture(params=[1, 3])
def env(request: pytest.FixtureRequest) -> ShkadovEnv:
    return ShkadovEnv(n_jets=request.param, render_mode="rgb_array", **QUICK)


def test_episodes_are_drawn_one_above_the_other(env: ShkadovEnv, tmp_path: Path) -> None:
    calm, pushed = play(env, 20, 0.0)[0], play(env, 20, 1.0)[0]
    env.draw_episodes({"one": calm}, tmp_path / "one.png")
    env.draw_episodes({"without control": calm, "pushed": pushed}, str(tmp_path / "two.png"))
    one, two = (imread(tmp_path / name) for name in ("one.png", "two.png"))
    assert one.shape[1] == two.shape[1] == 1200
    assert two.shape[0] > 1.5 * one.shape[0]
    assert np.std(two) > 0.05


def test_a_score_is_the_sum_of_the_rewards(env: ShkadovEnv) -> None:
    snapshots, score = play(env, 20, 1.0)
    assert render.episode_score(snapshots) == pytest.approx(score, rel=1e-9)


def test_a_score_counts_a_blow_up(env: ShkadovEnv) -> None:
    snapshots, score = play(env, 5, 1.0)
    state = env.get_state()
    state["films"][0, 30] = np.nan
    env.set_state(state)
    assert np.isnan(env.snapshot()["reward"])
    assert env.step(np.zeros(env.film.n_jets))[2]
    snapshots.append(env.snapshot())
    expected = score + env.film.blow_up_reward
    assert render.episode_score(snapshots) == pytest.approx(expected, rel=1e-9)


def test_a_film_that_blew_up_can_be_drawn(env: ShkadovEnv, tmp_path: Path) -> None:
    snapshots, _ = play(env, 5, 1.0)
    snapshots[-1]["h"] = np.full_like(snapshots[-1]["h"], np.nan)
    render.draw_film(snapshots, env.film, tmp_path / "film.png")
    assert (tmp_path / "film.png").stat().st_size > 10000


def test_an_animation_has_its_frames(env: ShkadovEnv, tmp_path: Path) -> None:
    snapshots, _ = play(env, 9, 1.0)
    render.animate(snapshots, env.film, tmp_path / "film.gif", every=3)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == 4  # type: ignore[attr-defined]
        assert image.size == (800, 360)


def test_pictures_show_film_and_action(env: ShkadovEnv) -> None:
    env.reset(seed=0)
    calm = env.render()
    env.step(np.ones(env.film.n_jets))
    pushed = env.render()
    assert calm is not None
    assert pushed is not None
    assert calm.shape == (300, 800, 3)
    assert calm.dtype == np.uint8
    assert (calm != pushed).any()


def test_what_cannot_be_drawn_is_refused(env: ShkadovEnv, tmp_path: Path) -> None:
    snapshots, _ = play(env, 2, 0.0)
    with pytest.raises(ValueError, match=r"two or more snapshots, got \{'a': 1\}"):
        env.draw_episodes({"a": snapshots[:1]}, tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"path must end in \.gif or \.mp4, got .*film\.avi"):
        render.animate(snapshots, env.film, tmp_path / "film.avi")
    with pytest.raises(ValueError, match=r"every >= 1, got 3 and 0"):
        render.animate(snapshots, env.film, tmp_path / "film.gif", every=0)


def test_matplotlib_is_loaded_by_drawing_only() -> None:
    import subprocess
    import sys

    code = (
        "import sys, gymnasium, shkadov.env, shkadov.separable;"
        "assert 'matplotlib' not in sys.modules; assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
