"""One checkpoint, one file: arrays and numbers only, checked byte by byte before HDF5 sees them.

The file is HDF5 with a block of text before it, which holds the format's version and the size and
SHA-256 of all that follows. So a file that was cut short or damaged is told from the first look,
and nothing in a file can run code: its contents are arrays of numbers, and a header in JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any, Self, cast

import h5py
import numpy as np

from flowrl.claim import allocate, temporary_beside
from flowrl.config import ConfigError
from flowrl.config.names import shown
from flowrl.quantities import TABLE_NAMES
from flowrl.state import State

FORMAT_VERSION = 1
_MAGIC = "flowrl-checkpoint"
_BLOCK = 512  # bytes before the HDF5 part; that is looked for at 512, 1024, ...
_PIECE = 2**20  # bytes hashed at a time
_ROOM = 2**20  # bytes that HDF5 may need beside the arrays
_MOST_ARRAYS = 100_000


class CheckpointError(ConfigError):
    """Report, in one line, why a checkpoint can't be written or used."""


@dataclass(frozen=True)
class Header:
    """What a checkpoint says of itself."""

    run_id: str  # of the results file that it belongs to
    update: int
    transitions: int
    n_ranks: int
    n_resumes: int  # times the run was continued
    n_rows: Mapping[str, int]  # of each table of the results file

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the header in a JSON text; raise ValueError where it is none."""
        found = json.loads(text)
        if not isinstance(found, dict) or set(found) != {item.name for item in fields(cls)}:
            raise ValueError("the header lacks an entry")
        n_rows = found["n_rows"]
        if not isinstance(n_rows, dict) or set(n_rows) != set(TABLE_NAMES):
            raise ValueError("the header lacks a table")
        counts = [value for name, value in found.items() if name not in ("run_id", "n_rows")]
        for count in (*counts, *n_rows.values()):
            if type(count) is not int or not 0 <= count < 2**62:
                raise ValueError(f"the header holds {shown(str(count))} for a count")
        return cls(**cast(Any, {**found, "run_id": str(found["run_id"])}))


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on."""

    header: Header
    state: State


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint aside, flush it to the disk, and put it in its place in one go.

    Raises CheckpointError where that fails; what was in the place before then still is.
    """
    temporary = temporary_beside(path)
    try:
        _write_arrays(temporary, checkpoint)
        _sign(temporary)
        os.replace(temporary, path)
        _flush_directory(path.parent)
    except (OSError, RuntimeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise CheckpointError(f"{path}: cannot be written: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_arrays(path: Path, checkpoint: Checkpoint) -> None:
    size = sum(array.nbytes for array in checkpoint.state.values())
    with h5py.File(path, "x", userblock_size=_BLOCK, locking=False) as file:
        file.attrs["header"] = json.dumps(asdict(checkpoint.header))
        # HDF5 does not fail cleanly where the disk is full: have the room before it writes.
        file.flush()
        allocate(file.id.get_vfd_handle(), _ROOM + size + 512 * len(checkpoint.state))
        for name, array in checkpoint.state.items():
            file.create_dataset(f"state/{name}", data=array)
        file.flush()
        used = file.id.get_filesize()
    os.truncate(path, used)


def _sign(path: Path) -> None:
    """Write the block at the front, and flush the file to the disk."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size - _BLOCK
        text = f"{_MAGIC} {FORMAT_VERSION}\nbytes {size}\nsha256 {_digest(file)}\n"
        file.seek(0)
        file.write(text.encode().ljust(_BLOCK, b"\0"))
        file.flush()
        os.fsync(file.fileno())


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(_BLOCK)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # Some network file systems have nothing to flush there.
        pass
    finally:
        os.close(descriptor)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return a checkpoint; raise CheckpointError for any file that is not a whole one of ours."""
    with _opened(path) as file:
        return Checkpoint(_header(file), _arrays(file, path.stat().st_size))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a signed file; turn whatever is wrong with it into a CheckpointError."""
    try:
        _check_signature(path)
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except CheckpointError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else shown(str(error), 120)
        raise CheckpointError(f"{path}: can't be read: {reason}") from error
    except Exception as error:
        # A file from a stranger can fail anywhere inside HDF5, and with any type of exception.
        raise CheckpointError(f"{path}: not usable: {shown(str(error), 120)}") from error


def _check_signature(path: Path) -> None:
    with path.open("rb") as file:
        lines = file.read(_BLOCK).rstrip(b"\0").decode("ascii", "replace").split("\n")
        kind, _, version = lines[0].partition(" ")
        if kind != _MAGIC or not version.isdigit() or len(version) > 9:
            raise CheckpointError(f"{path}: not a flowrl checkpoint")
        if int(version) > FORMAT_VERSION:
            raise CheckpointError(
                f"{path}: written in format {version} by a newer flowrl, this one reads up to "
                f"{FORMAT_VERSION}; update flowrl"
            )
        size = os.fstat(file.fileno()).st_size - _BLOCK
        if lines[1:2] != [f"bytes {size}"]:
            raise CheckpointError(f"{path}: cut short or grown: {size} bytes, not as written")
        if lines[2:3] != [f"sha256 {_digest(file)}"]:
            raise CheckpointError(f"{path}: damaged: its bytes are not those that were written")


def _header(file: Any) -> Header:
    text = file.attrs["header"]
    if not isinstance(text, str):
        raise ValueError("the header is not a text")
    return Header.of(text)


def _arrays(file: Any, n_bytes: int) -> State:
    """Return all arrays; what they claim to hold must be in this very file."""
    state: State = {}
    left = n_bytes
    for name, dataset in _datasets(file["state"]):
        if dataset.dtype.kind not in "fiub" or dataset.is_virtual or dataset.external:
            raise ValueError(f"{shown(name)} is not an array of numbers in this file")
        left -= dataset.nbytes
        if left < 0:
            raise ValueError(f"{shown(name)} claims more bytes than the file has")
        state[name] = np.asarray(dataset[()])
    return state


def _datasets(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a group and of those inside it; links to elsewhere are refused."""
    if len(group) > _MOST_ARRAYS or prefix.count("/") > 20:
        raise ValueError("too many arrays")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{shown(str(name))} is a link to elsewhere")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _datasets(item, f"{prefix}{name}/")
        elif isinstance(item, h5py.Dataset):
            yield f"{prefix}{name}", item
