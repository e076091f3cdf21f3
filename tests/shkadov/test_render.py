from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
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
    calm, pushed = play(env, 9, 0.0)[0], play(env, 9, 1.0)[0]
    render.animate({"one": pushed}, env.film, tmp_path / "one.gif", every=3)
    pushed[-1]["h"] = np.full_like(pushed[-1]["h"], np.nan)
    env.draw_episodes({"calm": calm, "blown up": pushed[-4:]}, tmp_path / "both.gif")
    sizes = {"one": (4, 360), "both": (10, 720)}
    for name, (n_frames, height) in sizes.items():
        with Image.open(tmp_path / f"{name}.gif") as image:
            assert image.n_frames == n_frames  # type: ignore[attr-defined]
            assert image.size == (800, height)


def test_a_frame_shows_what_a_full_drawing_shows(env: ShkadovEnv) -> None:
    snapshots, _ = play(env, 9, 1.0)
    stage = render._Stage({"one": snapshots}, env.film, render._times(snapshots))
    first = stage.frame(0)
    frame = stage.frame(6)
    assert (first != frame).any()
    np.testing.assert_array_equal(stage.frame(0), first)
    stage.frame(6)
    for artist in stage.moving:
        artist.set_animated(False)
    stage.canvas.draw()
    whole = np.asarray(stage.canvas.buffer_rgba()).astype(float)
    # Drawn in another order, lines that cross have another colour there.
    assert np.mean(np.abs(whole - frame).max(axis=2) > 30) < 0.02
    assert np.mean(np.abs(whole - first).max(axis=2) > 30) > np.mean(
        np.abs(whole - frame).max(axis=2) > 30
    )


def test_a_long_film_is_shown_in_about_a_hundred_frames(
    env: ShkadovEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "FRAMES", 5)
    env.draw_episodes({"one": play(env, 20, 1.0)[0]}, tmp_path / "one.gif")
    with Image.open(tmp_path / "one.gif") as image:
        assert image.n_frames == 6  # type: ignore[attr-defined]


def test_an_mp4_needs_ffmpeg(
    env: ShkadovEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots, _ = play(env, 3, 1.0)
    if FFMpegWriter.isAvailable():
        env.draw_episodes({"one": snapshots}, tmp_path / "film.mp4")
        assert (tmp_path / "film.mp4").stat().st_size > 1000
    monkeypatch.setattr(FFMpegWriter, "isAvailable", lambda: False)
    with pytest.raises(ValueError, match=r"must end in \.gif, since ffmpeg is not .*other\.mp4"):
        env.draw_episodes({"one": snapshots}, tmp_path / "other.mp4")


def test_animations_need_matplotlib_and_its_dependencies_only(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['imageio'] = None\n"
        "from shkadov.env import ShkadovEnv; from tests.shkadov.films import QUICK\n"
        "env = ShkadovEnv(**QUICK); env.reset(seed=0); shots = [env.snapshot()]\n"
        "env.step([0.5]); shots.append(env.snapshot())\n"
        "env.draw_episodes({'one': shots}, sys.argv[1])"
    )
    path = tmp_path / "film.gif"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=120)
    assert path.read_bytes().startswith(b"GIF")


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
        render.animate({"a": snapshots}, env.film, tmp_path / "film.avi")
    with pytest.raises(ValueError, match=r"every must be at least 1, got 0"):
        render.animate({"a": snapshots}, env.film, tmp_path / "film.gif", every=0)


def test_matplotlib_is_loaded_by_drawing_only() -> None:
    code = (
        "import sys, gymnasium, shkadov.env, shkadov.separable;"
        "assert 'matplotlib' not in sys.modules; assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
