"""Read the results file of a run: plain arrays and texts, checked, whoever wrote the file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from flowrl.config import ConfigError, RunConfig, from_toml
from flowrl.config.names import shown
from flowrl.quantities import COMMITTED, CONTROLS, FORMAT, FORMAT_VERSION, POLICY, TABLE_NAMES

Array = NDArray[Any]
FloatArray = NDArray[np.float64]

_ATTEMPTS = 5  # a reader may meet a writer halfway through a flush
_PAUSE = 0.05  # s
_PATIENCE = 2.0  # s to meet a moment in which the policy does not change
_RECENT = 10.0  # s since the last change, within which a writer may be at work


class ResultError(ConfigError):
    """Report, in one line, why a results file can't be used."""


@dataclass(frozen=True)
class RunAttributes:
    """What a results file says about its run as a whole."""

    algo: str
    env: str
    seed: int
    n_ranks: int
    status: str  # running (or killed), finished, failed, interrupted
    config: str  # TOML text
    command: str
    host: str
    process: int
    start_time: str  # ISO 8601
    end_time: str  # ISO 8601, empty while running
    git_commit: str
    versions: Mapping[str, str]
    environment_parameters: Mapping[str, object]  # the numbers it ran with; empty: not told
    run_id: str  # by which its checkpoints know it; empty in runs of older versions

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the attributes of a results file; raise ResultError where it is none."""
        with _opened(path) as file:
            return cls._of(file)

    @classmethod
    def _of(cls, file: Any) -> Self:
        numbers = {name: _number(file, name) for name in ("seed", "n_ranks", "process")}
        names = ("algo", "env", "status", "config", "command", "host", "git_commit")
        texts = {name: _text(file, name) for name in (*names, "start_time", "end_time")}
        has_parameters = "environment_parameters" in file.attrs  # runs of older versions have none
        return cls(
            **cast(Any, numbers | texts),
            versions=_json_object(file, "versions"),
            environment_parameters=(
                _json_object(file, "environment_parameters") if has_parameters else {}
            ),
            run_id=_text(file, "run_id") if "run_id" in file.attrs else "",
        )


@dataclass(frozen=True)
class Control:
    """Held-out score of one kind of control."""

    returns: FloatArray  # (n,) undiscounted return of each episode

    @property
    def mean(self) -> float:
        """Return the mean return."""
        with np.errstate(all="ignore"):
            return float(self.returns.mean()) if len(self.returns) else float("nan")

    @property
    def std(self) -> float:
        """Return the standard deviation of the returns."""
        with np.errstate(all="ignore"):
            return float(self.returns.std()) if len(self.returns) else float("nan")


@dataclass(frozen=True)
class DatasetInfo:
    """One dataset of a file, as `inspect` lists it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: str
    description: str


