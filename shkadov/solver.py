"""The films of an environment as one block of arrays, and the compiled calls that move them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shkadov.params import FilmParams
from shkadov.schemes import (
    CONVECTED,
    DRAG,
    INCREMENT_H,
    INCREMENT_Q,
    NEXT_CONVECTED,
    NEXT_H,
    NEXT_Q,
    ROWS,
    SHIFT,
    H,
    Q,
    Scheme,
    apply_boundaries,
    count_columns,
    make_scheme,
    refresh,
    take_step,
)

BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

# Columns of FilmState.clock.
STEPS: Final = 0  # actions since the start of the episode
COLD: Final = 1  # 1 while the film has no Adams-Bashforth history
START: Final = 2  # index of the start state of the episode
N_EPISODES: Final = 3  # episodes begun
N_BLOW_UPS: Final = 4  # episodes ended by a blow-up
CLOCK: Final = 5
# Rows of a start state; the first four rows of a film.
START_ROWS: Final = 4

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


class Control(NamedTuple):
    """Hold what actions, observations, rewards and the end of an episode are made of."""

    n_nodes: int
    n_steps: int  # numerical steps an action
    n_ramp_steps: int  # numerical steps from the old action to the new one
    episode_steps: int  # actions an episode
    n_obs: int  # observed values a jet
    obs_stride: int  # nodes between two of them
    n_rwd: int  # nodes downstream of a jet in the reward
    reward_scale: float
    blow_up_reward: float
    h_max: float
    q_max: float
    inlet_noise: float


class FilmState(NamedTuple):
    """Hold all films of an environment; the compiled calls change the first six arrays."""

    films: Float64Array  # (n_films, ROWS, n_columns), see schemes
    generators: UInt64Array  # (n_films,) states of the random generators
    old_actions: Float64Array  # (n_films, n_jets) the last action, clipped [-]
    clock: Int64Array  # (n_films, CLOCK)
    observations: Float32Array  # (n_films, n_jets * n_obs) what the film last showed
    jets: Float64Array  # (n_films, n_jets) actions as the jets carry them now [-]
    starts: Float64Array  # (n_starts, START_ROWS, n_nodes) developed films
    jet_nodes: Int64Array  # (n_jets,) nodes of the jets' centres
    jet_shape: Float64Array  # (n_jet_nodes,) dt dq of a jet at u = 1, centre in the middle
    scheme: Scheme
    control: Control


MUTABLE: Final = ("films", "generators", "old_actions", "clock", "observations", "jets")


def make_control(film: FilmParams) -> Control:
    """Return the numbers of the control as the compiled calls use them."""
    return Control(
        n_nodes=film.n_nodes,
        n_steps=film.n_steps,
        n_ramp_steps=film.n_ramp_steps,
        episode_steps=film.episode_steps,
        n_obs=film.n_obs_per_jet,
        obs_stride=round(film.obs_spacing / film.dx),
        n_rwd=round(film.l_rwd / film.dx),
        reward_scale=film.reward_scale,
        blow_up_reward=film.blow_up_reward,
        h_max=film.h_max,
        q_max=film.q_max,
        inlet_noise=film.inlet_noise,
    )


def make_jet_shape(film: FilmParams) -> Float64Array:
    """Return dt times the q_t of one jet at u = 1, on the nodes around its centre.

    dq(x) = sign A 4 (x - x_l)(x_r - x) / (x_r - x_l)^2
    """
    half = int(0.5 * film.jet_width / film.dx + 1e-9)
    s = np.arange(-half, half + 1) * film.dx
    shape = 4.0 * (0.5 * film.jet_width + s) * (0.5 * film.jet_width - s) / film.jet_width**2
    return film.dt * film.jet_sign * film.jet_amplitude * np.maximum(shape, 0.0)


def make_state(film: FilmParams, n_films: int, starts: Float64Array) -> FilmState:
    """Make n_films flat films at rest in time, with `starts` (n_starts, START_ROWS, n_nodes)."""
    n_columns = count_columns(film.n_nodes)
    films = np.ones((n_films, ROWS, n_columns))
    films[:, [INCREMENT_H, INCREMENT_Q]] = 0.0
    scheme = make_scheme(film)
    clock = np.zeros((n_films, CLOCK), dtype=np.int64)
    clock[:, COLD] = 1
    for block in films:
        refresh(block, film.n_nodes, scheme.scale)
    n_obs = film.n_jets * film.n_obs_per_jet
    return FilmState(
        films=films,
        generators=np.zeros(n_films, dtype=np.uint64),
        old_actions=np.zeros((n_films, film.n_jets)),
        clock=clock,
        observations=np.ones((n_films, n_obs), dtype=np.float32),
        jets=np.zeros((n_films, film.n_jets)),
        starts=np.ascontiguousarray(starts),
        jet_nodes=np.array([round(x / film.dx) for x in film.jet_positions], dtype=np.int64),
        jet_shape=make_jet_shape(film),
        scheme=scheme,
        control=make_control(film),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def draw(generators: UInt64Array, film: int) -> float:
    """Draw from [0, 1) with the film's own generator (splitmix64, Steele et al. 2014)."""
    generators[film] += GOLDEN
    z = generators[film]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def push(drag: Float64Array, shape: Float64Array, jet_nodes: Int64Array, u: Float64Array) -> None:
    """Let the jets act on the coming step: what they add to q is taken off the drag."""
    for j in range(jet_nodes.size):
        begin = SHIFT + jet_nodes[j] - shape.size // 2
        for i in range(shape.size):
            drag[begin + i] -= u[j] * shape[i]


