"""Many films behind Gymnasium's vector interface, all moved in one compiled call."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from shkadov import solver
from shkadov.film_state import (
    MUTABLE,
    N_BLOW_UPS,
    START,
    STEPS,
    BoolArray,
    FilmState,
    Float32Array,
    Float64Array,
    Int64Array,
    make_state,
)
from shkadov.params import FilmParams, Number, nearest
from shkadov.schemes import H, Q, unpack
from shkadov.states import packed_starts

Seeds = int | Sequence[int | None] | None
Array = NDArray[Any]
OPTIONS = ("start", "reset_mask")


class FilmVectorEnv(VectorEnv[Array, Array, Array]):
    """Move many independent films at once; each is an environment with all its jets.

    Observations are q upstream of every jet, actions in [-1, 1] one per jet (values beyond are
    clipped), the reward is minus the mean of (h - 1)^2 downstream of the jets. A film that ends an
    episode begins the next one in the same step, from a developed film of its own draw.

    Compiled callers may move one film at a time by `compiled_step(compiled_state, film, ...)`, see
    solver.compiled_step; everything it changes is in the arrays of `compiled_state`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": [],
    }
    # What makes the same environment on start states it was not trained on.
    held_out_arguments: ClassVar[dict[str, object]] = {"start_set": "held_out"}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        preset: str = "paper",
        start_set: str = "train",
        **overrides: Number,
    ) -> None:
        """Make num_envs films of a preset, with any fields of FilmParams changed.

        `start_set` is "train" or "held_out": the set of developed films that episodes start from.
        """
        self.film = FilmParams.preset(preset, **overrides)
        self.agents_per_group = self.count_agents(self.film)
        _check_num_envs(num_envs, self.agents_per_group)
        self.num_envs = num_envs
        starts = packed_starts(self.film, start_set)
        self.compiled_state: FilmState = make_state(
            self.film, num_envs // self.agents_per_group, starts
        )
        self.compiled_step = solver.compiled_step
        n_jets = self.film.n_jets // self.agents_per_group
        q_max, shape = np.float32(self.film.q_max), (n_jets * self.film.n_obs_per_jet,)
        self.single_observation_space = Box(-q_max, q_max, shape, np.float32)
        self.single_action_space = Box(-1.0, 1.0, (n_jets,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations_shape = (num_envs, *shape)
        self._actions_shape = (num_envs, n_jets)
        self._rewards = np.full(num_envs, np.nan)  # of the last action
        self._seeded = False
        self._started = False

    @staticmethod
    def count_agents(film: FilmParams) -> int:  # noqa: ARG004
        """Return how many environments share one film."""
        return 1

    @property
    def n_films(self) -> int:
        """Number of films."""
        return self.num_envs // self.agents_per_group

    @property
    def episode_steps(self) -> int:
        """Number of actions in an episode."""
        return self.film.episode_steps

    @property
    def parameters(self) -> dict[str, Number]:
        """All parameters of the film by name, to be stored with results."""
        return dataclasses.asdict(self.film)

    @property
    def n_flops_per_action(self) -> int:
        """Floating-point operations of one film's numerical steps in an action, counted."""
        return solver.FLOPS_PER_NODE * (self.film.n_nodes - 2) * self.film.n_steps

    @property
    def n_blow_ups(self) -> Int64Array:
        """Episodes that every environment ended by a blow-up, (num_envs,)."""
        return np.repeat(self.compiled_state.clock[:, N_BLOW_UPS], self.agents_per_group)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin a new episode in every film, or in those that the options choose.

        Environment i is seeded by seed + i, or by seed[i]; a film by its first environment. Films
        that are not reset keep their generators.
        Options: "start", the index of the start state, one for all or one per film; "reset_mask",
        a bool array (num_envs,) of the environments to reset.
        """
        starts, chosen = self._read_options(options or {})
        self._seed(seed, chosen)
        for film in np.flatnonzero(chosen):
            solver.begin_episode(self.compiled_state, int(film), int(starts[film]))
        self._started = True
        resets = np.repeat(chosen, self.agents_per_group)
        self._rewards[resets] = np.nan
        return self._shown(), self._start_info(resets)

    def step(
        self, actions: Array
    ) -> tuple[Float32Array, Float64Array, BoolArray, BoolArray, dict[str, Any]]:
        """Move every film by one action and begin the next episode of those that ended."""
        self._check_started("step")
        final = np.empty(self._observations_shape, np.float32)
        observations = np.empty(self._observations_shape, np.float32)
        rewards = np.empty(self.num_envs)
        terminated, truncated = np.empty((2, self.num_envs), np.bool_)
        solver.step_all(
            self.compiled_state,
            check_actions(actions, self._actions_shape),
            observations,
            final,
            rewards,
            terminated,
            truncated,
        )
        self._rewards[:] = rewards
        ended = terminated | truncated
        infos = self._end_info(ended, terminated, final) if ended.any() else {}
        return observations, rewards, terminated, truncated, infos

    def act(self, actions: Array) -> tuple[Float32Array, Float64Array, BoolArray, BoolArray]:
        """Move every film by one action; those that ended stay as they are until they are reset.

        Returns observations, rewards, terminated and truncated.
        """
        self._check_started("act")
        taken = check_actions(actions, self._actions_shape)
        terminated, truncated = np.empty((2, self.num_envs), np.bool_)
        for film in range(self.n_films):
            own = slice(film * self.agents_per_group, (film + 1) * self.agents_per_group)
            terminated[own], truncated[own] = solver.act(
                self.compiled_state, film, taken[own].reshape(-1), self._rewards[own]
            )
        return self._shown(), self._rewards.copy(), terminated, truncated

    def get_state(self) -> dict[str, Array]:
        """Return copies of all arrays that a step changes, to go on from later."""
        return {name: getattr(self.compiled_state, name).copy() for name in MUTABLE}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what get_state returned, in an environment of the same arguments."""
        if set(state) != set(MUTABLE):
            raise ValueError(f"state must hold {', '.join(MUTABLE)}, got {', '.join(state)}")
        for name in MUTABLE:
            own, given = getattr(self.compiled_state, name), np.asarray(state[name])
            if given.shape != own.shape or given.dtype != own.dtype:
                raise ValueError(
                    f"state.{name} must be {own.dtype} of shape {own.shape}, got {given.dtype} of "
                    f"shape {given.shape}: it is of an environment with other arguments"
                )
        for name in MUTABLE:
            getattr(self.compiled_state, name)[...] = state[name]
        self._rewards.fill(np.nan)
        self._seeded = self._started = True

    def snapshot(self, film: int = 0) -> dict[str, Array]:
        """Return one film as it is now, to be drawn: x, h, q, jets, time, last action and reward.

        The reward is NaN where no action came before.
        """
        own = slice(film * self.agents_per_group, (film + 1) * self.agents_per_group)
        state = self.compiled_state
        nodes = unpack(state.films[film], self.film.n_nodes)
        return {
            "x": np.arange(self.film.n_nodes) * self.film.dx,
            "h": nodes[H],
            "q": nodes[Q],
            "jet_positions": np.array(self.film.jet_positions),
            "time": np.array(state.clock[film, STEPS] * self.film.dt_action),
            "action": state.old_actions[film].copy(),
            "reward": np.array(self._rewards[own].mean()),
        }

    def draw_episodes(
        self, recordings: Mapping[str, Sequence[Mapping[str, Array]]], path: str | Path
    ) -> None:
        """Draw films from lists of snapshots, a picture or (.gif, .mp4) an animation."""
        from shkadov import render

        render.draw_episodes(recordings, self.film, path)

    def _check_started(self, call: str) -> None:
        if not self._started:
            raise RuntimeError(f"the films have no state yet: call reset() before {call}()")

    def _seed(self, seed: Seeds, chosen: BoolArray) -> None:
        if seed is None and self._seeded:
            return
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seeds: list[int | None] = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) == self.num_envs:
            seeds = seeds[:: self.agents_per_group]
        if len(seeds) != self.n_films:
            raise ValueError(
                f"seed must be a number or hold one per environment ({self.num_envs}), "
                f"got {len(seeds)}"
            )
        for film, own in enumerate(seeds):
            # Those left out are in mid-episode and go on as they are.
            if (own is not None and chosen[film]) or not self._seeded:
                words = np.random.SeedSequence(own).generate_state(1, np.uint64)
                self.compiled_state.generators[film] = words[0]
        self._seeded = True

    def _read_options(self, options: Mapping[str, Any]) -> tuple[Int64Array, BoolArray]:
        for key in options:
            if key not in OPTIONS:
                raise ValueError(
                    f"reset's options are {', '.join(OPTIONS)}, got {key!r}{nearest(key, OPTIONS)}"
                )
        n_starts = self.compiled_state.starts.shape[0]
        starts = np.full(self.n_films, -1, dtype=np.int64)
        if options.get("start") is not None:
            given = np.asarray(options["start"])
            if given.dtype.kind not in "iu" or given.shape not in ((), (1,), (self.n_films,)):
                raise ValueError(
                    f"options.start must be a whole number, or one per film, got {given!r}"
                )
            if given.min() < 0 or given.max() >= n_starts:
                raise ValueError(f"options.start must lie in 0 .. {n_starts - 1}, got {given}")
            starts[:] = given
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"options.reset_mask must be a bool array of shape ({self.num_envs},) with some "
                f"True, got {mask.dtype} of shape {mask.shape}"
            )
        by_film = np.logical_or.reduce(mask.reshape(self.n_films, -1), axis=1)
        return starts, by_film

    def _shown(self) -> Float32Array:
        return self.compiled_state.observations.reshape(self._observations_shape).copy()

    def _start_info(self, mask: BoolArray) -> dict[str, Any]:
        starts = np.repeat(self.compiled_state.clock[:, START], self.agents_per_group)
        return {"start": np.where(mask, starts, 0), "_start": mask.copy()}

    def _end_info(
        self, ended: BoolArray, terminated: BoolArray, final: Float32Array
    ) -> dict[str, Any]:
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final_obs[i] = final[i].copy()
        final_info = {"blow_up": terminated.copy(), "_blow_up": ended.copy()}
        return {
            **self._start_info(ended),
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": final_info,
            "_final_info": ended.copy(),
        }


