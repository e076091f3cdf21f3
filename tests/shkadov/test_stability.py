from __future__ import annotations

import math

import numpy as np
import pytest

from shkadov import solver
from shkadov.film_state import make_state
from shkadov.params import FilmParams
from shkadov.stability import (
    allowed_growth,
    film_growth,
    grid_rates,
    largest_stable_dt,
    limited_share,
    smallest_stable_dx,
    step_growth,
)


def dividing(dt: float, below: bool) -> float:
    """The nearest step below or above dt that divides an action's 0.2."""
    return 0.2 / (math.ceil(0.2 / dt) if below else math.floor(0.2 / dt))


def survives(dx: float, dt: float, time: float, unchecked: bool = False) -> bool:
    film = FilmParams(dx=dx, dt=dt if not unchecked else 0.2 / 500, dt_action=0.2, dt_ramp=0.2,
                      L0=80.0, first_jet=80.0)  # fmt: skip
    if unchecked:
        object.__setattr__(film, "dt", dt)
    state = make_state(film, 1)
    state.generators[:] = 1
    return bool(solver.run_free(state, 0, round(time / film.dt_action)))


@pytest.mark.parametrize("dx", [0.5, 0.25])
def test_a_film_lives_just_below_the_bound_and_blows_up_just_above(dx: float) -> None:
    bound = largest_stable_dt(dx, 0.1)
    below, above = dividing(bound, below=True), dividing(1.12 * bound, below=False)
    assert 0.85 * bound < below <= bound < above < 1.35 * bound
    assert survives(dx, below, 60.0)
    with pytest.raises(ValueError, match="largest stable time step"):
        survives(dx, above, 60.0)
    assert not survives(dx, above, 60.0, unchecked=True)


def test_both_presets_are_stable_and_a_grid_too_fine_is_not() -> None:
    assert largest_stable_dt(0.5, 0.1) > 4 * 0.005
    assert largest_stable_dt(0.2, 0.1) > 2 * 0.001
    assert largest_stable_dt(0.1, 0.1) == 0.0
    assert 0.1 < smallest_stable_dx(0.1) < 0.2


def test_the_bound_is_where_growth_is_allowed_no_more() -> None:
    for delta in (0.05, 0.1, 0.5):
        bound = largest_stable_dt(0.5, delta)
        assert step_growth(0.5, bound * 0.999, delta) <= allowed_growth(delta)
        assert step_growth(0.5, bound * 1.01, delta) > allowed_growth(delta)


def test_limiter_share_is_that_of_minmod_averaged_over_phases() -> None:
    theta = np.linspace(0.05, np.pi, 20)
    psi = np.arange(20000) * 2.0 * np.pi / 20000
    for angle, share in zip(theta, limited_share(theta), strict=True):
        a, b = np.cos(psi - angle / 2), np.cos(psi + angle / 2)
        minmod = np.maximum(0, np.minimum(a, b)) + np.minimum(0, np.maximum(a, b))
        assert share == pytest.approx(2.0 * np.mean(minmod * np.cos(psi)), abs=1e-6)


def test_grid_waves_grow_as_the_film_does_on_a_fine_grid() -> None:
    # The fastest wave of the grid tends to the film's own as the grid is refined.
    growths = [float(grid_rates(dx, 1.0).real.max()) for dx in (0.5, 0.25, 0.125)]
    errors = [abs(g - film_growth(1.0)) for g in growths]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * film_growth(1.0)
