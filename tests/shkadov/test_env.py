from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from shkadov.env import ShkadovEnv

from .films import QUICK

ENV = "shkadov:Shkadov-v0"


@pytest.mark.parametrize("preset", ["paper", "beacon"])
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_gymnasium_finds_nothing_wrong(preset: str, render_mode: str | None) -> None:
    env = gymnasium.make(ENV, n_jets=2, preset=preset, render_mode=render_mode, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=render_mode is None)


def test_stable_baselines_finds_nothing_wrong() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(ShkadovEnv(n_jets=2, **QUICK))


def test_stable_baselines_trains_on_it() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make(ENV, **{**QUICK, "episode_time": 1.0})
    model = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(192)
    rewards = [episode["r"] for episode in model.ep_info_buffer]
    assert len(rewards) == 9
    assert np.isfinite(rewards).all()


def test_seeds_reproduce_an_episode() -> None:
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (30, 1)).astype(np.float32)
    traces = []
    for seed in (1, 1, 2):
        env = ShkadovEnv(**QUICK)
        observation, _ = env.reset(seed=seed)
        traces.append(np.stack([observation, *(env.step(a)[0] for a in actions)]))
    np.testing.assert_array_equal(traces[0], traces[1])
    assert not np.array_equal(traces[0], traces[2])


def test_an_episode_is_truncated_not_terminated_and_then_needs_a_reset() -> None:
    env = ShkadovEnv(**{**QUICK, "episode_time": 0.5})
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(np.zeros(1))
    env.reset(seed=0)
    flags = [env.step(np.zeros(1))[2:4] for _ in range(env.episode_steps)]
    assert flags == [(False, False)] * 9 + [(False, True)]
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))


def test_a_blow_up_terminates_with_finite_numbers() -> None:
    env = ShkadovEnv(**QUICK)
    env.reset(seed=0)
    state = env.get_state()
    state["films"][0, 30] = np.nan
    env.set_state(state)
    observation, reward, terminated, truncated, info = env.step(np.zeros(1))
    assert (reward, terminated, truncated) == (env.film.blow_up_reward, True, False)
    assert info == {"blow_up": True}
    assert env.observation_space.contains(observation)
    assert env.n_blow_ups == 1
    observation, _ = env.reset()
    assert np.isfinite(observation).all()


def test_the_callers_action_is_left_alone() -> None:
    env = ShkadovEnv(**QUICK)
    env.reset(seed=0)
    action = np.array([3.0], dtype=np.float32)
    env.step(action)
    assert action[0] == 3.0


@pytest.mark.parametrize("action", [np.zeros(2), np.zeros((1, 1)), 0.0, [np.inf]])
def test_wrong_actions_are_refused(action: Any) -> None:
    env = ShkadovEnv(**QUICK)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions must (have shape \(1,\)|be finite), got"):
        env.step(action)


def test_unknown_arguments_name_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'n_jets'"):
        gymnasium.make(ENV, n_jet=2)
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        gymnasium.make(ENV, preset="papper")
    with pytest.raises(ValueError, match="start_set must be one of"):
        gymnasium.make(ENV, start_set="test", **QUICK)
    with pytest.raises(ValueError, match="render_mode must be None or one of rgb_array"):
        ShkadovEnv(render_mode="human")


def test_the_start_can_be_chosen() -> None:
    env = ShkadovEnv(**QUICK)
    first, info = env.reset(seed=0, options={"start": 7})
    assert info == {"start": 7}
    np.testing.assert_array_equal(env.reset(seed=1, options={"start": 7})[0], first)


def test_sign_and_scale_are_parameters() -> None:
    plain, turned = ShkadovEnv(**QUICK), ShkadovEnv(jet_sign=-1, reward_scale=0.5, **QUICK)
    for env in (plain, turned):
        env.reset(seed=0)
    for _ in range(5):
        observation, reward, *_ = plain.step(np.array([0.4]))
        mirrored, half, *_ = turned.step(np.array([-0.4]))
    np.testing.assert_array_equal(observation, mirrored)
    assert half == pytest.approx(0.5 * reward)
    assert turned.parameters["jet_sign"] == -1
    assert turned.parameters["reward_scale"] == 0.5


def test_a_snapshot_is_the_film_now() -> None:
    env = ShkadovEnv(n_jets=2, **QUICK)
    observation, _ = env.reset(seed=0)
    snapshot = env.snapshot()
    assert snapshot["time"] == 0.0
    at = np.round((snapshot["jet_positions"][:, None] - 10.0 + np.arange(10)) / env.film.dx)
    shown = snapshot["q"][at.astype(int)].reshape(-1)
    np.testing.assert_array_equal(shown.astype(np.float32), observation)
    env.step(np.array([0.5, -2.0]))
    snapshot = env.snapshot()
    assert snapshot["time"] == pytest.approx(0.05)
    np.testing.assert_array_equal(snapshot["action"], [0.5, -1.0])
    assert {snapshot[name].shape for name in ("x", "h", "q")} == {(env.film.n_nodes,)}