@njit(nogil=True, cache=True, error_model="numpy")
def advance(state: FilmState, film: int, actions: Float32Array) -> None:
    """Move one film by one action; `actions` (n_jets,) are finite and clipped here to [-1, 1]."""
    rows, control, scheme = state.films[film], state.control, state.scheme
    old, u = state.old_actions[film], state.jets[film]
    for step in range(control.n_steps):
        alpha = min(step / control.n_ramp_steps, 1.0)
        for j in range(old.size):
            target = min(max(np.float64(actions[j]), -1.0), 1.0)
            u[j] = old[j] + alpha * (target - old[j])
        push(rows[DRAG], state.jet_shape, state.jet_nodes, u)
        inlet_h = 1.0 + control.inlet_noise * (2.0 * draw(state.generators, film) - 1.0)
        step_film(rows, scheme, control.n_nodes, step % 2, state.clock[film], inlet_h)
    if control.n_steps % 2 == 1:
        rows[H], rows[Q], rows[CONVECTED] = rows[NEXT_H], rows[NEXT_Q], rows[NEXT_CONVECTED]
    for j in range(old.size):
        old[j] = min(max(np.float64(actions[j]), -1.0), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def step_film(
    rows: Float64Array, scheme: Scheme, n_nodes: int, odd: int, clock: Int64Array, inlet_h: float
) -> None:
    """Take one numerical step, from H to NEXT_H or back if `odd`, and set the boundaries."""
    new, old = (1.0, 0.0) if clock[COLD] == 1 else (1.5, -0.5)
    clock[COLD] = 0
    h, q, w = rows[H], rows[Q], rows[CONVECTED]
    next_h, next_q, next_w = rows[NEXT_H], rows[NEXT_Q], rows[NEXT_CONVECTED]
    if odd == 1:
        h, q, w, next_h, next_q, next_w = next_h, next_q, next_w, h, q, w
    take_step(
        h, q, w, rows[DRAG], rows[INCREMENT_H], rows[INCREMENT_Q], next_h, next_q, next_w,
        scheme, new, old,
    )  # fmt: skip
    apply_boundaries(next_h, next_q, next_w, n_nodes, scheme.scale, inlet_h)


@njit(nogil=True, cache=True, error_model="numpy")
def is_healthy(state: FilmState, film: int) -> bool:
    """Return whether 0 < h < h_max and |q| < q_max everywhere; false for NaN."""
    h, q, control = state.films[film, H], state.films[film, Q], state.control
    n_bad = 0
    for i in range(SHIFT, SHIFT + control.n_nodes):
        inside = (h[i] > 0.0) & (h[i] < control.h_max) & (abs(q[i]) < control.q_max)
        n_bad += not inside
    return n_bad == 0


@njit(nogil=True, cache=True, error_model="numpy")
def observe(state: FilmState, film: int) -> None:
    """Write q upstream of every jet into state.observations."""
    q, control = state.films[film, Q], state.control
    out = state.observations[film]
    for j in range(state.jet_nodes.size):
        begin = SHIFT + state.jet_nodes[j] - control.n_obs * control.obs_stride
        for k in range(control.n_obs):
            out[j * control.n_obs + k] = q[begin + k * control.obs_stride]


@njit(nogil=True, cache=True, error_model="numpy")
def reward_jets(state: FilmState, film: int, rewards: Float64Array) -> None:
    """Write each jet's reward, or their mean if there is room for one only.

    r_j = -scale / l_rwd * integral of (h - 1)^2 over l_rwd downstream of jet j
    """
    h, control = state.films[film, H], state.control
    n_jets = state.jet_nodes.size
    rewards[:] = 0.0
    for j in range(n_jets):
        begin = SHIFT + state.jet_nodes[j]
        total = 0.0
        for i in range(begin, begin + control.n_rwd):
            total += (h[i] - 1.0) ** 2
        rewards[j % rewards.size] -= control.reward_scale * total / control.n_rwd
    if rewards.size < n_jets:
        rewards[0] /= n_jets


@njit(nogil=True, cache=True, error_model="numpy")
def begin_episode(state: FilmState, film: int, start: int) -> None:
    """Put the film into a start state, drawn from the set if `start` is negative."""
    if start < 0:
        start = int(draw(state.generators, film) * state.starts.shape[0])
    n_nodes = state.control.n_nodes
    for row in range(START_ROWS):
        for i in range(n_nodes):
            state.films[film, row, SHIFT + i] = state.starts[start, row, i]
    refresh(state.films[film], n_nodes, state.scheme.scale)
    state.old_actions[film] = 0.0
    state.jets[film] = 0.0
    clock = state.clock[film]
    clock[STEPS] = 0
    clock[COLD] = 0
    clock[START] = start
    clock[N_EPISODES] += 1
    observe(state, film)


@njit(nogil=True, cache=True, error_model="numpy")
def act(
    state: FilmState, film: int, actions: Float32Array, rewards: Float64Array
) -> tuple[bool, bool]:
    """Move one film by one action without resetting it; return terminated and truncated.

    state.observations keeps what the film last showed when it blows up: it stays finite.
    """
    healthy = bool(np.isfinite(actions).all())
    if healthy:
        advance(state, film, actions)
        healthy = is_healthy(state, film)
    clock = state.clock[film]
    clock[STEPS] += 1
    if healthy:
        observe(state, film)
        reward_jets(state, film, rewards)
        return False, clock[STEPS] >= state.control.episode_steps
    clock[N_BLOW_UPS] += 1
    rewards[:] = state.control.blow_up_reward
    return True, False


@njit(nogil=True, cache=True, error_model="numpy")
def compiled_step(
    state: FilmState,
    group: int,
    actions: Float32Array,
    observations: Float32Array,
    final_observations: Float32Array,
    rewards: Float64Array,
) -> tuple[bool, bool]:
    """Move film `group` by one action and begin its next episode if this one ended (SAME_STEP).

    actions (G, A), observations and final_observations (G, O), rewards (G,): one row an agent.
    """
    terminated, truncated = act(state, group, actions.reshape(-1), rewards)
    shown = state.observations[group].reshape(final_observations.shape)
    final_observations[:] = shown
    if terminated or truncated:
        begin_episode(state, group, -1)
    observations[:] = shown
    return terminated, truncated


@njit(nogil=True, cache=True, error_model="numpy")
def step_all(
    state: FilmState,
    actions: Float32Array,
    observations: Float32Array,
    final_observations: Float32Array,
    rewards: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
) -> None:
    """Move every film by one action; rows of all arrays are agents, a film's agents adjacent."""
    n_films = state.films.shape[0]
    n_agents = rewards.size // n_films
    for film in range(n_films):
        a, b = film * n_agents, (film + 1) * n_agents
        ends = compiled_step(
            state, film, actions[a:b], observations[a:b], final_observations[a:b], rewards[a:b]
        )
        terminated[a:b] = ends[0]
        truncated[a:b] = ends[1]
