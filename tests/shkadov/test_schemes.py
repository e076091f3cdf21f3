from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from shkadov.params import FilmParams
from shkadov.schemes import FIELDS, ROW, aligned, pack, place_jets, place_nodes, unpack
from shkadov.simd import LANES

from .films import compiled_rates, quick_film
from .reference import right_hand_sides

Float64Array = NDArray[np.float64]
GRIDS = (0.5, 0.25, 0.125, 0.0625)
# Appendix B of Viquerat & Hachem (2023): h = cos(w t - k x), q = w/k h.
OMEGA, K, TIME = 2.3, 0.77, 1.2


def fine_film(dx: float) -> FilmParams:
    # delta = 1: a grid this fine is stable there.
    return quick_film(
        delta=1.0, dx=dx, dt=1e-4, dt_action=1e-3, dt_ramp=1e-3, episode_time=1.0, L0=20.0,
        first_jet=20.0, h_max=100.0,
    )  # fmt: skip


def positions(film: FilmParams) -> Float64Array:
    x: Float64Array = np.arange(film.n_nodes, dtype=np.float64) * film.dx
    return x


def outlet(film: FilmParams) -> float:
    """The middle between the last two nodes, where the gradient of h and q is zero."""
    return (film.n_nodes - 1.5) * film.dx


def orders(errors: list[float]) -> Float64Array:
    """Observed order between each two grids, each half as wide as the one before."""
    observed: Float64Array = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    return observed


def norms(error: Float64Array) -> tuple[float, float, float]:
    return (
        float(np.mean(np.abs(error))),
        float(np.sqrt(np.mean(error**2))),
        float(np.max(np.abs(error))),
    )


def test_convection_is_of_second_order_in_l1_and_clips_extrema() -> None:
    errors = []
    for dx in GRIDS:
        film = fine_film(dx)
        x = positions(film)
        phase = OMEGA * TIME - K * x
        rate, _ = compiled_rates(film, np.ones_like(x), OMEGA / K * np.cos(phase))
        inner = slice(3, -1)  # the inlet is held at q = 1, the outlet at zero gradient
        exact = -OMEGA * np.sin(phase[1:-1])
        errors.append(norms((rate - exact)[inner]))
    l1, l2, linf = (orders([e[k] for e in errors])[-1] for k in range(3))
    assert l1 == pytest.approx(2.0, abs=0.1)
    assert l2 == pytest.approx(1.5, abs=0.1)
    assert linf == pytest.approx(1.0, abs=0.1)


def test_third_derivative_is_of_second_order_inside_and_first_at_the_outlet() -> None:
    inside, last, one_before = [], [], []
    for dx in GRIDS:
        film = fine_film(dx)
        x = positions(film)
        s = K * (x - outlet(film))
        h = 2.0 + np.cos(s)
        _, rate = compiled_rates(film, h, np.zeros_like(x))
        # Where q = 0: q_t = p h (1 + h_xxx).
        measured = rate * 5.0 * film.delta / h[1:-1] - 1.0
        error = np.abs(measured - K**3 * np.sin(s[1:-1]))
        inside.append(float(error[3:-4].max()))
        one_before.append(float(error[-2]))
        last.append(float(error[-1]))
    assert orders(inside)[-1] == pytest.approx(2.0, abs=0.1)
    assert orders(one_before)[-1] == pytest.approx(1.0, abs=0.15)
    assert orders(last)[-1] == pytest.approx(1.0, abs=0.15)


def test_assembled_right_hand_sides_are_of_second_order_in_l1() -> None:
    errors_h, errors_q = [], []
    for dx in GRIDS:
        film = fine_film(dx)
        x = positions(film)
        s = K * (x - outlet(film))
        h, q = 1.5 + 0.3 * np.cos(s), 1.2 + 0.4 * np.cos(s)
        h_x, q_x = -0.3 * K * np.sin(s), -0.4 * K * np.sin(s)
        h_xxx = 0.3 * K**3 * np.sin(s)
        exact_h = -q_x
        convected = (2.0 * q * q_x * h - q**2 * h_x) / h**2
        exact_q = -1.2 * convected + (h * (1.0 + h_xxx) - q / h**2) / (5.0 * film.delta)
        rate_h, rate_q = compiled_rates(film, h, q)
        inner = slice(3, -4)
        errors_h.append(norms((rate_h - exact_h[1:-1])[inner])[0])
        errors_q.append(norms((rate_q - exact_q[1:-1])[inner])[0])
    assert orders(errors_h)[-1] == pytest.approx(2.0, abs=0.1)
    assert orders(errors_q)[-1] == pytest.approx(2.0, abs=0.1)


# Lengths that leave 0, 1, 2 and 3 idle nodes in the last lane.
@pytest.mark.parametrize("upstream", [60.0, 60.5, 61.0, 61.5])
def test_compiled_rates_are_those_of_the_reference(upstream: float) -> None:
    film = quick_film(L0=upstream, first_jet=60.0)
    rng = np.random.default_rng(1)
    h, q = rng.uniform(0.5, 2.0, (2, film.n_nodes))
    h[-1], q[-1], q[0] = h[-2], q[-2], 1.0
    expected = right_hand_sides(h, q, film)
    for measured, rate in zip(compiled_rates(film, h, q), expected, strict=True):
        np.testing.assert_allclose(measured, rate, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_nodes", [32, 33, 34, 35, 360, 901])
def test_every_node_has_a_place_of_its_own(n_nodes: int) -> None:
    place = place_nodes(n_nodes)
    assert np.unique(place).size == n_nodes
    films = np.random.default_rng(0).uniform(size=(2, FIELDS, n_nodes))
    np.testing.assert_array_equal(unpack(pack(films, n_nodes), n_nodes), films)


def test_films_begin_on_a_cache_line() -> None:
    for size in (1, 7, 64):
        assert aligned(np.zeros(size)).ctypes.data % 64 == 0


def test_jet_across_two_lanes_keeps_its_shape() -> None:
    # 4 lanes of about 44 nodes: jets of 41 nodes cannot all miss the cuts.
    film = quick_film(L0=40.0, first_jet=40.0, n_jets=3, jet_spacing=8.0, jet_width=8.0, dx=0.2,
                      dt=0.001)  # fmt: skip
    rows, shapes = place_jets(film)
    pushed = np.zeros(4000)
    for row, shape in zip(rows, shapes.reshape(-1, LANES), strict=True):
        pushed[row : row + LANES] += shape
    by_node = pushed[place_nodes(film.n_nodes)]
    x = positions(film)
    expected = np.zeros_like(x)
    for center in film.jet_positions:
        s = np.abs(x - center) / 4.0
        expected += np.where(s < 1.0, film.dt * 5.0 * (1.0 - s**2), 0.0)
    np.testing.assert_allclose(by_node, expected, atol=1e-12)
    assert len({row // ROW for row in rows}) < rows.size  # nodes of several lanes share a row