@dataclass(frozen=True)
class Run:
    """All of one results file, in memory."""

    path: Path
    attributes: RunAttributes
    iterations: Mapping[str, Array]  # each (n_updates,)
    seconds: Mapping[str, Array]  # each (n_updates,) [s]
    episodes: Mapping[str, Array]  # each (n_episodes,)
    policy: Mapping[str, Array]
    policy_notes: Mapping[str, str]
    evaluation: Mapping[str, Control]
    evaluation_notes: Mapping[str, float | str]
    datasets: tuple[DatasetInfo, ...]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the run in a results file, also while it is written; raise ResultError.

        On a few files with damaged bytes the HDF5 library itself crashes, and the process with
        it, or never returns: that can't be turned into an error here.
        """
        path = Path(path)
        for _ in range(_ATTEMPTS - 1):
            try:
                return cls._read(path)
            except ResultError:
                if not _is_recent(path):
                    raise
                time.sleep(_PAUSE)
        return cls._read(path)

    @property
    def n_updates(self) -> int:
        """Count the updates that the file holds whole."""
        return min(map(len, [*self.iterations.values(), *self.seconds.values()]), default=0)

    @property
    def config(self) -> RunConfig:
        """Return the run's configuration."""
        try:
            return from_toml(self.attributes.config)
        except ConfigError as error:
            raise ResultError(f"{self.path}: its configuration can't be used: {error}") from None

    @property
    def n_rows(self) -> dict[str, int]:
        """Count the rows of each table that the file holds whole."""
        tables: dict[str, Mapping[str, Array]] = {name: getattr(self, name) for name in TABLE_NAMES}
        return {
            name: min(map(len, columns.values()), default=0) for name, columns in tables.items()
        }

    def series(self, table: str, name: str) -> Array:
        """Return one array of a table, or raise ResultError where the file lacks it."""
        arrays = cast("Mapping[str, Array]", getattr(self, table))
        if name not in arrays:
            raise ResultError(f"{self.path}: holds no {table}/{name}; it can't be used for this")
        return arrays[name]

    @classmethod
    def _read(cls, path: Path) -> Self:
        with _opened(path) as file:
            attributes = RunAttributes._of(file)
            committed = _committed(file)  # first: what is whole now is whole when it is read
            tables = {name: _table(file, name) for name in TABLE_NAMES}
            n_rows = _whole_rows(committed, tables)
            policy = file["policy"]
            controls, notes = _evaluation(file)
            return cls(
                path=path,
                attributes=attributes,
                iterations=_first(tables["iterations"], n_rows["iterations"]),
                seconds=_first(tables["seconds"], n_rows["seconds"]),
                episodes=_first(tables["episodes"], n_rows["episodes"]),
                policy=_policy(policy),
                policy_notes={name: _text(policy, name) for name in _names(policy.attrs)},
                evaluation=controls,
                evaluation_notes=notes,
                datasets=_datasets(file),
            )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a results file without locks; turn whatever is wrong with it into a ResultError."""
    try:
        if not path.is_file():
            reason = "not a file" if path.exists() else "no such file"
            raise ResultError(f"{path}: {reason}")
        if path.stat().st_size == 0:
            raise ResultError(f"{path}: empty, not a flowrl run")
        with _hdf5(path) as file:
            _check_format(path, file)
            yield file
    except ResultError:
        raise
    except Exception as error:
        # A file from a stranger can fail anywhere inside HDF5, and with any type of exception.
        raise ResultError(_damage(path, error)) from error


def _hdf5(path: Path) -> Any:
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        # HDF5 wants equal flags where this very process is writing the file.
        if "locking flag" not in str(error):
            raise
        return h5py.File(path, "r", locking="best-effort")


def _damage(path: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return f"{path}: can't be read: {os.strerror(error.errno)}"
    try:
        if not h5py.is_hdf5(path):
            return f"{path}: not an HDF5 file"
    except Exception:
        return f"{path}: not a file that HDF5 can look at"
    reason = error.args[0] if isinstance(error, KeyError) and error.args else error
    return f"{path}: damaged or cut short: {shown(str(reason), 120)}"


def _check_format(path: Path, file: Any) -> None:
    name = file.attrs.get("format")
    if name != FORMAT:
        raise ResultError(f"{path}: an HDF5 file, but not a flowrl run")
    version = _number(file, "format_version")
    if version > FORMAT_VERSION:
        raise ResultError(
            f"{path}: written in format {version} by a newer flowrl, this one reads up to "
            f"{FORMAT_VERSION}; update flowrl"
        )


def _text(owner: Any, name: str) -> str:
    value = owner.attrs[name]
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        raise ValueError(f"attribute {name} is not a text")
    return value


def _json_object(owner: Any, name: str) -> dict[str, Any]:
    """Return a JSON object of plain values and lists of them."""
    found = json.loads(_text(owner, name))
    if not isinstance(found, dict):
        raise ValueError(f"attribute {name} is not a JSON object")
    for value in found.values():
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, (dict, list)) for item in items):
            raise ValueError(f"attribute {name} is nested too deeply")
    return found


def _number(owner: Any, name: str) -> int:
    value = owner.attrs[name]
    if not isinstance(value, (int, np.integer)):
        raise ValueError(f"attribute {name} is not a whole number")
    return int(value)


def _array(group: Any, name: str) -> Array:
    return cast(Array, _checked(group, name)[()])


def _checked(group: Any, name: str) -> Any:
    """Return a dataset of numbers that can be as large as it says."""
    dataset = group[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiub":
        raise ValueError(f"{group.name}/{name} is not an array of numbers")
    # What we write is neither compressed nor sparse: a larger size is damage, or an attack.
    if dataset.nbytes > os.path.getsize(group.file.filename):
        raise ValueError(f"{group.name}/{name} claims more bytes than the file has")
    return dataset


def _names(owner: Any) -> list[str]:
    # What is not UTF-8 comes as bytes, and is none of ours.
    return [name for name in owner if isinstance(name, str)]


def _table(file: Any, table: str) -> dict[str, Array]:
    return {name: _column(file[table], name) for name in _names(file[table])}


def _column(group: Any, name: str) -> Array:
    dataset = _checked(group, name)
    if dataset.ndim != 1:
        raise ValueError(f"{group.name}/{name} has not one dimension")
    try:
        return cast(Array, dataset[()])
    except OSError:
        # A kill while the file grew can leave the newest chunk out of reach: take the others.
        n_rows = (len(dataset) - 1) // dataset.chunks[0] * dataset.chunks[0]
        return cast(Array, dataset[:n_rows])


def _committed(file: Any) -> dict[str, int]:
    """Count the rows of each table that the writer says are whole."""
    if COMMITTED.name not in file:  # runs of older versions do not say
        return {}
    return dict(zip(TABLE_NAMES, _array(file, COMMITTED.name).tolist(), strict=True))


def _whole_rows(
    committed: Mapping[str, int], tables: Mapping[str, dict[str, Array]]
) -> dict[str, int]:
    """Count the rows of each table that can be used."""
    n_updates = _common_length(tables["iterations"], tables["seconds"])
    n_rows = {"iterations": n_updates, "seconds": n_updates}
    n_rows["episodes"] = _common_length(tables["episodes"])
    return {name: max(min(n, committed.get(name, n)), 0) for name, n in n_rows.items()}


def _common_length(*tables: Mapping[str, Array]) -> int:
    # The writer moves one dataset's end after the other; a row counts once all of them have it.
    return min((len(values) for table in tables for values in table.values()), default=0)


def _first(table: Mapping[str, Array], n_rows: int) -> dict[str, Array]:
    return {name: values[:n_rows] for name, values in table.items()}


def _policy(group: Any) -> dict[str, Array]:
    """Return the arrays of the policy, of the valid slot where there are two."""
    changing = [quantity.name for quantity in POLICY if quantity.changes]
    constant = {name: _array(group, name) for name in _names(group) if name not in changing}
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        marks = _array(group, "updates")
        slot = int(np.argmax(marks))
        valid = {name: _checked(group, name)[slot] for name in changing if name in group}
        # A writer marks the other slot before it touches this one: unmoved marks, untouched slot.
        if np.array_equal(marks, _array(group, "updates")):
            return constant | valid
    raise ValueError("the policy changes while it is read")


def _evaluation(file: Any) -> tuple[dict[str, Control], dict[str, float | str]]:
    if "evaluation" not in file:
        return {}, {}
    group = file["evaluation"]
    controls = {
        name: Control(_array(group[name], "returns").astype(np.float64))
        for name in CONTROLS
        if name in group
    }
    notes: dict[str, float | str] = {}
    for name in _names(group.attrs):
        value = group.attrs[name]
        notes[name] = value if isinstance(value, str) else float(value)
    return controls, notes


def _datasets(file: Any) -> tuple[DatasetInfo, ...]:
    found: list[DatasetInfo] = []

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            texts = [str(item.attrs.get(key, "")) for key in ("unit", "description")]
            found.append(DatasetInfo(str(name), tuple(item.shape or ()), str(item.dtype), *texts))

    file.visititems(note)
    return tuple(found)


def _is_recent(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _RECENT
    except OSError:
        return False
