"""Write a file as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from flowrl.claim import temporary_beside
from flowrl.config import ConfigError
from flowrl.config.names import shown


def is_matrix_file(path: Path) -> bool:
    """Tell whether a name is that of an HDF5 file."""
    return path.suffix in (".h5", ".hdf5")


def check_output(option: str, path: Path, overwrite: bool, takes_group: bool = True) -> None:
    """Raise ConfigError, before any work is done, where the file can't or mustn't be written.

    `takes_group`: what is written becomes a group of an HDF5 file that is there.
    """
    folder = path.parent
    if not _mode(option, folder, stat.S_ISDIR) or not os.access(folder, os.W_OK):
        raise ConfigError(
            f"{option} must be in a folder that can be written, got {shown(str(path))}; make the "
            "folder, or name another"
        )
    if _mode(option, path, stat.S_ISDIR):
        raise ConfigError(
            f"{option} must be a file, got the folder {shown(str(path))}; name a file in it"
        )
    exists = _mode(option, path, lambda _: True)
    if exists and not _mode(option, path, stat.S_ISREG):  # a device, say: it would be replaced
        raise ConfigError(
            f"{option} must be an ordinary file, got {shown(str(path))}; name another"
        )
    if exists and not overwrite and (not takes_group or _is_taken(option, path)):
        raise ConfigError(
            f"{option} must be a new file, got {shown(str(path))}, which exists; name another, or "
            "use --overwrite"
        )


def _mode(option: str, path: Path, test: Callable[[int], bool]) -> bool:
    """Tell whether a path exists and its mode passes a test; ConfigError for what is no path."""
    try:
        return test(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{option} must be a file that can be written, got {shown(str(path))}: {reason}"
        ) from None


def replace_text(path: Path, text: str) -> None:
    """Write a text aside, then rename it; OSError where that fails, which leaves nothing behind."""
    temporary = temporary_beside(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_text(option: str, path: Path, text: str) -> None:
    """Put a text file in place."""
    try:
        replace_text(path, text)
    except OSError as error:
        raise ConfigError(
            f"{option} must be a file that can be written, got {shown(str(path))}: {error.strerror}"
        ) from None


def _is_taken(option: str, path: Path) -> bool:
    """Tell whether a file that exists has no place left; a results file takes a new group."""
    if not is_matrix_file(path):
        return True
    from flowrl.composer.matrix_file import MatrixFileError, holds_matrix

    try:
        return holds_matrix(path)
    except MatrixFileError as error:
        raise ConfigError(
            f"{option} must be an HDF5 file or a new one, but {path} {error}"
        ) from None
