from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from shkadov import solver
from shkadov.film_state import N_BLOW_UPS, NO_HISTORY, FilmState, make_state
from shkadov.params import FilmParams
from shkadov.schemes import BASE_H, H, Q, unpack

from .films import act, film_state, flow_rates, heights, quick_film
from .reference import ReferenceFilm, jet_forcing

Float64Array = NDArray[np.float64]
Complex128Array = NDArray[np.complex128]
# What third differences over dx^3 = 0.008 make of the last digit in a thousand steps.
ROUNDING = 1e-9


def smooth_film(film: FilmParams, seed: int = 0) -> tuple[Float64Array, Float64Array]:
    """Heights and flow rates of a few waves, flat at the inlet."""
    rng = np.random.default_rng(seed)
    s = np.linspace(0.0, 1.0, film.n_nodes)
    h, q = np.ones((2, film.n_nodes))
    for k in range(1, 6):
        h += 0.04 * rng.normal() * np.sin(np.pi * k * s) ** 2
        q += 0.04 * rng.normal() * np.sin(np.pi * k * s) ** 2
    h[-1], q[-1] = h[-2], q[-2]
    return h, q


@pytest.mark.parametrize("preset", ["paper", "beacon"])
@pytest.mark.parametrize("n_jets", [1, 5])
def test_actions_move_the_film_as_the_reference_does(preset: str, n_jets: int) -> None:
    film = quick_film(preset, n_jets=n_jets, inlet_noise=0.0)
    h, q = smooth_film(film)
    state = film_state(film, h, q)
    reference = ReferenceFilm(film, h.copy(), q.copy())
    rng = np.random.default_rng(2)
    for _ in range(20):
        action = rng.uniform(-1.0, 1.0, n_jets).astype(np.float32)
        reward, _, _ = act(state, action)
        reference.act(action.astype(np.float64))
        np.testing.assert_allclose(heights(state, film), reference.h, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(flow_rates(state, film), reference.q, rtol=0, atol=ROUNDING)
        x = np.arange(film.n_nodes) * film.dx
        squares = [
            np.mean((reference.h[(x > p - 1e-9) & (x < p + film.l_rwd - 1e-9)] - 1.0) ** 2)
            for p in film.jet_positions
        ]
        assert reward == pytest.approx(-film.reward_scale * float(np.mean(squares)), rel=1e-9)
        at = [p - 10.0 + k for p in film.jet_positions for k in range(10)]
        seen = reference.q[np.round(np.array(at) / film.dx).astype(int)]
        np.testing.assert_allclose(state.observations[0], seen, rtol=1e-6)


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-1.0, 1.0, width=32),
    st.sampled_from(["paper", "beacon"]),
    st.integers(0, 3),
)
def test_any_film_moves_as_the_reference_does(seed: int, u: float, preset: str, idle: int) -> None:
    upstream = 60.0 + idle * 0.2 if preset == "beacon" else 60.0 + idle * 0.5
    film = quick_film(preset, inlet_noise=0.0, L0=upstream, first_jet=60.0)
    h, q = smooth_film(film, seed)
    state, reference = film_state(film, h, q), ReferenceFilm(film, h.copy(), q.copy())
    for _ in range(3):
        act(state, u)
        reference.act(np.array([u]))
    np.testing.assert_allclose(heights(state, film), reference.h, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(flow_rates(state, film), reference.q, rtol=0, atol=ROUNDING)


def test_time_steps_are_of_second_order() -> None:
    ends = []
    for dt in (0.002, 0.001, 0.0005, 0.00025):
        film = quick_film(
            dt=dt, dt_action=0.5, dt_ramp=0.5, inlet_noise=0.0, dx=0.5, episode_time=10.0,
            start_spacing=2.0,
        )  # fmt: skip
        h, q = smooth_film(film)
        state = film_state(film, h, q)
        for _ in range(2):
            act(state, 0.0)
        ends.append(heights(state, film))
    changes = [float(np.abs(a - b).mean()) for a, b in pairwise(ends)]
    order = np.log2(changes[0] / changes[1]), np.log2(changes[1] / changes[2])
    assert order[-1] == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("preset", ["paper", "beacon"])
def test_mass_changes_by_inlet_minus_outlet_flow_only(preset: str) -> None:
    # One numerical step an action, so that every step can be looked at.
    dt = FilmParams.preset(preset).dt
    film = quick_film(preset, n_jets=3, dt_action=dt, dt_ramp=dt, episode_time=1000 * dt)
    state = film_state(film, *smooth_film(film))
    state.generators[:] = 5
    old_flow = None
    for k in range(200):
        mass, flow = heights(state, film)[1:-1].sum() * film.dx, 1.0 - flow_rates(state, film)[-2]
        act(state, np.sin(0.1 * k + np.arange(3)))
        change = heights(state, film)[1:-1].sum() * film.dx - mass
        expected = dt * (flow if old_flow is None else 1.5 * flow - 0.5 * old_flow)
        assert change == pytest.approx(expected, abs=1e-12)
        old_flow = flow


@pytest.mark.parametrize(("preset", "sign"), [("paper", 1.0), ("beacon", -1.0)])
def test_a_jet_acts_at_its_place_only_and_with_its_integral(preset: str, sign: float) -> None:
    film = quick_film(preset, n_jets=3)
    dt = film.dt
    film = quick_film(preset, n_jets=3, dt_action=dt, dt_ramp=dt, episode_time=100 * dt)
    pushed, still = (film_state(film, *smooth_film(film)) for _ in range(2))
    for state in (pushed, still):
        act(state, np.zeros(3))
        state.old_actions[...] = 0.0
    pushed.old_actions[0, 1] = 1.0  # the first step still has the old action
    act(pushed, [0.0, 1.0, 0.0])
    act(still, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(heights(pushed, film), heights(still, film))
    difference = flow_rates(pushed, film) - flow_rates(still, film)
    x = np.arange(film.n_nodes) * film.dx
    outside = np.abs(x - film.jet_positions[1]) >= film.jet_width / 2
    np.testing.assert_array_equal(difference[outside], 0.0)
    np.testing.assert_allclose(
        difference, 1.5 * dt * jet_forcing(film, np.array([0.0, 1.0, 0.0])), atol=1e-14
    )
    # The integral of a parabola of height A and width 4 is 2/3 A 4; sums fall short by dx^2.
    integral = difference.sum() * film.dx / (1.5 * dt)
    exact = sign * 2.0 / 3.0 * film.jet_amplitude * film.jet_width
    assert integral == pytest.approx(exact * (1.0 - (film.dx / film.jet_width) ** 2), rel=1e-9)


def test_a_full_action_lowers_q_at_the_beacon_jet_by_a_fifth() -> None:
    film = quick_film("beacon", inlet_noise=0.0)
    state = film_state(film, *np.ones((2, film.n_nodes)))
    act(state, 1.0)
    at_jet = flow_rates(state, film)[round(film.first_jet / film.dx)]
    assert at_jet == pytest.approx(1.0 - 0.19, abs=0.01)


@pytest.mark.parametrize("preset", ["paper", "beacon"])
def test_a_flat_film_without_noise_stays_flat(preset: str) -> None:
    film = quick_film(preset, inlet_noise=0.0)
    state = film_state(film, *np.ones((2, film.n_nodes)))
    for _ in range(200):
        reward, terminated, _ = act(state, 0.0)
        assert not terminated
    np.testing.assert_allclose(state.films[0], 1.0, rtol=0, atol=1e-12)
    assert reward == pytest.approx(0.0, abs=1e-20)


def test_actions_beyond_the_box_are_clipped_and_left_as_they_are() -> None:
    film = quick_film(inlet_noise=0.0)
    one, many = (film_state(film, *smooth_film(film)) for _ in range(2))
    actions = np.array([7.0], dtype=np.float32)
    rewards = np.empty(1)
    for _ in range(5):
        solver.act(one, 0, actions, rewards)
        act(many, 1.0)
    np.testing.assert_array_equal(one.films, many.films)
    assert actions[0] == 7.0


UNHEALTHY = [
    *((H, value) for value in (np.nan, np.inf, -np.inf, 50.0, 0.0, -1.0)),
    *((Q, value) for value in (np.nan, np.inf, -np.inf, 50.0, -50.0)),
]


# Nodes at the ends of the lanes, where the check might stop short.
@pytest.mark.parametrize("node", [1, 2, 45, 46, 88, 89, 90, 133, 134, -3, -2])
@pytest.mark.parametrize(("field", "value"), UNHEALTHY)
def test_every_unhealthy_node_is_seen(field: int, value: float, node: int) -> None:
    film = quick_film(h_max=50.0, q_max=50.0)
    fields = np.ones((2, film.n_nodes))
    state = film_state(film, *fields)
    nodes = state.films[0].reshape(-1)
    assert solver.is_healthy(nodes, state.control)
    fields[field, node] = value
    state = film_state(film, *fields)
    assert not solver.is_healthy(state.films[0].reshape(-1), state.control)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6, -1.0])
