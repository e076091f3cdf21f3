from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shkadov import states
from shkadov.film_state import make_state
from shkadov.params import FilmParams
from shkadov.schemes import FIELDS, H, Q, pack
from shkadov.solver import run_free
from shkadov.states import (
    fingerprint,
    load_states,
    make_states,
    packed_starts,
    save_states,
    start_states,
)

from .films import quick_film

Float64Array = NDArray[np.float64]
COLD_START = """
import sys, hashlib, warnings
warnings.simplefilter("error")
from tests.shkadov.films import quick_film
from shkadov import states
made = []
make = states.make_states
states.make_states = lambda *given: made.append(1) or make(*given)
found = states.start_states(quick_film(), "train")
print(len(made), hashlib.sha256(found.tobytes()).hexdigest())
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLOWRL_CACHE", str(tmp_path))
    return tmp_path


def kept(folder: Path) -> Path:
    (path,) = folder.glob("*.npz")
    return path


@pytest.mark.usefixtures("empty_cache")
def test_start_states_are_developed_films_in_course() -> None:
    film = quick_film()
    found = start_states(film, "train")
    assert found.shape == (film.n_starts, FIELDS, film.n_nodes)
    assert np.isfinite(found).all()
    # Waves downstream, and no two states alike.
    assert (found[:, H, -20:].std(axis=1) > 1e-5).all()
    assert np.unique(found[:, Q, 100]).size == film.n_starts
    assert np.abs(found[:, H, 0] - 1.0).max() <= film.inlet_noise


@pytest.mark.usefixtures("empty_cache")
def test_a_film_goes_on_from_a_start_state_as_if_it_had_never_stopped() -> None:
    film = dataclasses.replace(quick_film(), n_realisations=1, n_starts=2, inlet_noise=0.0)
    first, second = pack(make_states(film, "train"), film.n_nodes)
    state = make_state(film, 1)
    state.films[0] = first
    state.clock[0, 1] = 0
    assert run_free(state, 0, round(film.start_spacing / film.dt_action))
    np.testing.assert_array_equal(state.films[0], second)


def test_the_seed_and_the_set_decide_and_the_number_of_threads_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    film = quick_film()
    train = make_states(film, "train")
    monkeypatch.setattr(states, "_count_cores", lambda: 1)
    np.testing.assert_array_equal(make_states(film, "train"), train)
    assert not np.array_equal(make_states(film, "held_out"), train)
    other = dataclasses.replace(film, start_seed=1)
    assert not np.array_equal(make_states(other, "train"), train)


@pytest.mark.usefixtures("empty_cache")
def test_the_second_time_states_come_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    film = quick_film()
    made = start_states(film, "train")
    monkeypatch.setattr(states, "make_states", lambda *_: pytest.fail("made again"))
    np.testing.assert_array_equal(start_states(film, "train"), made)


def flip(data: bytes) -> bytes:
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


@pytest.mark.parametrize("damage", ["empty", "half", "foreign", "flipped"])
def test_a_damaged_file_is_made_anew(empty_cache: Path, damage: str) -> None:
    film = quick_film()
    made = start_states(film, "train")
    path = kept(empty_cache)
    data = path.read_bytes()
    damaged = {
        "empty": b"",
        "half": data[: len(data) // 2],
        "foreign": b"other" * 500,
        "flipped": flip(data),
    }
    path.write_bytes(damaged[damage])
    with pytest.warns(UserWarning, match="damaged"):
        np.testing.assert_array_equal(start_states(film, "train"), made)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start_states(film, "train")


def test_a_sound_file_of_wrong_content_is_made_anew(empty_cache: Path) -> None:
    film = quick_film()
    made = start_states(film, "train")
    wrongs: list[NDArray[Any]] = [made[:-1], made.astype(np.float32), made * np.nan]
    for wrong in wrongs:
        save_states(kept(empty_cache), wrong)
        with pytest.warns(UserWarning, match="damaged"):
            assert load_states(kept(empty_cache), film) is None


def test_nothing_is_left_beside_a_kept_set(empty_cache: Path) -> None:
    film = quick_film()
    leftover = empty_cache / f".film-starts-{fingerprint(film, 'train')}-killed.tmp"
    leftover.write_bytes(b"half a file")
    start_states(film, "train")
    assert sorted(path.suffix for path in empty_cache.iterdir()) == [".lock", ".npz"]


@pytest.mark.usefixtures("empty_cache")
def test_eight_processes_on_a_cold_cache_make_one_set() -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COLD_START],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=environment,
        )
        for _ in range(8)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert sum(int(made) for made, _ in answers) == 1
    assert len({digest for _, digest in answers}) == 1


def test_a_cache_that_cannot_be_written_costs_a_warning_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way of a directory")
    monkeypatch.setenv("FLOWRL_CACHE", str(blocked))
    film = quick_film()
    with pytest.warns(UserWarning, match="set FLOWRL_CACHE") as caught:
        found = start_states(film, "train")
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    np.testing.assert_array_equal(found, make_states(film, "train"))


def test_a_disk_that_fills_up_costs_a_warning_only(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        start_states(quick_film(), "train")
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


def test_a_file_system_without_locks_will_do(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start_states(quick_film(), "train")
    assert kept(empty_cache).is_file()


def test_only_what_shapes_the_film_names_its_file() -> None:
    film = FilmParams.preset("beacon")
    same = dataclasses.replace(film, reward_scale=3.0, jet_sign=1, jet_amplitude=2.0, h_max=20.0)
    assert fingerprint(same, "train") == fingerprint(film, "train")
    assert fingerprint(film, "held_out") != fingerprint(film, "train")
    for change in (
        {"n_jets": 2}, {"delta": 0.11}, {"dt": 0.0005}, {"inlet_noise": 1e-3}, {"start_seed": 1},
        {"n_starts": 8}, {"start_time": 100.0}, {"n_realisations": 4}, {"start_spacing": 5.0},
    ):  # fmt: skip
        assert fingerprint(dataclasses.replace(film, **change), "train") != fingerprint(
            film, "train"
        )


def test_environments_of_one_process_share_their_start_states() -> None:
    film = quick_film()
    assert packed_starts(film, "train") is packed_starts(film, "train")


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"start_set must be one of train, held_out, got 'test'"):
        start_states(quick_film(), "test")


@pytest.mark.usefixtures("empty_cache")
def test_a_film_that_blows_up_while_it_develops_is_refused() -> None:
    with pytest.raises(ValueError, match=r"film\.h_max = 1\.001 .* while it develops"):
        start_states(quick_film(h_max=1.001), "train")
