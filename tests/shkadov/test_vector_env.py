from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from shkadov.env import ShkadovEnv
from shkadov.film_state import MUTABLE
from shkadov.schemes import BASE_H, H
from shkadov.vector_env import FilmVectorEnv

from .films import QUICK

Array = NDArray[Any]
SHORT = {**QUICK, "episode_time": 0.5}  # 10 actions


def actions_of(env: FilmVectorEnv, n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    shape = (n, *env.action_space.shape)  # type: ignore[misc]
    return rng.uniform(-1.3, 1.3, shape).astype(np.float32)


def test_observations_go_as_far_downstream_as_asked() -> None:
    reach = {"l_obs": 3.0, "l_obs_downstream": 2.0, "obs_spacing": 1.0}
    env = FilmVectorEnv(2, n_jets=2, **QUICK, **reach)
    observations, _ = env.reset(seed=3)
    assert observations.shape == (2, 10)
    film = env.film
    for i in range(2):
        q, x = env.snapshot(i)["q"], env.snapshot(i)["x"]
        for jet, centre in enumerate(film.jet_positions):
            expected = np.interp(centre + np.arange(-3.0, 2.0), x, q)
            shown = observations[i, 5 * jet : 5 * (jet + 1)]
            np.testing.assert_allclose(shown, expected, rtol=1e-6)


def test_make_vec_gives_the_compiled_films() -> None:
    env = gymnasium.make_vec(
        "shkadov:Shkadov-v0", num_envs=3, vectorization_mode="vector_entry_point",
        n_jets=2, preset="beacon", **QUICK,
    )  # fmt: skip
    assert isinstance(env, FilmVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert env.observation_space.shape == (3, 20)
    assert env.action_space.shape == (3, 2)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    env.close()


@pytest.mark.parametrize(("preset", "n_jets"), [("paper", 1), ("beacon", 3)])
def test_a_batch_is_the_same_films_one_by_one_to_the_bit(preset: str, n_jets: int) -> None:
    arguments = {**SHORT, "preset": preset, "n_jets": n_jets}
    batch = FilmVectorEnv(5, **arguments)
    singles = [ShkadovEnv(**arguments) for _ in range(5)]
    observations, _ = batch.reset(seed=[7, 3, 11, 0, 2])
    for single, seed, row in zip(singles, [7, 3, 11, 0, 2], observations, strict=True):
        np.testing.assert_array_equal(single.reset(seed=seed)[0], row)
    for actions in actions_of(batch, 25):
        observations, rewards, terminated, truncated, infos = batch.step(actions)
        for i, single in enumerate(singles):
            shown, reward, *flags, _ = single.step(actions[i])
            assert [reward, *flags] == [rewards[i], terminated[i], truncated[i]]
            if any(flags):
                np.testing.assert_array_equal(infos["final_obs"][i], shown)
                shown, info = single.reset()
                assert infos["start"][i] == info["start"]
            np.testing.assert_array_equal(observations[i], shown)


def test_compiled_step_is_the_step_of_the_environment() -> None:
    by_hand, env = (FilmVectorEnv(3, n_jets=2, **SHORT) for _ in range(2))
    for films in (by_hand, env):
        films.reset(seed=4)
    for actions in actions_of(env, 25):
        observations, rewards, terminated, truncated, infos = env.step(actions)
        for i in range(3):
            shown, final = np.empty((2, 1, 20), np.float32)
            reward = np.empty(1)
            mine = actions[i : i + 1].copy()
            flags = by_hand.compiled_step(by_hand.compiled_state, i, mine, shown, final, reward)
            np.testing.assert_array_equal(mine, actions[i : i + 1])
            np.testing.assert_array_equal(shown[0], observations[i])
            expected = infos["final_obs"][i] if "final_obs" in infos else observations[i]
            np.testing.assert_array_equal(final[0], expected)
            assert (reward[0], *flags) == (rewards[i], terminated[i], truncated[i])


def test_the_type_of_the_state_depends_on_nothing_but_the_class() -> None:
    import numba

    few = FilmVectorEnv(2, **QUICK)
    many = FilmVectorEnv(5, n_jets=4, preset="beacon", **QUICK)
    assert numba.typeof(few.compiled_state) == numba.typeof(many.compiled_state)


def test_everything_a_step_changes_is_named() -> None:
    env = FilmVectorEnv(2, **SHORT)
    env.reset(seed=0)
    others = [name for name in env.compiled_state._fields if name not in (*MUTABLE, "control")]
    before = {name: getattr(env.compiled_state, name).copy() for name in others}
    for actions in actions_of(env, 12):
        env.step(actions)
    for name in others:
        np.testing.assert_array_equal(getattr(env.compiled_state, name), before[name])


def test_seeds_reproduce_everything_and_every_film_has_its_own() -> None:
    runs = []
    for seed in (5, [5, 6, 7, 8], 9):
        env = FilmVectorEnv(4, **SHORT)
        observations, infos = env.reset(seed=seed)
        starts = infos["start"].copy()
        trace = [observations, *(env.step(a)[0] for a in actions_of(env, 25))]
        runs.append((starts, np.stack(trace)))
        assert np.unique(env.compiled_state.generators).size == 4
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert not np.array_equal(runs[0][1], runs[2][1])
    wide = FilmVectorEnv(40, **QUICK)
    _, infos = wide.reset(seed=0)
    assert np.unique(infos["start"]).size > 6  # of 12


def test_a_reset_without_a_seed_goes_on_with_the_generators() -> None:
    one, other = (FilmVectorEnv(6, **QUICK) for _ in range(2))
    for env in (one, other):
        env.reset(seed=1)
    again, _ = one.reset()
    np.testing.assert_array_equal(again, other.reset()[0])
    np.testing.assert_array_equal(one.reset(seed=1)[0], FilmVectorEnv(6, **QUICK).reset(seed=1)[0])
    unseeded = FilmVectorEnv(6, **QUICK)
    unseeded.reset()
    assert np.unique(unseeded.compiled_state.generators).size == 6


def test_films_that_act_stay_as_they_ended() -> None:
    env, stepping = (FilmVectorEnv(2, **SHORT) for _ in range(2))
    with pytest.raises(RuntimeError, match=r"call reset\(\) before act\(\)"):
        env.act(np.zeros((2, 1)))
    for films in (env, stepping):
        films.reset(seed=0)
    assert np.isnan(env.snapshot()["reward"])
    for actions in actions_of(env, 10):
        acted, stepped = env.act(actions), stepping.step(actions)
        for mine, theirs in zip(acted[1:], stepped[1:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert env.snapshot(1)["reward"] == acted[1][1] == stepping.snapshot(1)["reward"]
    assert acted[3].all()
    np.testing.assert_array_equal(acted[0], np.stack(stepped[4]["final_obs"]))
    assert env.snapshot()["time"] == pytest.approx(env.film.episode_time)
    assert stepping.snapshot()["time"] == 0.0
    np.testing.assert_array_equal(env.reset()[0], stepped[0])


def test_episodes_end_by_time_alone_and_begin_anew_in_the_same_step() -> None:
    env = FilmVectorEnv(2, **SHORT)
    env.reset(seed=0)
    for k, actions in enumerate(actions_of(env, 30)):
        observations, _, terminated, truncated, infos = env.step(actions)
        assert not terminated.any()
        assert truncated.all() == ((k + 1) % 10 == 0)
        assert bool(infos) == truncated.all()
        if infos:
            assert infos["_final_obs"].all()
            assert not infos["final_info"]["blow_up"].any()
            assert not np.array_equal(infos["final_obs"][0], observations[0])
            np.testing.assert_array_equal(env.compiled_state.old_actions, 0.0)


def test_a_blow_up_terminates_one_film_and_counts_it() -> None:
    env = FilmVectorEnv(3, **QUICK)
    env.reset(seed=0)
    env.compiled_state.films[1, 30, [H, BASE_H]] = np.nan
    observations, rewards, terminated, truncated, infos = env.step(np.zeros((3, 1)))
    assert terminated.tolist() == [False, True, False]
    assert not truncated.any()
    assert rewards[1] == env.film.blow_up_reward
    assert np.isfinite(observations).all()
    assert np.isfinite(infos["final_obs"][1]).all()
    assert infos["final_obs"][0] is None
    assert infos["final_info"]["blow_up"].tolist() == [False, True, False]
    assert env.n_blow_ups.tolist() == [0, 1, 0]
    _, _, terminated, _, _ = env.step(np.zeros((3, 1)))
    assert not terminated.any()


def test_wild_actions_never_bring_a_nan_outward() -> None:
    env = FilmVectorEnv(
        8, preset="paper", n_jets=3, jet_amplitude=60.0, **{**QUICK, "episode_time": 5.0}
    )
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    n_terminated = 0
    for _ in range(400):
        # Held for long and hard: q_t of 60 empties the film.
        actions = np.sign(rng.normal(size=(8, 3)) + 1.0)
        observations, rewards, terminated, truncated, infos = env.step(actions)
        assert env.observation_space.contains(observations)
        assert np.isfinite(rewards).all()
        assert not (terminated & truncated).any()
        for i in np.flatnonzero(terminated):
            assert env.single_observation_space.contains(infos["final_obs"][i])
        n_terminated += int(terminated.sum())
    assert n_terminated > 0
    assert env.n_blow_ups.sum() == n_terminated


def test_a_state_is_taken_and_given_back() -> None:
    env = FilmVectorEnv(3, **SHORT)
    env.reset(seed=0)
    for actions in actions_of(env, 7):
        env.step(actions)
    kept = env.get_state()
    other = FilmVectorEnv(3, **SHORT)
    other.set_state(kept)
    for actions in actions_of(env, 9, seed=1):
        for a, b in zip(env.step(actions)[:4], other.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=r"state\.films must be float64 of shape"):
        FilmVectorEnv(2, **SHORT).set_state(kept)
    with pytest.raises(ValueError, match=r"state must hold films, .*, got films"):
        other.set_state({"films": kept["films"]})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(3), r"actions must have shape \(3, 1\), got \(3,\)"),
        (np.zeros((2, 1)), r"actions must have shape \(3, 1\), got \(2, 1\)"),
        ([[0.0], [np.nan], [0.0]], r"actions must be finite, got nan at index \(1, 0\)"),
        ([[0.0], [0.0], [1e300]], r"actions must be finite, got 1e\+300 at index \(2, 0\)"),
        (np.full((3, 1), "a"), r"actions must be real numbers, got <U1"),
    ],
)
def test_actions_no_film_can_act_on_are_refused(actions: Array, message: str) -> None:
    env = FilmVectorEnv(3, **QUICK)
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


def test_large_finite_actions_are_clipped() -> None:
    large, one = (FilmVectorEnv(1, **QUICK) for _ in range(2))
    for env in (large, one):
        env.reset(seed=0)
    a = large.step(np.array([[3e38]], np.float32))[0]
    np.testing.assert_array_equal(a, one.step(np.array([[1]]))[0])


def test_options_choose_start_and_films() -> None:
    env = FilmVectorEnv(3, **QUICK)
    _, infos = env.reset(seed=0, options={"start": 5})
    assert infos["start"].tolist() == [5, 5, 5]
    _, infos = env.reset(options={"start": [1, 2, 3]})
    assert infos["start"].tolist() == [1, 2, 3]
    before = env.get_state()["films"]
    mask = np.array([False, True, False])
    _, infos = env.reset(options={"start": 4, "reset_mask": mask})
    after = env.get_state()["films"]
    assert infos["_start"].tolist() == mask.tolist()
    changed = [not np.array_equal(a, b) for a, b in zip(after, before, strict=True)]
    assert changed == mask.tolist()


@pytest.mark.parametrize("seed", [9, [9, 10, 11]])
def test_a_seed_is_for_the_films_that_are_reset(seed: int | list[int]) -> None:
    env, undisturbed, anew = (FilmVectorEnv(3, **SHORT) for _ in range(3))
    for films in (env, undisturbed):
        films.reset(seed=0)
    env.reset(seed=seed, options={"reset_mask": np.array([False, True, False])})
    anew.reset(seed=seed)
    for actions in actions_of(env, 25):
        shown, others, own = (films.step(actions)[0] for films in (env, undisturbed, anew))
        np.testing.assert_array_equal(shown[[0, 2]], others[[0, 2]])
        np.testing.assert_array_equal(shown[1], own[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 12}, r"options\.start must lie in 0 \.\. 11, got 12"),
        ({"start": -1}, r"options\.start must lie in 0 \.\. 11, got -1"),
        ({"start": 0.5}, r"options\.start must be a whole number"),
        ({"start": [1, 2]}, r"options\.start must be a whole number, or one per film"),
        ({"reset_mask": [True]}, r"options\.reset_mask must be a bool array of shape \(3,\)"),
        ({"reset_mask": np.zeros(3, bool)}, r"options\.reset_mask .* with some True"),
        ({"strat": 1}, r"options are start, reset_mask, got 'strat'; did you mean 'start'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FilmVectorEnv(3, **QUICK).reset(options=options)


def test_wrong_arguments_are_refused() -> None:
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="num_envs must be a whole number of at least 1"):
            FilmVectorEnv(wrong, **QUICK)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"seed must be a number or hold one per environment"):
        FilmVectorEnv(3, **QUICK).reset(seed=[1, 2])
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
        FilmVectorEnv(1, **QUICK).step(np.zeros((1, 1)))


def test_held_out_films_are_others() -> None:
    train = FilmVectorEnv(1, **QUICK)
    held_out = FilmVectorEnv(1, **QUICK, **FilmVectorEnv.held_out_arguments)  # type: ignore[arg-type]
    assert not np.array_equal(train.compiled_state.starts, held_out.compiled_state.starts)


def test_a_start_drawn_is_any_of_the_set() -> None:
    env = FilmVectorEnv(400, **QUICK)
    _, infos = env.reset(seed=0)
    assert set(infos["start"].tolist()) == set(range(12))
