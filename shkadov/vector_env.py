"""Many films behind Gymnasium's vector interface, all moved in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from shkadov import solver
from shkadov.film_state import (
    N_BLOW_UPS,
    BoolArray,
    FilmState,
    Float32Array,
    Float64Array,
    Int64Array,
    make_state,
)
from shkadov.params import FilmParams, Number
from shkadov.states import developed_films

Seeds = int | Sequence[int | None] | None


class FilmVectorEnv(VectorEnv[Float32Array, Float32Array, Float64Array]):
    """Move many independent films at once; an environment is a film with all its jets.

    Observations are q upstream of each jet, actions in [-1, 1] one per jet, the reward minus the
    mean of (h - 1)^2 downstream of the jets. Any field of FilmParams is a keyword argument.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012
    held_out_arguments: ClassVar[dict[str, object]] = {"start_set": "held_out"}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        preset: str = "paper",
        start_set: str = "train",
        **overrides: Number,
    ) -> None:
        """Make num_envs films of a preset, some of its fields changed."""
        self.film = FilmParams.preset(preset, **overrides)
        self.agents_per_group = self._count_agents()
        self.num_envs = num_envs
        n_films = num_envs // self.agents_per_group
        starts = developed_films(self.film, start_set)
        self.compiled_state: FilmState = make_state(self.film, n_films, starts)
        n_jets = self.film.n_jets // self.agents_per_group
        n_obs = n_jets * self.film.n_obs_per_jet
        q_max = np.float32(self.film.q_max)
        self.single_observation_space = Box(-q_max, q_max, (n_obs,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (n_jets,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.episode_steps = self.film.episode_steps
        self._seeded = False
        self.compiled_step = solver.compiled_step

    def _count_agents(self) -> int:
        return 1

    @property
    def n_blow_ups(self) -> Int64Array:
        """Episodes every environment ended by a blow-up, (num_envs,)."""
        counts: Int64Array = self.compiled_state.clock[:, N_BLOW_UPS]
        return np.repeat(counts, self.agents_per_group)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin a new episode in every film; film i is seeded seed + i, or seed[i]."""
        state = self.compiled_state
        n_films = state.films.shape[0]
        seeds = [seed + i for i in range(n_films)] if isinstance(seed, int) else seed
        if seeds is None and not self._seeded:
            seeds = [None] * n_films
        if seeds is not None:
            for i, s in enumerate(seeds):
                state.generators[i] = np.random.SeedSequence(s).generate_state(1, np.uint64)[0]
            self._seeded = True
        start = -1 if options is None else int(options.get("start", -1))
        for i in range(n_films):
            solver.begin_episode(state, i, start)
        return self._shown(), {}

    def _shown(self) -> Float32Array:
        return self.compiled_state.observations.reshape(self.observation_space.shape).copy()

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Float32Array, Float64Array, BoolArray, BoolArray, dict[str, Any]]:
        """Move every film by one action."""
        actions = np.ascontiguousarray(actions, dtype=np.float32)
        shape = self.observation_space.shape
        observations, final = np.empty(shape, np.float32), np.empty(shape, np.float32)
        rewards = np.empty(self.num_envs)
        terminated, truncated = np.empty(self.num_envs, bool), np.empty(self.num_envs, bool)
        solver.step_all(
            self.compiled_state, actions, observations, final, rewards, terminated, truncated
        )
        infos: dict[str, Any] = {}
        ended = terminated | truncated
        if ended.any():
            infos["final_obs"] = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                infos["final_obs"][i] = final[i].copy()
            infos["_final_obs"] = ended
        return observations, rewards, terminated, truncated, infos