def check_actions(actions: Array, shape: tuple[int, ...]) -> Float32Array:
    """Return actions as the compiled calls take them, refused where no film could act on them."""
    given = np.asarray(actions)
    if given.shape != shape:
        raise ValueError(f"actions must have shape {shape}, got {given.shape}")
    if given.dtype == np.float32:
        taken = np.ascontiguousarray(given)
    elif given.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            taken = np.ascontiguousarray(given, dtype=np.float32)
    else:
        raise ValueError(f"actions must be real numbers, got {given.dtype}")
    # A sum of squares is the quickest look; it can overflow, so the exact one follows.
    if not math.isfinite(np.vdot(taken, taken)) and not np.isfinite(taken).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(taken))[0])
        raise ValueError(f"actions must be finite, got {given[index]} at index {index}")
    return taken


def _check_num_envs(num_envs: int, agents_per_group: int) -> None:
    if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
        raise ValueError(f"num_envs must be a whole number of at least 1, got {num_envs!r}")
    if num_envs % agents_per_group != 0:
        raise ValueError(
            f"num_envs must be a multiple of n_jets = {agents_per_group}, since every jet is an "
            f"environment and a film has all its jets, got {num_envs}; take "
            f"{-(-num_envs // agents_per_group) * agents_per_group}"
        )
