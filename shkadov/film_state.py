"""All films of an environment as one block of arrays, in the form numba takes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shkadov.params import FilmParams
from shkadov.schemes import (
    FIELDS,
    aligned,
    count_lane_rows,
    count_rows,
    make_factors,
    place_jets,
    place_nodes,
)
from shkadov.simd import LANES

BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

# Columns of FilmState.clock.
STEPS: Final = 0  # actions since the start of the episode
NO_HISTORY: Final = 1  # 1 until the film has made its first step
START: Final = 2  # index of the start state of the episode
N_EPISODES: Final = 3  # episodes begun
N_BLOW_UPS: Final = 4  # episodes ended by a blow-up
CLOCK: Final = 5


class Control(NamedTuple):
    """Hold what actions, observations, rewards and the end of an episode are made of."""

    lane_rows: int  # rows of moving nodes
    last_row: int  # row of the last moving node, counted among those
    n_steps: int  # numerical steps an action
    n_ramp_steps: int  # numerical steps from the old action to the new one
    episode_steps: int  # actions an episode
    reward_scale: float
    blow_up_reward: float
    h_max: float
    q_max: float
    inlet_noise: float


class FilmState(NamedTuple):
    """Hold all films of an environment; the compiled calls change the arrays named in MUTABLE."""

    films: Float64Array  # (n_films, n_rows, FIELDS, LANES), see schemes
    generators: UInt64Array  # (n_films,) states of the random generators
    old_actions: Float64Array  # (n_films, n_jets) the last action, clipped [-]
    clock: Int64Array  # (n_films, CLOCK)
    observations: Float32Array  # (n_films, n_jets * n_obs) q as the film last showed it [-]
    jets: Float64Array  # (n_films, n_jets) actions as the jets carry them now [-]
    starts: Float64Array  # (n_starts, n_rows, FIELDS, LANES) developed films
    factors: Float64Array  # (2, FACTORS, LANES), see schemes
    jet_rows: Int64Array  # (n_jets * n_pushed,) where the rows begin that each jet pushes
    jet_shapes: Float64Array  # (n_jets * n_pushed * LANES,) dt times q_t at u = 1 in those rows
    obs_places: Int64Array  # (n_jets * n_obs,) where the observed nodes stand
    rwd_places: Int64Array  # (n_jets, n_rwd) where the nodes in the reward stand
    control: Control


MUTABLE: Final = ("films", "generators", "old_actions", "clock", "observations", "jets")


def make_control(film: FilmParams) -> Control:
    """Return the numbers of the control as the compiled calls use them."""
    lane_rows = count_lane_rows(film.n_nodes)
    return Control(
        lane_rows=lane_rows,
        last_row=film.n_nodes - 3 - (LANES - 1) * lane_rows,
        n_steps=film.n_steps,
        n_ramp_steps=film.n_ramp_steps,
        episode_steps=film.episode_steps,
        reward_scale=film.reward_scale,
        blow_up_reward=film.blow_up_reward,
        h_max=film.h_max,
        q_max=film.q_max,
        inlet_noise=film.inlet_noise,
    )


def make_state(film: FilmParams, n_films: int, starts: Float64Array | None = None) -> FilmState:
    """Make n_films flat films without history; `starts` as schemes.pack gives them."""
    flat = np.ones((n_films, count_rows(film.n_nodes), FIELDS, LANES))
    clock = np.zeros((n_films, CLOCK), dtype=np.int64)
    clock[:, NO_HISTORY] = 1
    place = place_nodes(film.n_nodes)
    jets = np.array([round(x / film.dx) for x in film.jet_positions])[:, None]
    jet_rows, jet_shapes = place_jets(film)
    n_obs, stride = film.n_obs_per_jet, round(film.obs_spacing / film.dx)
    obs = np.arange(n_obs) - film.n_obs_upstream
    return FilmState(
        films=aligned(flat),
        generators=np.zeros(n_films, dtype=np.uint64),
        old_actions=np.zeros((n_films, film.n_jets)),
        clock=clock,
        observations=np.ones((n_films, film.n_jets * n_obs), dtype=np.float32),
        jets=np.zeros((n_films, film.n_jets)),
        starts=aligned(flat[:1]) if starts is None else starts,
        factors=make_factors(film),
        jet_rows=jet_rows,
        jet_shapes=jet_shapes,
        obs_places=place[jets + stride * obs].reshape(-1),
        rwd_places=place[jets + np.arange(round(film.l_rwd / film.dx))],
        control=make_control(film),
    )
