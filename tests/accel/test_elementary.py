"""The vectorised functions against NumPy in float64, and where they must be exact."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import accel
from accel import _native

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "exp": (np.exp, np.linspace(-87.0, 88.7, 200_001)),
    "log": (np.log, np.exp(np.linspace(-87.0, 88.0, 200_001))),
    "log1p_unit": (
        np.log1p,
        np.concatenate([np.linspace(0, 1, 100_001), 10.0 ** np.linspace(-30, 0, 9999)]),
    ),
    "tanh": (
        np.tanh,
        np.concatenate([np.linspace(-12, 12, 200_001), 10.0 ** np.linspace(-30, 1, 9999)]),
    ),
    "sigmoid": (lambda x: 1.0 / (1.0 + np.exp(-x)), np.linspace(-87.0, 87.0, 200_001)),
}
LARGEST_ERROR = {"exp": 1.5, "log": 2.5, "log1p_unit": 2.5, "tanh": 6.5, "sigmoid": 3.5}


@pytest.mark.parametrize("variant", accel.variants())
@pytest.mark.parametrize("function", FUNCTIONS)
def test_error_is_a_few_units_in_the_last_place(function: str, variant: str) -> None:
    exact, points = FUNCTIONS[function]
    x = points.astype(np.float32)
    y = exact(x.astype(np.float64))
    unit = np.spacing(np.abs(y.astype(np.float32))).astype(np.float64)
    error = np.abs(_native.elementary(function, x, variant) - y) / unit
    assert error.max() < LARGEST_ERROR[function]


@pytest.mark.parametrize("variant", accel.variants())
def test_special_values(variant: str) -> None:
    def at(function: str, x: float) -> float:
        return float(_native.elementary(function, np.array([x], np.float32), variant)[0])

    assert at("exp", 0.0) == 1.0  # the first ratio of an update is 1
    assert at("exp", 200.0) == np.inf
    assert at("exp", -200.0) == 0.0
    assert at("log", 1.0) == 0.0
    assert at("log", 0.0) == -np.inf
    assert at("log", np.inf) == np.inf
    assert at("log1p_unit", 0.0) == 0.0
    assert (at("tanh", 50.0), at("tanh", -np.inf)) == (1.0, -1.0)
    assert (at("sigmoid", 0.0), at("sigmoid", np.inf), at("sigmoid", -np.inf)) == (0.5, 1.0, 0.0)
    for function in FUNCTIONS:
        assert np.isnan(at(function, np.nan))


@pytest.mark.parametrize("variant", accel.variants())
def test_tanh_stays_within_one(variant: str) -> None:
    x = np.linspace(3.0, 10.0, 2_000_001).astype(np.float32)
    assert np.abs(_native.elementary("tanh", x, variant)).max() == 1.0


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match=r"function must be exp, .*got 'sin'"):
        _native.elementary("sin", np.zeros(1, np.float32))
