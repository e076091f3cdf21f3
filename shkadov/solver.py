"""The compiled calls that move the films."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from shkadov.cache import compiled
from shkadov.film_state import (
    N_BLOW_UPS,
    N_EPISODES,
    NO_HISTORY,
    START,
    STEPS,
    BoolArray,
    Control,
    FilmState,
    Float32Array,
    Float64Array,
    Int64Array,
    UInt64Array,
)
from shkadov.schemes import (
    BACK,
    BASE_H,
    BASE_Q,
    COLD,
    FACTORS,
    FADE,
    FADE_FLUX_H,
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
)
from shkadov.simd import LANES, from_left, from_right, high, lane, load, low, splat, store

Vector = Any  # four float64 numbers, see simd

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
# Operations take_step makes for a node: 10 multiplications, 19 sums and differences, 8 minima and
# maxima, 1 division; counted in its loop, a fused multiply-add as two.
FLOPS_PER_NODE: Final = 38
H_MIN: Final = 1e-300  # below it, h counts as not positive


@compiled()
def draw(generators: UInt64Array, film: int) -> float:
    """Draw from [0, 1) with the film's own generator (splitmix64, Steele et al. 2014)."""
    generators[film] += GOLDEN
    z = generators[film]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@compiled(forceinline=True)
def minmod(a: Vector, b: Vector, zero: Vector) -> Vector:
    """Return the smaller of two slopes of one sign, else 0: b held between 0 and a."""
    return high(low(a, zero), low(high(a, zero), b))


# Every sum here has one product at most, so there is one way to contract it to a fused
# multiply-add: a film's bits depend neither on its lane nor on what this is inlined into.
@compiled()
def take_step(film: Float64Array, factors: Float64Array, first: int, lane_rows: int) -> None:
    """Take one time step of all moving nodes in place, in one pass with one division a node.

    `film` and `factors` are flat, the factors of this step begin at `first`.

    Carried from row to row: q and w = k q^2/h of this row, their differences to the row before and
    the fluxes of that row, the drag of this row, k/h of the next, and differences of h up to the
    third, two rows ahead.
    """
    zero, half = splat(0.0), load(factors, first + HALF * LANES)
    root = load(factors, first + ROOT * LANES)
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
        inverse_next = load(factors, first + ROOT * LANES) / h_ahead
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
        lift = load(factors, first + PULL * LANES) + load(factors, first + THIRD_3 * LANES) * twist
        lift = lift - load(factors, first + THIRD * LANES) * twist_next
        rate_q = load(film, o) * lift - drag
        rate_q = rate_q + load(factors, first + FLUX_Q * LANES) * (flux_w - flux_w_next)
        gain_h = flux_q - flux_q_next
        new_q = load(film, o + BASE_Q * LANES) + rate_q
        new_h = load(film, o + BASE_H * LANES) + load(factors, first + FLUX_H * LANES) * gain_h
        store(film, o + Q * LANES, new_q)
        store(film, o + BASE_Q * LANES, new_q - load(factors, first + FADE * LANES) * rate_q)
        store(film, o, new_h)
        store(film, o + BASE_H * LANES, new_h - load(factors, first + FADE_FLUX_H * LANES) * gain_h)
        q, w, drag, inverse = q_next, w_next, drag_next, inverse_next
        step_q, step_w, flux_q, flux_w = step_q_next, step_w_next, flux_q_next, flux_w_next
        rise, bend, twist = rise_next, bend_next, twist_next


@compiled()
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
    # The idle nodes that fill the last lane up: nobody reads them, but they must stay finite.
    for row in range(1, lane_rows - last_row):
        film[last + row * ROW + Q * LANES] = film[last + Q * LANES]
        film[last + row * ROW + BASE_H * LANES] = 1.0
        film[last + row * ROW + BASE_Q * LANES] = 1.0


@compiled()
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


@compiled()
def advance(state: FilmState, film: int, nodes: Float64Array, actions: Float32Array) -> None:
    """Move film number `film`, flat in `nodes`, by one action.

    `actions` (n_jets,) are finite, and clipped here to [-1, 1].
    """
    control, old, u = state.control, state.old_actions[film], state.jets[film]
    clock = state.clock[film]
    factors, rows, shapes = state.factors.reshape(-1), state.jet_rows, state.jet_shapes
    for step in range(control.n_steps):
        first = (COLD if clock[NO_HISTORY] == 1 else WARM) * FACTORS * LANES
        clock[NO_HISTORY] = 0
        take_step(nodes, factors, first, control.lane_rows)
        alpha = min(step / control.n_ramp_steps, 1.0)
        for j in range(old.size):
            u[j] = old[j] + alpha * (min(max(np.float64(actions[j]), -1.0), 1.0) - old[j])
        push(nodes, factors[first + FADE * LANES], rows, shapes, u)
        inlet_h = 1.0 + control.inlet_noise * (2.0 * draw(state.generators, film) - 1.0)
        join_lanes(nodes, control.lane_rows, control.last_row, inlet_h)
    for j in range(old.size):
        old[j] = min(max(np.float64(actions[j]), -1.0), 1.0)


@compiled()
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


@compiled()
def observe(film: Float64Array, places: Int64Array, out: Float32Array) -> None:
    """Write q at the observed places into `out`."""
    for k in range(places.size):
        out[k] = film[places[k] + Q * LANES]


@compiled()
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


@compiled()
def begin_episode(state: FilmState, film: int, start: int) -> None:
    """Put the film into a start state, drawn from the set if `start` is negative."""
    nodes, clock, old = state.films[film].reshape(-1), state.clock[film], state.old_actions[film]
    n_starts = state.starts.shape[0]
    if start < 0:
        start = int(draw(state.generators, film) * n_starts)
    begin = state.starts[start].reshape(-1)
    # Loops and not slices: they take a tenth of the time to compile.
    for i in range(nodes.size):
        nodes[i] = begin[i]
    for j in range(old.size):
        old[j] = 0.0
        state.jets[film, j] = 0.0
    clock[STEPS] = 0
    clock[NO_HISTORY] = 0
    clock[START] = start
    clock[N_EPISODES] += 1
    observe(nodes, state.obs_places, state.observations[film])


@compiled()
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
    for k in range(rewards.size):
        rewards[k] = control.blow_up_reward
    return True, False


@compiled()
def show(observations: Float32Array, out: Float32Array) -> None:
    """Copy what a film shows into rows of the caller."""
    for k in range(observations.size):
        out[k] = observations[k]


@compiled()
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
    shown = state.observations[group]
    show(shown, final_observations.reshape(-1))
    if terminated or truncated:
        begin_episode(state, group, -1)
    show(shown, observations.reshape(-1))
    return terminated, truncated


@compiled()
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
        for k in range(a, b):
            terminated[k], truncated[k] = ends


@compiled()
def run_free(state: FilmState, film: int, n_actions: int) -> bool:
    """Let an uncontrolled film run on for n_actions; return whether it is healthy."""
    actions = np.zeros(state.old_actions.shape[1], dtype=np.float32)
    nodes = state.films[film].reshape(-1)
    for _ in range(n_actions):
        advance(state, film, nodes, actions)
    return is_healthy(nodes, state.control)
