"""Write a file as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from flowrl.claim import temporary_beside
from flowrl.config import ConfigError
from flowrl.config.names import shown


def is_matrix_file(path: Path) -> bool:
    """Tell whether a name is that of an HDF5 file."""
    return path.suffix in (".h5", ".hdf5")


def check_output(option: str, path: Path, overwrite: bool) -> None:
    """Raise ConfigError, before any work is done, where the file can't or mustn't be written."""
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(
            f"{option} must be in a folder that can be written, got {shown(str(path))}; make the "
            "folder, or name another"
        )
    if path.is_dir():
        raise ConfigError(f"{option} must be a file, got the folder {shown(str(path))}")
    if path.exists() and not overwrite and _is_taken(option, path):
        raise ConfigError(
            f"{option} must be a new file, got {shown(str(path))}, which exists; name another, or "
            "use --overwrite"
        )


def write_text(option: str, path: Path, text: str) -> None:
    """Put a text file in place."""
    temporary = temporary_beside(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
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
