"""Parcels: what an actor hands over of one collection, as one contiguous block of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flowrl.collector import EPISODE_COLUMNS
from flowrl.trajectory import Float64Array, Trajectory

Bytes = npt.NDArray[np.uint8]

_ALIGNMENT = 64  # of every array in a block [bytes]


@dataclass(frozen=True)
class Header:
    """What a parcel says of itself; all are whole numbers."""

    number: int  # of the collection, from 0: parcels of a worker come in its order
    worker: int
    life: int  # how often the worker had been replaced
    n_updates: int  # made by the learner before the policy that acted
    n_blow_ups: int  # of this worker's environments in this life
    n_episodes: int  # rows of the finished episodes


_N_HEADER = len(Header.__dataclass_fields__)


@dataclass(frozen=True)
class ParcelLayout:
    """Sizes of the parcels of one worker, and where in a block each array lies."""

    n_envs: int
    n_steps: int  # the most of one environment in a collection
    n_observations: int
    n_actions: int

    def arrays(self) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
        """Return the type and shape of each array in a block, in order."""
        steps = (self.n_envs, self.n_steps)
        return {
            "header": (np.int64, (_N_HEADER,)),
            "lengths": (np.int64, (self.n_envs,)),
            "rewards": (np.float64, steps),
            # Every step may end an episode.
            "episodes": (np.float64, (self.n_envs * self.n_steps, len(EPISODE_COLUMNS))),
            "observations": (np.float32, (*steps, self.n_observations)),
            "next_observations": (np.float32, (*steps, self.n_observations)),
            "actions": (np.float32, (*steps, self.n_actions)),
            "terminated": (np.bool_, steps),
            "truncated": (np.bool_, steps),
        }

    @property
    def n_bytes(self) -> int:
        """Count the bytes of a block."""
        return sum(_padded(kind, shape) for kind, shape in self.arrays().values())


def _padded(kind: type[np.generic], shape: tuple[int, ...]) -> int:
    n_bytes = np.dtype(kind).itemsize * int(np.prod(shape))
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT


class Parcel:
    """One parcel in a block of bytes that others may see, too."""

    def __init__(self, layout: ParcelLayout, block: Bytes) -> None:
        """Lay a parcel over a block of `layout.n_bytes`."""
        self.block = block
        self._views: dict[str, npt.NDArray[Any]] = {}
        begin = 0
        for name, (kind, shape) in layout.arrays().items():
            n_bytes = np.dtype(kind).itemsize * int(np.prod(shape))
            self._views[name] = block[begin : begin + n_bytes].view(kind).reshape(shape)
            begin += _padded(kind, shape)

    def write(self, header: Header, trajectory: Trajectory, episodes: Float64Array) -> None:
        """Fill the block; a trajectory may have fewer steps than there is room for."""
        n_steps = trajectory.rewards.shape[1]
        self._views["header"][:] = list(vars(header).values())
        self._views["lengths"][:] = trajectory.lengths
        self._views["episodes"][: len(episodes)] = episodes
        for name in _OF_STEPS:
            self._views[name][:, :n_steps] = getattr(trajectory, name)

    @property
    def header(self) -> Header:
        """Return what the parcel says of itself."""
        return Header(*self._views["header"].tolist())

    @property
    def trajectory(self) -> Trajectory:
        """Return views of the transitions, as wide as the longest unroll."""
        lengths = self._views["lengths"].copy()
        n_steps = int(lengths.max(initial=0))
        arrays = {name: self._views[name][:, :n_steps] for name in _OF_STEPS}
        return Trajectory(**arrays, lengths=lengths)

    def episodes(self, n: int) -> Float64Array:
        """Return copies of the first n finished episodes, by `EPISODE_COLUMNS`: (n, 4)."""
        episodes: Float64Array = self._views["episodes"][:n]
        return episodes.copy()


_OF_STEPS = (
    "rewards",
    "observations",
    "next_observations",
    "actions",
    "terminated",
    "truncated",
)


def ring(layout: ParcelLayout, n_slots: int, block: Bytes) -> list[Parcel]:
    """Lay `n_slots` parcels over one block; collection k goes into slot k modulo n_slots."""
    n = layout.n_bytes
    return [Parcel(layout, block[i * n : (i + 1) * n]) for i in range(n_slots)]
