"""Write one run into one HDF5 file that can be read while it grows and after a kill.

The file has the default format and is flushed after every update. Its chunks are long, so that an
update hardly ever allocates: it fills rows in place and moves the datasets' ends, rows first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from flowrl.claim import ClaimError, allocate, claim, temporary_beside
from flowrl.config.names import suggestion
from flowrl.layout import (
    ROWS_PER_CHUNK,
    PolicyEntries,
    changing_datasets,
    cut_back,
    lay_out,
    mark_end,
    mark_resumed,
    write_evaluation,
)
from flowrl.quantities import (
    COMMITTED,
    FORMAT,
    STATUSES,
    TABLE_NAMES,
    Columns,
    Row,
    Tables,
    columns,
    row,
    tables_of,
)
from flowrl.versions import git_commit, versions

_ROOM = 2**19  # bytes, more than a new chunk for every dataset takes


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
    parameters: Mapping[str, object] = dataclasses.field(default_factory=dict)  # environment's
    host: str = dataclasses.field(default_factory=platform.node)
    git_commit: str = dataclasses.field(default_factory=git_commit)
    versions: Mapping[str, str] = dataclasses.field(default_factory=versions)
    run_id: str = dataclasses.field(default_factory=lambda: secrets.token_hex(16))


class Recorder:
    """One results file, open for writing from the start of a run to its end."""

    def __init__(self, path: Path, file: Any, tables: Tables) -> None:
        """Take over an HDF5 file laid out by `create`."""
        self.path = path
        self._file, self._tables = file, tables
        self._inode = _inode(path)
        # Looking a dataset up by name costs more than writing to it.
        self._datasets = {
            table: {quantity.name: file[table][quantity.name] for quantity in quantities}
            for table, quantities in tables.items()
        }
        self._committed = file[COMMITTED.name]
        self._policy_datasets = changing_datasets(file["policy"])
        self._n_written = dict.fromkeys(TABLE_NAMES, 0)
        self._pending: dict[str, list[Columns]] = {name: [] for name in TABLE_NAMES}
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
                    lay_out(file, vars(header), policy)
                    file.flush()
                    allocate(file.id.get_vfd_handle(), file.id.get_filesize())
                    claim(temporary, path, overwrite)
                except BaseException:
                    file.close()
                    raise
            finally:
                temporary.unlink(missing_ok=True)
            return cls(path, file, tables_of(header.algo))

    @classmethod
    def resume(
        cls, path: Path, header: RunHeader, n_rows: Mapping[str, int], policy: Columns, update: int
    ) -> Self:
        """Open the file of a run that goes on after `update`; rows beyond n_rows are dropped.

        Raises RecorderError where it can't be written, or another process writes it.
        """
        path = Path(os.path.realpath(path))
        with _reported(path):
            file = h5py.File(path, "r+", locking="best-effort")
            try:
                recorder = cls(path, file, tables_of(header.algo))
                recorder._check_policy(policy)
                cut_back(file, n_rows, policy, update)
                mark_resumed(file, vars(header), update)
                file.flush()
            except BaseException:
                file.close()
                raise
        recorder._n_written |= n_rows
        recorder._policy |= {**policy, "updates": np.array(update)}
        return recorder

    @property
    def n_rows(self) -> Mapping[str, int]:
        """Count the rows of each table that are whole."""
        return dict(self._n_written)

    def sync(self) -> None:
        """See that all rows are on the disk, those that could not be written before too."""
        self._write()
        with _reported(self.path):
            os.fsync(self._file.id.get_vfd_handle())

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
        rows = {
            "iterations": row(self._tables, "iterations", iteration),
            "seconds": row(self._tables, "seconds", timed),
        }
        ended = columns(self._tables, "episodes", episodes) if episodes else {}
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
            _require_room(self._file)
            write_evaluation(self._file, returns, gain, notes or {})
            self._file.flush()

    def finish(self, status: str) -> None:
        """Say how the run ended, and close the file."""
        if status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {status!r}")
        if not self._file:
            return
        try:
            try:
                self._write()
            except RecorderError:
                status = "failed"  # updates are missing
                raise
            finally:
                with _reported(self.path):
                    mark_end(self._file, status)
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
            self._require_room()
            slot = self._write_policy()
            for table in TABLE_NAMES:
                self._write_pending(table)
            # A kill can cut one write in two, so what says that all is there must reach the file
            # after all of it.
            self._file.flush()
            self._commit(slot)
            self._file.flush()
        for rows in self._pending.values():
            rows.clear()

    def _require_room(self) -> None:
        n_chunks = sum(map(self._new_chunks, TABLE_NAMES))
        if n_chunks:
            _require_room(self._file, n_chunks * _ROOM)

    def _new_chunks(self, table: str) -> int:
        """Count the chunks that the rows to be written need beyond those there are."""
        n_written, per_chunk = self._n_written[table], ROWS_PER_CHUNK[table]
        n_rows = n_written + sum(map(_length, self._pending[table]))
        return max(n_rows - 1, 0) // per_chunk - max(n_written - 1, 0) // per_chunk

    def _write_pending(self, table: str) -> None:
        blocks = self._pending[table]
        if not blocks:
            return
        first = self._n_written[table]
        n_rows = sum(map(_length, blocks))
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

    def _write_policy(self) -> int | None:
        """Write the policy, if it is due, into the slot that is not valid; return which."""
        if not self._policy_is_due:
            return None
        slot = 1 - self._slot
        for name, values in self._policy.items():
            if name != "updates":
                self._policy_datasets[name][slot] = values
        return slot

    def _commit(self, slot: int | None) -> None:
        """Say how many rows are whole, and which slot of the policy is valid."""
        self._committed[...] = [self._n_written[table] for table in TABLE_NAMES]
        if slot is not None:
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
        _require_room(file)
        write_evaluation(file, returns, gain, notes or {})


def _require_room(file: Any, size: int = _ROOM) -> None:
    """Refuse to start a write that would fill the disk: HDF5 does not fail cleanly halfway."""
    descriptor = file.id.get_vfd_handle()
    present = os.fstat(descriptor).st_size
    try:
        allocate(descriptor, present + size)
    finally:
        os.ftruncate(descriptor, present)


def _length(block: Columns) -> int:
    return len(next(iter(block.values())))


def _write_rows(dataset: Any, first: int, n_rows: int, values: NDArray[Any]) -> None:
    # Through h5py's lower layer: four times faster for a row than resize and indexing.
    dataset.set_extent((first + n_rows,))
    target = dataset.get_space()
    target.select_hyperslab((first,), (n_rows,))
    dataset.write(h5py.h5s.create_simple((n_rows,)), target, values)


def _inode(path: Path) -> Sequence[int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino)


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
