"""The developed films that episodes start from: made once, then kept in a cache directory.

A few independent films run without control; each is sampled once it has developed and then every
`start_spacing`. In 20 time units, the length of an episode, the film forgets: measured on both
presets, h at the first jet then correlates with itself by 0.12 at most (0.4 after 10), and the
uncontrolled scores of episodes 20 apart by 0.1 to 0.2.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

import numpy as np

from shkadov.cache import cache_directory
from shkadov.film_state import Float64Array, make_state
from shkadov.params import FilmParams
from shkadov.schemes import FIELDS, pack, unpack
from shkadov.solver import run_free

if sys.platform != "win32":
    import fcntl

# To raise whenever the numbers of a developed film change.
SCHEME_VERSION: Final = 1
START_SETS: Final = ("train", "held_out")
SHAPING: Final = (
    "delta", "length", "dx", "dt", "inlet_noise", "start_time", "start_spacing", "n_starts",
    "n_realisations", "start_seed",
)  # fmt: skip


@lru_cache(maxsize=4)
def packed_starts(film: FilmParams, start_set: str) -> Float64Array:
    """Return a set of start states as films in memory, (n_starts, n_rows, FIELDS, LANES)."""
    return pack(start_states(film, start_set), film.n_nodes)


def start_states(film: FilmParams, start_set: str) -> Float64Array:
    """Return the start states of a set, (n_starts, FIELDS, n_nodes), from the cache if it can.

    With a cold cache one process makes the set and the others wait for it.
    """
    if start_set not in START_SETS:
        raise ValueError(f"start_set must be one of {', '.join(START_SETS)}, got {start_set!r}")
    path = cache_directory() / f"film-starts-{fingerprint(film, start_set)}.npz"
    states = load_states(path, film)
    if states is not None:
        return states
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")):
            states = load_states(path, film)
            if states is None:
                states = make_states(film, start_set)
                save_states(path, states)
    except OSError as error:
        warnings.warn(
            f"cannot keep the film's start states in {path.parent} ({error}); set FLOWRL_CACHE to "
            "a directory that can be written",
            stacklevel=2,
        )
        states = make_states(film, start_set) if states is None else states
    return states


def fingerprint(film: FilmParams, start_set: str) -> str:
    """Return a hash of exactly what shapes a set of start states."""
    shaping = {name: getattr(film, name) for name in SHAPING}
    text = json.dumps({**shaping, "set": start_set, "version": SCHEME_VERSION}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def make_states(film: FilmParams, start_set: str) -> Float64Array:
    """Make the start states of a set, (n_starts, FIELDS, n_nodes), in a few threads."""
    n = film.n_realisations
    state = make_state(film, n)
    seeds = np.random.SeedSequence(film.start_seed, spawn_key=(START_SETS.index(start_set),))
    state.generators[:] = seeds.generate_state(n, np.uint64)
    states = np.empty((film.n_starts, FIELDS, film.n_nodes))
    wait = round(film.start_time / film.dt_action)
    spacing = round(film.start_spacing / film.dt_action)
    run_free(state, 0, 0)  # compile before the threads begin

    def run(realisation: int) -> None:
        for k, index in enumerate(range(realisation, film.n_starts, n)):
            if not run_free(state, realisation, wait if k == 0 else spacing):
                raise ValueError(
                    f"the uncontrolled film must stay within film.h_max = {film.h_max:g} and "
                    f"film.q_max = {film.q_max:g} while it develops, got beyond; raise them or "
                    f"lower film.dt = {film.dt:g}"
                )
            states[index] = unpack(state.films[realisation], film.n_nodes)
            advance_bar()

    bar = _progress(f"developing {start_set} films", film.n_starts)
    with bar as advance_bar, ThreadPoolExecutor(min(n, _count_cores())) as pool:
        list(pool.map(run, range(n)))
    return states


def save_states(path: Path, states: Float64Array) -> None:
    """Write a set aside, flush it to the disk, and put it in its place in one go."""
    for leftover in path.parent.glob(f".{path.stem}-*.tmp"):
        leftover.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(".tmp", f".{path.stem}-", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, states=states, checksum=np.array(_checksum(states)))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_states(path: Path, film: FilmParams) -> Float64Array | None:
    """Return a kept set, (n_starts, FIELDS, n_nodes), or None if there is none that is sound."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            states: Float64Array = file["states"]
            checksum = str(file["checksum"])
        shape = (film.n_starts, FIELDS, film.n_nodes)
        sound = states.dtype == np.float64 and states.shape == shape
        if sound and _checksum(states) == checksum and np.isfinite(states).all():
            return states
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass
    warnings.warn(f"{path} is damaged; making the film's start states anew", stacklevel=3)
    return None


def _checksum(states: Float64Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(states).tobytes()).hexdigest()


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The system drops the lock with the process that holds it: a stale file locks nobody out.
    with path.open("a+b") as file:
        _lock(file)
        yield


def _lock(file: IO[bytes]) -> None:
    # Windows and some shared file systems have no such locks: then several processes make the same
    # set, and the last one to finish puts it in place.
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)


@contextlib.contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)
