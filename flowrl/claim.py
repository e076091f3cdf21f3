"""Put a finished file in the place of an output, so that of several runs exactly one gets it."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import secrets
from pathlib import Path

from flowrl.results import ResultError, RunAttributes


class ClaimError(RuntimeError):
    """Report that an output belongs to another run or to somebody else."""


def allocate(descriptor: int, size: int) -> None:
    """Give a file its blocks on the disk, where the system can; raise where it is full."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise


def is_locked(path: Path) -> bool:
    """Tell whether another process has a file open for writing, as far as can be told."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def temporary_beside(path: Path) -> Path:
    """Return a name in the same directory that no other process uses."""
    token = f"{platform.node()[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".{path.name[:120]}.{token}.tmp")


def claim(temporary: Path, path: Path, overwrite: bool) -> None:
    """Put `temporary` in place as `path`; raise ClaimError where another run's file stays.

    Linking fails where the name exists, also on network file systems: the first one wins. To
    overwrite, the old file is locked, checked to be still the one in place, and replaced.
    """
    for _ in range(3):
        try:
            _create(temporary, path)
            return
        except FileExistsError:
            pass
        try:
            _refuse(path, overwrite)
            _replace(temporary, path)
            return
        except FileNotFoundError:  # Removed between the two looks: try again.
            continue
    raise ClaimError(f"{path}: other programs keep making and removing it; give another --out")


def _create(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # No hard links here: reserve the name with an empty file, then replace that.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(temporary, path)


def _refuse(path: Path, overwrite: bool) -> None:
    """Raise ClaimError unless the file in place is a run that may be overwritten."""
    if not path.is_file():
        path.lstat()
        raise ClaimError(f"{path}: not a regular file; give another --out")
    try:
        attributes = RunAttributes.read(path)
    except ResultError:
        raise ClaimError(
            f"{path}: exists and is not a readable flowrl run; give another --out, or remove it"
        ) from None
    if is_locked(path):
        raise ClaimError(
            f"{path}: is being written by a run in progress (process {attributes.process} on "
            f"{attributes.host}) or held open by another program; give another --out"
        )
    if overwrite:
        return
    status = "killed" if attributes.status == "running" else attributes.status
    raise ClaimError(
        f"{path}: already holds a run ({status}, started {attributes.start_time}); "
        "give another --out, or --overwrite to replace it"
    )


def _lock(descriptor: int) -> bool:
    """Lock a file as HDF5 does; False where another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # A file system without locks: there is nobody to ask.
        return True
    return True


def _replace(temporary: Path, path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if not _lock(descriptor) or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise ClaimError(f"{path}: another run has just taken it; give another --out")
        os.replace(temporary, path)
    finally:
        os.close(descriptor)
