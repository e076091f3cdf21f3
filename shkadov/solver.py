"""The films of an environment as one block of arrays, and the compiled calls that move them.

All compiled code of the film is in this file, because numba's cache looks at one file only.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shkadov.params import FilmParams
from shkadov.schemes import (
    BACK,
    BASE_H,
    BASE_Q,
    COLD,
    FADE,
    FADE_FLUX_H,
    FIELDS,
    FLUX_H,
    FLUX_Q,
    FRONT,
    HALF,
    PULL,
    ROOT,
    ROW,
    THIRD,
    THIRD_3,
    WARM,
    H,
    Q,
    aligned,
    count_lane_rows,
    count_rows,
    make_factors,
    pack,
    place_jets,
    place_nodes,
)
from shkadov.simd import LANES, from_left, from_right, high, lane, load, low, splat, store

BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Vector = Any  # four float64 numbers, see simd

# Columns of FilmState.clock.
STEPS: Final = 0  # actions since the start of the episode
NO_HISTORY: Final = 1  # 1 until the film has made its first step
START: Final = 2  # index of the start state of the episode
N_EPISODES: Final = 3  # episodes begun
N_BLOW_UPS: Final = 4  # episodes ended by a blow-up
CLOCK: Final = 5

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
H_MIN: Final = 1e-300  # below it, h counts as not positive


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


def make_state(film: FilmParams, n_films: int, starts: Float64Array) -> FilmState:
    """Make n_films flat films without history, with start states (n_starts, FIELDS, n_nodes)."""
    clock = np.zeros((n_films, CLOCK), dtype=np.int64)
    clock[:, NO_HISTORY] = 1
    place = place_nodes(film.n_nodes)
    jets = np.array([round(x / film.dx) for x in film.jet_positions])[:, None]
    jet_rows, jet_shapes = place_jets(film)
    n_obs, stride = film.n_obs_per_jet, round(film.obs_spacing / film.dx)
    return FilmState(
        films=aligned(np.ones((n_films, count_rows(film.n_nodes), FIELDS, LANES))),
        generators=np.zeros(n_films, dtype=np.uint64),
        old_actions=np.zeros((n_films, film.n_jets)),
        clock=clock,
        observations=np.ones((n_films, film.n_jets * n_obs), dtype=np.float32),
        jets=np.zeros((n_films, film.n_jets)),
        starts=pack(starts, film.n_nodes),
        factors=make_factors(film),
        jet_rows=jet_rows,
        jet_shapes=jet_shapes,
        obs_places=place[jets + stride * (np.arange(n_obs) - n_obs)].reshape(-1),
        rwd_places=place[jets + np.arange(round(film.l_rwd / film.dx))],
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


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def minmod(a: Vector, b: Vector, zero: Vector) -> Vector:
    """Return the smaller of two slopes of one sign, else 0: b held between 0 and a."""
    return high(low(a, zero), low(high(a, zero), b))


# No nnan or ninf: the blow-up check must see NaN and infinity. Contraction to fused multiply-adds
# is the same in every lane, so a film's bits do not depend on its neighbours in a batch.
@njit(nogil=True, cache=True, error_model="numpy")
def take_step(film: Float64Array, factors: Float64Array, lane_rows: int) -> None:
    """Take one time step of all moving nodes in place, in one pass with one division a node.

    `film` (n_rows * ROW,) and `factors` (FACTORS * LANES,) are flat. Carried from row to row: q and
    w = k q^2/h of this row, their differences to the row before, the fluxes of the row before, the
    drag of this row, k/h of the next, and differences of h up to the third, two rows ahead.
    """
    zero, half = splat(0.0), load(factors, HALF * LANES)
    root = load(factors, ROOT * LANES)
    o = (FRONT - 2) * ROW
    h_0, q_0 = load(film, o), load(film, o + Q * LANES)
    h_1, q_1 = load(film, o + ROW), load(film, o + ROW + Q * LANES)
    h_2, q = load(film, o + 2 * ROW), load(film, o + 2 * ROW + Q * LANES)
    h_3, h_4 = load(film, o + 3 * ROW), load(film, o + 4 * ROW)
    w_0, w_1 = q_0 * (q_0 * (root / h_0)), q_1 * (q_1 * (root / h_1))
    inverse = root / h_2
    ratio = q * inverse
    w, drag = q * ratio, ratio * inverse
    step_q, step_w = q - q_1, w - w_1
    flux_q = q_1 + half * minmod(q_1 - q_0, step_q, zero)
    flux_w = w_1 + half * minmod(w_1 - w_0, step_w, zero)
    inverse = root / h_3
    rise = h_4 - h_3
    bend = rise - (h_3 - h_2)
    twist = bend - ((h_3 - h_2) - (h_2 - h_1))
    for row in range(lane_rows):
        o = (FRONT + row) * ROW
        # The order is for the processor: the division first, and what depends on it last.
        h_ahead = load(film, o + 2 * ROW)
        inverse_next = load(factors, ROOT * LANES) / h_ahead
        q_next = load(film, o + ROW + Q * LANES)
        ratio = q_next * inverse
        w_next = q_next * ratio
        drag_next = ratio * inverse
        step_q_next = q_next - q
        flux_q_next = q + half * minmod(step_q, step_q_next, zero)
        step_w_next = w_next - w
        flux_w_next = w + half * minmod(step_w, step_w_next, zero)
        rise_next = load(film, o + 3 * ROW) - h_ahead
        bend_next = rise_next - rise
        twist_next = bend_next - bend
        # 1 + h_xxx, where -h_{i+3} + 6 h_{i+2} - 12 h_{i+1} + 10 h_i - 3 h_{i-1} is three times a
        # third difference less the next one.
        lift = load(factors, PULL * LANES) + load(factors, THIRD_3 * LANES) * twist
        lift = lift - load(factors, THIRD * LANES) * twist_next
        rate_q = load(film, o) * lift - drag
        rate_q = rate_q + load(factors, FLUX_Q * LANES) * (flux_w - flux_w_next)
        gain_h = flux_q - flux_q_next
        new_q = load(film, o + BASE_Q * LANES) + rate_q
        new_h = load(film, o + BASE_H * LANES) + load(factors, FLUX_H * LANES) * gain_h
        store(film, o + Q * LANES, new_q)
        store(film, o + BASE_Q * LANES, new_q - load(factors, FADE * LANES) * rate_q)
        store(film, o, new_h)
        store(film, o + BASE_H * LANES, new_h - load(factors, FADE_FLUX_H * LANES) * gain_h)
        q, w, drag, inverse = q_next, w_next, drag_next, inverse_next
        step_q, step_w, flux_q, flux_w = step_q_next, step_w_next, flux_q_next, flux_w_next
        rise, bend, twist = rise_next, bend_next, twist_next


@njit(nogil=True, cache=True, error_model="numpy")
def join_lanes(film: Float64Array, lane_rows: int, last_row: int, inlet_h: float) -> None:
    """Set the rows around the moving nodes: adjacent lanes, inlet (inlet_h, 1), outlet, ghosts."""
    front, back = (FRONT - 2) * ROW, (FRONT + lane_rows) * ROW
    for row in range(2):
        end = back + (row - 2) * ROW
        store(film, front + row * ROW, from_left(load(film, end), inlet_h))
        store(film, front + row * ROW + Q * LANES, from_left(load(film, end + Q * LANES), 1.0))
    for row in range(BACK):
        store(film, back + row * ROW, from_right(load(film, (FRONT + row) * ROW)))
    store(film, back + Q * LANES, from_right(load(film, FRONT * ROW + Q * LANES)))
    # Zero gradient at the outlet, then the cubic through the last four nodes.
    last = (FRONT + last_row) * ROW + LANES - 1
    a, b, c = film[last], film[last - ROW], film[last - 2 * ROW]
    film[last + ROW] = a
    film[last + ROW + Q * LANES] = film[last + Q * LANES]
    film[last + 2 * ROW] = 4.0 * b - 2.0 * a - c
    film[last + 3 * ROW] = 15.0 * b - 10.0 * a - 4.0 * c


@njit(nogil=True, cache=True, error_model="numpy")
def push(
    film: Float64Array, fade: float, rows: Int64Array, shapes: Float64Array, u: Float64Array
) -> None:
    """Add what the jets did to q during the step just taken, and to its base; `shapes` is flat."""
    n_rows = rows.size // u.size
    for j in range(u.size):
        gain = 0.5 / fade * u[j]
        to_q, to_base = splat(gain), splat(gain - 0.5 * u[j])
        for i in range(j * n_rows, (j + 1) * n_rows):
            shape, o = load(shapes, i * LANES), rows[i]
            q, base = load(film, o + Q * LANES), load(film, o + BASE_Q * LANES)
            store(film, o + Q * LANES, q + to_q * shape)
            store(film, o + BASE_Q * LANES, base + to_base * shape)


@njit(nogil=True, cache=True, error_model="numpy")
def advance(state: FilmState, film: int, nodes: Float64Array, actions: Float32Array) -> None:
    """Move film number `film`, flat in `nodes`, by one action.

    `actions` (n_jets,) are finite, and clipped here to [-1, 1].
    """
    control, old, u = state.control, state.old_actions[film], state.jets[film]
    clock = state.clock[film]
    warm, cold = state.factors[WARM].reshape(-1), state.factors[COLD].reshape(-1)
    rows, shapes = state.jet_rows, state.jet_shapes
    for step in range(control.n_steps):
        alpha = min(step / control.n_ramp_steps, 1.0)
        for j in range(old.size):
            u[j] = old[j] + alpha * (min(max(np.float64(actions[j]), -1.0), 1.0) - old[j])
        inlet_h = 1.0 + control.inlet_noise * (2.0 * draw(state.generators, film) - 1.0)
        if clock[NO_HISTORY] == 1:
            clock[NO_HISTORY] = 0
            take_step(nodes, cold, control.lane_rows)
            push(nodes, cold[FADE * LANES], rows, shapes, u)
        else:
            take_step(nodes, warm, control.lane_rows)
            push(nodes, warm[FADE * LANES], rows, shapes, u)
        join_lanes(nodes, control.lane_rows, control.last_row, inlet_h)
    for j in range(old.size):
        old[j] = min(max(np.float64(actions[j]), -1.0), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def is_healthy(film: Float64Array, control: Control) -> bool:
    """Return whether 0 < h < h_max and |q| < q_max at all moving nodes; false for NaN."""
    h_low, q_low, total = splat(1.0), splat(1.0), splat(0.0)
    h_high, q_high = h_low, q_low
    for row in range(control.last_row + 1):
        o = (FRONT + row) * ROW
        h, q = load(film, o), load(film, o + Q * LANES)
        h_low, h_high = low(h, h_low), high(h, h_high)
        q_low, q_high = low(q, q_low), high(q, q_high)
        # Comparisons pass over NaN, this sum does not; infinities the comparisons find.
        total = total + (h + q)
    healthy = True
    for k in range(LANES):
        inside = (lane(h_low, k) >= H_MIN) & (lane(h_high, k) < control.h_max)
        inside &= max(-lane(q_low, k), lane(q_high, k)) < control.q_max
        healthy &= inside & (lane(total, k) == lane(total, k))
    # The last lane is shorter than the others.
    for row in range(control.last_row + 1, control.lane_rows):
        for k in range(LANES - 1):
            h_k, q_k = film[(FRONT + row) * ROW + k], film[(FRONT + row) * ROW + Q * LANES + k]
            healthy &= (h_k >= H_MIN) & (h_k < control.h_max) & (abs(q_k) < control.q_max)
    return healthy


@njit(nogil=True, cache=True, error_model="numpy")
def observe(film: Float64Array, places: Int64Array, out: Float32Array) -> None:
    """Write q at the observed places into `out`."""
    for k in range(places.size):
        out[k] = film[places[k] + Q * LANES]


@njit(nogil=True, cache=True, error_model="numpy")
def reward_jets(
    film: Float64Array, places: Int64Array, scale: float, rewards: Float64Array
) -> None:
    """Write each jet's reward, or their mean if there is room for one only.

    r_j = -scale / l_rwd * integral of (h - 1)^2 over l_rwd downstream of jet j
    """
    n_jets, n_rwd = places.shape
    share = scale * rewards.size / (n_jets * n_rwd)
    total = 0.0
    for j in range(n_jets):
        for i in range(n_rwd):
            total += (film[places[j, i] + H * LANES] - 1.0) ** 2
        if rewards.size == n_jets:
            rewards[j] = -share * total
            total = 0.0
    if rewards.size < n_jets:
        rewards[0] = -share * total


@njit(nogil=True, cache=True, error_model="numpy")
def begin_episode(state: FilmState, film: int, start: int) -> None:
    """Put the film into a start state, drawn from the set if `start` is negative."""
    if start < 0:
        start = int(draw(state.generators, film) * state.starts.shape[0])
    state.films[film] = state.starts[start]
    control, nodes = state.control, state.films[film].reshape(-1)
    join_lanes(nodes, control.lane_rows, control.last_row, nodes[(FRONT - 1) * ROW])
    state.old_actions[film] = 0.0
    clock = state.clock[film]
    clock[STEPS] = 0
    clock[NO_HISTORY] = 0
    clock[START] = start
    clock[N_EPISODES] += 1
    observe(nodes, state.obs_places, state.observations[film])


@njit(nogil=True, cache=True, error_model="numpy")
def act(
    state: FilmState, film: int, actions: Float32Array, rewards: Float64Array
) -> tuple[bool, bool]:
    """Move one film by one action without resetting it; return terminated and truncated.

    state.observations keeps what the film last showed when it blows up: it stays finite.
    """
    control, nodes, clock = state.control, state.films[film].reshape(-1), state.clock[film]
    healthy = True
    for j in range(actions.size):
        healthy &= np.isfinite(actions[j])
    if healthy:
        advance(state, film, nodes, actions)
        healthy = is_healthy(nodes, control)
    clock[STEPS] += 1
    if healthy:
        observe(nodes, state.obs_places, state.observations[film])
        reward_jets(nodes, state.rwd_places, control.reward_scale, rewards)
        return False, clock[STEPS] >= control.episode_steps
    clock[N_BLOW_UPS] += 1
    rewards[:] = control.blow_up_reward
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


@njit(nogil=True, cache=True, error_model="numpy")
def develop(state: FilmState, film: int, wait: int, spacing: int, out: Float64Array) -> None:
    """Let an uncontrolled film run `wait` actions, then store it every `spacing` ones in `out`."""
    actions = np.zeros(state.old_actions.shape[1], dtype=np.float32)
    for k in range(out.shape[0]):
        for _ in range(wait if k == 0 else spacing):
            advance(state, film, state.films[film].reshape(-1), actions)
        out[k] = state.films[film]
