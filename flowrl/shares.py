"""States with one row an environment, gathered on root and dealt out again over any ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flowrl.comm import Bytes, Communicator
from flowrl.state import Array, State, StateError, pack, unpack
from flowrl.trajectory import IntArray


def gather_rows(comm: Communicator, rows: State) -> State | None:
    """Return on root the rows of all ranks, in rank order; None elsewhere."""
    block = pack(rows)
    padded = np.zeros(-(-len(block) // 8) * 8, np.uint8)
    padded[: len(block)] = block
    # Copied, never computed with: any bytes may travel as numbers.
    blocks = comm.gather(padded.view(np.float64)[:, None])
    sizes = comm.gather(np.array([[float(len(padded))]]))
    if blocks is None or sizes is None:
        return None
    edges = np.cumsum(sizes[:, 0]).astype(np.int64)[:-1]
    parts = [unpack(part) for part in np.split(blocks.view(np.uint8).ravel(), edges)]
    names = dict.fromkeys(name for part in parts for name in part)
    # A rank without environments has no name, or no row of it.
    return {name: _joined([part[name] for part in parts if name in part]) for name in names}


def _joined(pieces: list[Array]) -> Array:
    pieces = [piece for piece in pieces if len(piece)] or pieces[:1]
    if pieces[0].dtype == np.uint8 and pieces[0].ndim == 2:  # records, each rank's of its own width
        width = max(piece.shape[1] for piece in pieces)
        pieces = [np.pad(piece, ((0, 0), (0, width - piece.shape[1]))) for piece in pieces]
    return np.concatenate(pieces)


def share_rows(rows: Mapping[str, Array], shares: IntArray) -> list[State]:
    """Split rows of all environments, or of all their groups, into each rank's."""
    n_envs, stops = int(shares.sum()), shares.cumsum()
    parts: list[State] = [{} for _ in shares]
    for name, values in rows.items():
        if values.ndim == 0 or len(values) == 0 or n_envs % len(values):
            raise StateError(
                f"saved state's {name} must have a row for each of {n_envs} environments or for "
                f"their groups, got the shape {values.shape}: it is of a run with other sizes"
            )
        per_row = n_envs // len(values)
        for part, piece in zip(parts, np.split(values, stops[:-1] // per_row), strict=True):
            part[name] = piece
    return parts


def deal(comm: Communicator, parts: list[State] | None) -> State:
    """Hand every rank its part, given on root; empty where root could make none."""
    if comm.rank > 0:
        size = np.zeros(1, np.int64)
        comm.start_receive(size.view(np.uint8), 0).wait()
        block = np.zeros(int(size[0]), np.uint8)
        comm.start_receive(block, 0).wait()
        return unpack(block)
    for rank in range(1, comm.size):
        _send(comm, pack(parts[rank] if parts else {}), rank)
    return parts[0] if parts else {}


def _send(comm: Communicator, block: Bytes, rank: int) -> None:
    for piece in (np.array([len(block)], np.int64).view(np.uint8), block):
        comm.start_send(piece, rank).wait()
