"""The checkpoints of one run, in a directory beside its results file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from flowrl.checkpoint import (
    Checkpoint,
    CheckpointError,
    read_checkpoint,
    write_checkpoint,
)

# The transitions made, which count on where updates do not: before the first one, say.
_NAME = re.compile(r"(\d{12,})\.h5")
_TEMPORARY = ".*.tmp"


class Shelf:
    """Keeps the newest checkpoints of a results file."""

    def __init__(self, results: Path, keep: int) -> None:
        """Use the directory RUN.h5.checkpoints; it is made when there is something to keep."""
        self.directory = results.with_name(f"{results.name}.checkpoints")
        self._keep = keep

    def paths(self) -> list[Path]:
        """Return the checkpoints there are, the newest first."""
        try:
            found = [path for path in self.directory.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return []
        return sorted(found, key=_number, reverse=True)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, and remove those that are too old; raise CheckpointError."""
        path = self.directory / f"{checkpoint.header.transitions:012d}.h5"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{self.directory}: cannot be made: {error.strerror}") from error
        write_checkpoint(path, checkpoint)
        self._tidy()
        return path

    def _tidy(self) -> None:
        """Remove what is too old, and what interrupted writes have left behind."""
        for path in (*self.paths()[self._keep :], *self.directory.glob(_TEMPORARY)):
            with contextlib.suppress(OSError):
                path.unlink()

    def drop_newer(self, transitions: int) -> None:
        """Remove checkpoints after so many transitions: the run has gone on from before them."""
        for path in self.paths():
            if _number(path) > transitions:
                with contextlib.suppress(OSError):
                    path.unlink()

    def clear(self) -> None:
        """Remove all checkpoints, and the directory if nothing else is in it."""
        with contextlib.suppress(OSError):
            for path in (*self.paths(), *self.directory.glob(_TEMPORARY)):
                path.unlink()
            self.directory.rmdir()

    def newest(
        self, run_id: str, n_rows: Mapping[str, int], warn: Callable[[str], None]
    ) -> Checkpoint:
        """Return the newest checkpoint of a run that is sound and that its results reach.

        Those passed over for an older one are told to `warn`. Raises CheckpointError where there
        is none, for the reason that holds for the newest.
        """
        errors: list[CheckpointError] = []
        for path in self.paths():
            try:
                checkpoint = read_checkpoint(path)
                _check_belongs(path, checkpoint, run_id, n_rows)
            except CheckpointError as error:
                errors.append(error)
                continue
            for passed_over in errors:
                warn(f"{passed_over}; going on from {path.name}")
            return checkpoint
        if errors:
            raise errors[0]
        raise CheckpointError(
            f"{self.directory}: holds no checkpoint to go on from; start the run again, with "
            "--checkpoint.interval or --checkpoint.seconds"
        )


def _check_belongs(
    path: Path, checkpoint: Checkpoint, run_id: str, n_rows: Mapping[str, int]
) -> None:
    header = checkpoint.header
    if header.run_id != run_id:
        raise CheckpointError(f"{path}: a checkpoint of another run than the results file's")
    for table, n in header.n_rows.items():
        if n > n_rows[table]:
            raise CheckpointError(
                f"{path}: made after {n} rows of {table}, and the results file holds "
                f"{n_rows[table]}: it is older"
            )


def _number(path: Path) -> int:
    return int(path.stem)
