from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shkadov.params import PRESETS, FilmParams, Number


def refusal(**overrides: Number) -> str:
    with pytest.raises(ValueError, match=r"^film\.") as error:
        FilmParams.preset("paper", **overrides)
    return str(error.value)


def test_the_presets_are_those_of_the_text_and_of_the_code() -> None:
    paper, beacon = FilmParams.preset("paper"), FilmParams.preset("beacon", n_jets=5)
    assert (paper.n_nodes, paper.n_steps, paper.n_ramp_steps) == (360, 10, 2)
    assert (beacon.n_nodes, beacon.n_steps, beacon.n_ramp_steps) == (1100, 50, 20)
    assert paper.episode_steps == beacon.episode_steps == 400
    assert (paper.jet_sign, paper.reward_scale) == (1, 1.0)
    assert (beacon.jet_sign, beacon.reward_scale) == (-1, 0.2)
    assert beacon.jet_positions == (150.0, 160.0, 170.0, 180.0, 190.0)
    assert paper == FilmParams()


def test_every_field_is_described() -> None:
    source = re.sub(r"\n    ", "\n", open_source())
    for field in dataclasses.fields(FilmParams):
        assert re.search(rf'\n{field.name}: .*\n""".+\[.+\].*"""', source), field.name


def open_source() -> str:
    import inspect

    return inspect.getsource(FilmParams)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"film\.preset must be one of .*'becon'.*'beacon'"):
        FilmParams.preset("becon")


def test_an_unknown_field_names_the_nearest() -> None:
    assert "did you mean 'n_jets'" in refusal(njets=3)
    assert "did you mean 'reward_scale'" in refusal(reward_scal=3)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(FilmParams)])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), True, "1", None])
def test_no_field_takes_what_is_no_finite_number(field: str, value: Number) -> None:
    message = refusal(**{field: value})
    assert f"film.{field} must be" in message
    assert str(value) in message


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({"n_jets": 1.5}, ["n_jets", "whole number", "1.5"]),
        ({"n_jets": 0}, ["n_jets", "positive", "0"]),
        ({"delta": -0.1}, ["delta", "positive", "-0.1"]),
        ({"inlet_noise": -1.0}, ["inlet_noise", "negative", "-1.0"]),
        ({"inlet_noise": 1.0}, ["inlet_noise", "below", "1.0"]),
        ({"jet_sign": 2}, ["jet_sign", "-1 or 1", "2"]),
        ({"h_max": 1.0}, ["h_max", "above", "1.0"]),
        ({"q_max": 0.5}, ["q_max", "above", "0.5"]),
        ({"dt_ramp": 0.1}, ["dt_ramp", "dt_action = 0.05", "0.1"]),
        ({"dx": 0.3}, ["dx = 0.3", "whole multiple"]),
        ({"dt": 0.004}, ["dt_action", "whole multiple", "0.048", "dt = 0.00416666667"]),
        ({"first_jet": 150.2}, ["first_jet", "dx = 0.5", "150.2", "take 150"]),
        ({"first_jet": 5.0}, ["first_jet", "at least 10", "outside the domain", "5"]),
        ({"first_jet": 175.0}, ["first_jet", "at most 170", "outside the domain", "175"]),
        ({"n_jets": 2, "jet_width": 12.0}, ["jet_width", "jet_spacing = 10", "overlap", "12"]),
        ({"dt": 0.025}, ["film.dt must be at most 0.023", "largest stable", "dx = 0.5", "0.025"]),
        ({"dx": 0.1, "dt": 1e-4}, ["film.dx must be at least 0.155", "delta = 0.1", "0.1"]),
        (
            {"L0": 2.0, "jet_spacing": 1.0, "first_jet": 2.0, "jet_width": 1.0, "l_obs": 1.0},
            ["film.L0 must be at least 13", "32 nodes", "got 2"],
        ),
        ({"L0": 20.0, "jet_spacing": 1.0, "first_jet": 20.0}, ["outside the domain"]),
    ],
)
def test_a_refusal_names_field_rule_and_value(
    overrides: dict[str, Number], parts: list[str]
) -> None:
    message = refusal(**overrides)
    for part in parts:
        assert part in message, message


def test_numpy_numbers_make_the_same_film() -> None:
    given = FilmParams(n_jets=np.int64(3), dx=np.float64(0.5), L0=150)  # type: ignore[arg-type]
    assert given == FilmParams(n_jets=3)
    assert hash(given) == hash(FilmParams(n_jets=3))
    assert type(given.n_jets) is int
    assert type(given.L0) is float


@given(st.integers(1, 12), st.sampled_from(sorted(PRESETS)))
def test_any_number_of_jets_fits_its_domain(n_jets: int, preset: str) -> None:
    film = FilmParams.preset(preset, n_jets=n_jets)
    assert film.length == 150.0 + (n_jets + 2) * 10.0
    assert film.jet_positions[-1] + film.l_rwd <= film.length


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_jets", 10**9),
        ("n_starts", 10**9),
        ("n_realisations", 10**9),
        ("start_time", 1e9),
        ("L0", 1e9),
        ("first_jet", 1e308),
        ("reward_scale", 1e308),
        ("delta", 1e-300),
        ("start_seed", 10**30),
    ],
)
def test_sizes_beyond_any_use_are_refused_at_once(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"film\.{name} must be at (most|least)"):
        FilmParams.preset("paper", **{name: value})


def test_a_preset_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"film\.preset must be one of"):
        FilmParams.preset(5)  # type: ignore[arg-type]
