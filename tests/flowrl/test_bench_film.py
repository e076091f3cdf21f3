from __future__ import annotations

import json

import pytest

from flowrl.bench import film
from flowrl.bench.__main__ import command
from flowrl.config import ConfigError


def test_the_film_is_timed_on_both_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["film", "--repeats", "5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["preset"] for row in rows] == ["paper", "beacon"]
    for row in rows:
        assert row["n_jets"] == 1
        assert row["gflops"] > 0.0
        assert row["peak_gflops"] > 0.0


def test_times_are_shown_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    times = film.FilmTimes("beacon", 1, 50.0, 51.0, 60.0, gflops=30.0, peak_gflops=50.0)
    film.show([times])
    shown = capsys.readouterr().out
    for part in ("beacon", "50.00", "1.02", "60%", "38 times as long"):
        assert part in shown


@pytest.mark.parametrize("arguments", [[], ["flim"]])
def test_an_unknown_measurement_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"first word must be one of .*film, .*replay, got"):
        command(arguments)
