from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from shkadov.separable import SeparableFilmVectorEnv
from shkadov.vector_env import FilmVectorEnv

from .films import QUICK

SHORT = {**QUICK, "episode_time": 0.5, "n_jets": 3}
ENV = "shkadov:ShkadovSeparable-v0"


def test_every_jet_is_an_environment_of_its_own() -> None:
    env = gymnasium.make_vec(ENV, num_envs=6, **SHORT)
    assert isinstance(env, SeparableFilmVectorEnv)
    assert (env.agents_per_group, env.n_films) == (3, 2)
    assert env.single_observation_space.shape == (10,)
    assert env.single_action_space.shape == (1,)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)


def test_the_jets_of_a_film_make_up_the_film() -> None:
    jets, films = SeparableFilmVectorEnv(6, **SHORT), FilmVectorEnv(2, **SHORT)
    shown, _ = jets.reset(seed=[8, 0, 0, 9, 0, 0])
    whole, _ = films.reset(seed=[8, 9])
    np.testing.assert_array_equal(shown.reshape(2, 30), whole)
    rng = np.random.default_rng(0)
    for _ in range(25):
        actions = rng.uniform(-1, 1, (6, 1)).astype(np.float32)
        shown, local, terminated, truncated, infos = jets.step(actions)
        whole, common, *flags, _ = films.step(actions.reshape(2, 3))
        np.testing.assert_array_equal(shown.reshape(2, 30), whole)
        np.testing.assert_allclose(local.reshape(2, 3).mean(axis=1), common, rtol=1e-12)
        assert np.unique(local).size == 6
        np.testing.assert_array_equal(terminated, np.repeat(flags[0], 3))
        np.testing.assert_array_equal(truncated, np.repeat(flags[1], 3))
    assert "final_obs" not in infos


def test_a_local_reward_is_of_the_stretch_behind_its_jet() -> None:
    env = SeparableFilmVectorEnv(3, **SHORT)
    env.reset(seed=0)
    _, rewards, *_ = env.step(np.zeros((3, 1)))
    film = env.snapshot()
    for position, reward in zip(film["jet_positions"], rewards, strict=True):
        behind = (film["x"] > position - 1e-9) & (film["x"] < position + 10.0 - 1e-9)
        assert reward == pytest.approx(-np.mean((film["h"][behind] - 1.0) ** 2), rel=1e-9)


def test_a_snapshot_holds_the_mean_of_the_rewards_of_a_film() -> None:
    env = SeparableFilmVectorEnv(6, **SHORT)
    env.reset(seed=0)
    _, rewards, *_ = env.act(np.ones((6, 1)))
    for film in range(2):
        expected = rewards[3 * film : 3 * film + 3].mean()
        assert env.snapshot(film)["reward"] == pytest.approx(expected, rel=1e-12)


def test_all_jets_of_a_film_end_together() -> None:
    env = SeparableFilmVectorEnv(6, **SHORT)
    env.reset(seed=0)
    state = env.get_state()
    state["films"][1, 20] = np.nan
    env.set_state(state)
    observations, rewards, terminated, _, infos = env.step(np.zeros((6, 1)))
    assert terminated.tolist() == [False] * 3 + [True] * 3
    assert (rewards[3:] == env.film.blow_up_reward).all()
    assert np.isfinite(observations).all()
    assert [row is None for row in infos["final_obs"]] == [True] * 3 + [False] * 3
    assert env.n_blow_ups.tolist() == [0, 0, 0, 1, 1, 1]


def test_seeds_are_per_environment_or_per_film() -> None:
    by_number, by_film = (SeparableFilmVectorEnv(6, **SHORT) for _ in range(2))
    first, _ = by_number.reset(seed=5)
    np.testing.assert_array_equal(by_film.reset(seed=[5, 8])[0], first)


def test_a_number_that_leaves_jets_without_a_film_is_refused() -> None:
    with pytest.raises(ValueError, match=r"num_envs must be a multiple of n_jets = 3.*got 4.*6"):
        gymnasium.make_vec(ENV, num_envs=4, **SHORT)


def test_one_jet_alone_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"gymnasium\.make_vec.*n_jets=2.*Shkadov-v0"):
        gymnasium.make(ENV, n_jets=2)