def test_a_blow_up_ends_the_episode_with_finite_numbers(value: float) -> None:
    film = quick_film()
    state = film_state(film, *smooth_film(film))
    act(state, 0.0)
    before = state.observations.copy()
    state.films[0, 20:30, [H, BASE_H]] = value
    reward, terminated, truncated = act(state, 0.0)
    assert (reward, terminated, truncated) == (film.blow_up_reward, True, False)
    np.testing.assert_array_equal(state.observations, before)
    assert state.clock[0, N_BLOW_UPS] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_compiled_action_that_is_not_finite_counts_as_blow_up(value: float) -> None:
    film = quick_film(n_jets=3)
    state = film_state(film, *smooth_film(film))
    reward, terminated, truncated = act(state, [0.0, value, 0.0])
    assert (reward, terminated, truncated) == (film.blow_up_reward, True, False)


def test_terminated_wins_over_truncated() -> None:
    film = quick_film(episode_time=0.05)
    state = film_state(film, *smooth_film(film))
    state.films[0, 20, [H, BASE_H]] = np.nan
    assert act(state, 0.0)[1:] == (True, False)


def test_no_history_is_left_after_the_start_of_an_episode() -> None:
    film = quick_film()
    starts = film_state(film, *smooth_film(film)).films
    fresh, used = (make_state(film, 1, starts) for _ in range(2))
    for _ in range(10):
        act(used, 1.0)
    for state in (fresh, used):
        state.generators[:] = 3
        solver.begin_episode(state, 0, 0)
        for _ in range(5):
            act(state, 0.3)
    for name in ("films", "generators", "old_actions", "observations", "jets"):
        np.testing.assert_array_equal(getattr(fresh, name), getattr(used, name))


