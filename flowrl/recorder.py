"""Write one run into one HDF5 file that can be read while it grows and after a kill.

The file has the default format and is flushed after every update. Its chunks are long, so that an
update hardly ever allocates: it fills rows in place and moves the datasets' ends, rows first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from flowrl.claim import ClaimError, claim, temporary_beside
from flowrl.config.names import suggestion
from flowrl.quantities import (
    CONTROLS,
    EVALUATION,
    FORMAT,
    FORMAT_VERSION,
    POLICY,
    SLOT_NOTE,
    STATUSES,
    TABLES,
    Columns,
    Quantity,
    Row,
    columns,
    known_quantity,
    row,
)
from flowrl.versions import git_commit, versions

_ROWS_PER_CHUNK = {"iterations": 512, "seconds": 512, "episodes": 2048}

PolicyEntries = Mapping[str, NDArray[Any] | str]  # a text is stored as an attribute


class RecorderError(RuntimeError):
    """Report that results could not be written; training itself may go on."""


@dataclass(frozen=True)
class RunHeader:
    """What a results file says about its run as a whole."""

    config: str  # TOML text
    command: str
    algo: str
    env: str
    seed: int
    n_ranks: int
    host: str = dataclasses.field(default_factory=platform.node)
    git_commit: str = dataclasses.field(default_factory=git_commit)
    versions: Mapping[str, str] = dataclasses.field(default_factory=versions)


class Recorder:
    """One results file, open for writing from the start of a run to its end."""

    def __init__(self, path: Path, file: Any) -> None:
        """Take over an HDF5 file laid out by `create`."""
        self.path = path
        self._file = file
        self._inode = _inode(path)
        # Looking a dataset up by name costs more than writing to it.
        self._datasets = {
            table: {quantity.name: file[table][quantity.name] for quantity in quantities}
            for table, quantities in TABLES.items()
        }
        self._policy_datasets = _changing(file["policy"])
        self._n_written = dict.fromkeys(TABLES, 0)
        self._pending: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._policy = {name: dataset[0] for name, dataset in self._policy_datasets.items()}
        self._policy_is_due = False
        self._slot = 0
        self._record_seconds = float("nan")

    @classmethod
    def create(
        cls,
        path: Path,
        header: RunHeader,
        policy: PolicyEntries,
        overwrite: bool = False,
    ) -> Self:
        """Create the file, or raise RecorderError where another run has it.

        The file is laid out under another name and then put in place whole: readers never see
        half a file, and of two runs started on one output exactly one wins.
        """
        path = Path(os.path.realpath(path))
        temporary = temporary_beside(path)
        with _reported(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file = h5py.File(temporary, "x", locking="best-effort")
                try:
                    _lay_out(file, header, policy)
                    file.flush()
                    claim(temporary, path, overwrite)
                except BaseException:
                    file.close()
                    raise
            finally:
                temporary.unlink(missing_ok=True)
            return cls(path, file)

    def append(
        self,
        iteration: Row,
        seconds: Row,
        episodes: Columns | None = None,
        policy: Columns | None = None,
    ) -> None:
        """Add one update and the episodes that ended in it, and flush.

        What is missing is stored as NaN (a missing count is an error). `policy` overwrites the
        arrays of the same names and shapes, those that training changes. After a
        RecorderError nothing is lost yet: the next call writes what this one could not.
        """
        start = time.perf_counter()
        timed = {"record": self._record_seconds, **seconds}
        rows = {"iterations": row("iterations", iteration), "seconds": row("seconds", timed)}
        ended = columns("episodes", episodes) if episodes else {}
        self._check_policy(policy or {})
        self._pending["iterations"].append(rows["iterations"])
        self._pending["seconds"].append(rows["seconds"])
        if ended:
            self._pending["episodes"].append(ended)
        if policy:
            self._policy |= policy
            self._policy["updates"] = np.array(iteration["updates"])
            self._policy_is_due = True
        self._write()
        self._record_seconds = time.perf_counter() - start

    def record_evaluation(
        self, returns: Columns, gain: float | None, notes: Mapping[str, float | str] | None = None
    ) -> None:
        """Write the held-out returns of each kind of control; see `record_evaluation` below."""
        with _reported(self.path):
            _write_evaluation(self._file, returns, gain, notes or {})
            self._file.flush()

    def finish(self, status: str) -> None:
        """Say how the run ended, and close the file."""
        if status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {status!r}")
        if not self._file:
            return
        try:
            self._write()
            with _reported(self.path):
                self._file.attrs["status"] = status
                self._file.attrs["end_time"] = _now()
                self._file.flush()
        finally:
            with _reported(self.path):
                self._file.close()

    def __enter__(self) -> Self:
        """Keep the file open inside the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish with the status that fits how the block ended."""
        if kind is None:
            self.finish("finished")
            return
        # The error under way matters more than one about the file.
        with contextlib.suppress(RecorderError):
            self.finish("interrupted" if issubclass(kind, KeyboardInterrupt) else "failed")

    def _write(self) -> None:
        with _reported(self.path):
            if _inode(self.path) != self._inode:
                raise RecorderError(
                    f"{self.path}: removed or replaced while the run was writing it; "
                    "what is written from now on is lost"
                )
            self._write_policy()
            # Iterations last: a reader that finds an update finds its episodes too.
            for table in ("episodes", "seconds", "iterations"):
                self._write_pending(table)
            self._file.flush()
        for rows in self._pending.values():
            rows.clear()

    def _write_pending(self, table: str) -> None:
        blocks = self._pending[table]
        if not blocks:
            return
        first = self._n_written[table]
        n_rows = sum(len(next(iter(block.values()))) for block in blocks)
        for name, dataset in self._datasets[table].items():
            values = np.concatenate([block[name] for block in blocks])
            _write_rows(dataset.id, first, n_rows, values)
        self._n_written[table] = first + n_rows
        blocks.clear()

    def _check_policy(self, policy: Columns) -> None:
        known = [name for name in self._policy_datasets if name != "updates"]
        for name, values in policy.items():
            if name not in known:
                raise ValueError(f"policy.{name} does not change{suggestion(name, known)}")
            shape = self._policy_datasets[name].shape[1:]
            if shape != np.shape(values):
                raise ValueError(
                    f"policy.{name} must keep its shape {shape}, got {np.shape(values)}"
                )

    def _write_policy(self) -> None:
        """Write the policy into the slot that is not valid, and only then make that one valid."""
        if not self._policy_is_due:
            return
        slot = 1 - self._slot
        for name, values in self._policy.items():
            if name != "updates":
                self._policy_datasets[name][slot] = values
        # A kill can cut one write in two, so the mark must reach the file after the arrays.
        self._file.flush()
        self._policy_datasets["updates"][slot] = self._policy["updates"]
        self._policy_is_due = False
        self._slot = slot


def record_evaluation(
    path: Path,
    returns: Columns,
    gain: float | None,
    notes: Mapping[str, float | str] | None = None,
) -> None:
    """Write an evaluation into the file of a run that has ended, in place of an earlier one.

    `returns` maps each kind of control (trained, uncontrolled, random, constant) to the returns
    of its episodes (n,); `gain` is the share of the uncontrolled score that control removed.
    """
    with _reported(path), h5py.File(path, "r+", locking="best-effort") as file:
        if file.attrs.get("format") != FORMAT:
            raise RecorderError(f"{path}: not a flowrl run")
        _write_evaluation(file, returns, gain, notes or {})


def _lay_out(file: Any, header: RunHeader, policy: PolicyEntries) -> None:
    """Write the attributes and the empty datasets."""
    attributes = dataclasses.asdict(header) | {
        "versions": json.dumps(dict(header.versions)),
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "status": "running",
        "process": os.getpid(),
        "start_time": _now(),
    }
    for name, value in attributes.items():
        file.attrs[name] = value
    for table, quantities in TABLES.items():
        group = file.create_group(table)
        for quantity in quantities:
            dataset = group.create_dataset(
                quantity.name, (0,), quantity.dtype,
                maxshape=(None,), chunks=(_ROWS_PER_CHUNK[table],),
            )  # fmt: skip
            _describe(dataset, quantity)
    _lay_out_policy(file.create_group("policy"), policy)


def _lay_out_policy(group: Any, policy: PolicyEntries) -> None:
    known = {quantity.name: quantity for quantity in POLICY}
    for name, values in policy.items():
        quantity = known_quantity("policy", name, known) if not isinstance(values, str) else None
        if quantity is None:
            group.attrs[name] = values
            continue
        array = np.asarray(values, quantity.dtype)
        data = np.stack([array, array]) if quantity.changes else array
        _describe(group.create_dataset(name, data=data), quantity)
    # The first slot is valid from the start: a run killed in its first update has a policy.
    _describe(group.create_dataset("updates", data=np.array([0, -1])), known["updates"])


def _changing(group: Any) -> dict[str, Any]:
    """Return the policy datasets that training changes."""
    return {item.name: group[item.name] for item in POLICY if item.changes and item.name in group}


def _write_rows(dataset: Any, first: int, n_rows: int, values: NDArray[Any]) -> None:
    # Through h5py's lower layer: four times faster for a row than resize and indexing.
    dataset.set_extent((first + n_rows,))
    target = dataset.get_space()
    target.select_hyperslab((first,), (n_rows,))
    dataset.write(h5py.h5s.create_simple((n_rows,)), target, values)


def _write_evaluation(
    file: Any, returns: Columns, gain: float | None, notes: Mapping[str, float | str]
) -> None:
    for control in returns:
        if control not in CONTROLS:
            raise ValueError(
                f"evaluation.{control} must be one of {', '.join(CONTROLS)}"
                f"{suggestion(control, CONTROLS)}"
            )
    if "evaluation" in file:
        del file["evaluation"]
    group = file.create_group("evaluation")
    for name, note in notes.items():
        group.attrs[name] = note
    if gain is not None:
        group.attrs["gain"] = gain
    for control, values in returns.items():
        values = np.asarray(values, np.float64)
        member = group.create_group(control)
        member.attrs.update({"mean": values.mean(), "std": values.std(), "n": len(values)})
        _describe(member.create_dataset("returns", data=values), EVALUATION[0])


def _describe(dataset: Any, quantity: Quantity) -> None:
    dataset.attrs["unit"] = quantity.unit
    note = SLOT_NOTE if quantity.changes and quantity.name != "updates" else ""
    dataset.attrs["description"] = quantity.description + note


def _inode(path: Path) -> Sequence[int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong with the file into a RecorderError that names it."""
    try:
        yield
    except ClaimError as error:
        raise RecorderError(str(error)) from None
    except (OSError, RuntimeError, KeyError) as error:
        if isinstance(error, RecorderError):
            raise
        raise RecorderError(f"{path}: cannot be written: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return in a few words why HDF5 or the system refused."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    # HDF5 hides the system's error number in a paragraph of its own.
    number = re.search(r"errno = (\d+)", str(error))
    return os.strerror(int(number[1])) if number else " ".join(str(error).split())[:200]