def test_numbers_drawn_are_those_of_splitmix64() -> None:
    # The first outputs for the seed 1234567, from the generator's reference implementation.
    generators = np.array([1234567], dtype=np.uint64)
    words = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    drawn = [solver.draw(generators, 0) for _ in words]
    assert drawn == [(word >> 11) * 2.0**-53 for word in words]


@njit(nogil=True)
def force_inlet(
    state: FilmState, amplitude: float, omega: float, dt: float, n_wait: int, n_record: int,
    every: int, out: Float64Array,
) -> None:  # fmt: skip
    """Shake the inlet's height at one frequency; record the film in `out` after a wait."""
    nodes, factors = state.films[0].reshape(-1), state.factors.reshape(-1)
    control = state.control
    for k in range(n_wait + n_record):
        first = factors.size // 2 if state.clock[0, NO_HISTORY] == 1 else 0
        state.clock[0, NO_HISTORY] = 0
        solver.take_step(nodes, factors, first, control.lane_rows)
        inlet = 1.0 + amplitude * np.cos(omega * (k + 1) * dt)
        solver.join_lanes(nodes, control.lane_rows, control.last_row, inlet)
        if k >= n_wait and (k - n_wait) % every == 0:
            out[(k - n_wait) // every] = state.films[0]


def dispersion(omega: float, delta: float) -> complex:
    """The wave number k of the wave that grows downstream at a real frequency.

    -i w^2 + (12/5) i w k - (6/5) i k^2 = p (-i k^4 + 3 k - w)
    """
    p = 1.0 / (5.0 * delta)
    roots = np.roots([1j * p, 0.0, -1.2j, 2.4j * omega - 3.0 * p, p * omega - 1j * omega**2])
    growing = [k for k in roots if k.real > 0.0 and -0.3 < k.imag < 0.0]
    return complex(min(growing, key=lambda k: abs(k.imag)))


def measured_wave_number(omega: float, dx: float, dt: float) -> complex:
    film = FilmParams(dx=dx, dt=dt, inlet_noise=0.0, dt_action=0.05, L0=90.0, first_jet=80.0)
    state = film_state(film, *np.ones((2, film.n_nodes)))
    period = round(2.0 * np.pi / omega / dt)
    omega = 2.0 * np.pi / (period * dt)  # a whole number of steps a period
    every = max(1, period // 64)
    n_record = 4 * period
    out = np.empty((-(-n_record // every), *state.films.shape[1:]))
    force_inlet(state, 1e-7, omega, dt, round(80.0 / dt), n_record, every, out)
    h = unpack(out, film.n_nodes)[:, H] - 1.0
    times = np.arange(out.shape[0]) * every * dt
    amplitude: Complex128Array = np.exp(1j * omega * times) @ h
    x = np.arange(film.n_nodes) * dx
    inside = (x > 25.0) & (x < 75.0)
    log = np.log(np.abs(amplitude[inside])) + 1j * np.unwrap(np.angle(amplitude[inside]))
    slope = np.polyfit(x[inside], log, 1)[0]
    return complex(slope.imag, -slope.real)


# Frequency, and growth rates measured on both grids with a plain implementation of this scheme.
@pytest.mark.parametrize(
    ("omega", "coarse_growth", "fine_growth"),
    [(1.0, 0.0429, 0.0461), (2.0, 0.0567, 0.0738), (3.0, -0.0064, 0.0162)],
)
def test_waves_grow_and_travel_as_the_dispersion_relation_says(
    omega: float, coarse_growth: float, fine_growth: float
) -> None:
    theory = dispersion(omega, 0.1)
    coarse = measured_wave_number(omega, 0.5, 0.005)
    fine = measured_wave_number(omega, 0.2, 0.001)
    assert -coarse.imag == pytest.approx(coarse_growth, abs=0.001)
    assert -fine.imag == pytest.approx(fine_growth, abs=0.001)
    assert abs(fine.imag - theory.imag) < 0.4 * abs(coarse.imag - theory.imag)
    for k in (coarse, fine):
        assert k.real == pytest.approx(theory.real, rel=0.02)
