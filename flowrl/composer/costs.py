"""The Primitive Device Assignment Matrix: seconds of each primitive on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf


class Origin(StrEnum):
    """Where a number comes from: said beside it wherever it is printed."""

    MEASURED = "measured"
    MODELLED = "modelled"
    GIVEN = "given"


@dataclass(frozen=True)
class Seconds:
    """A time and where it comes from; infinite where the device can't do it."""

    value: float  # [s] median where measured
    origin: Origin
    spread: float = 0.0  # [s] interquartile range where measured
    n_iterations: int = 0  # in how many it was measured


@dataclass(frozen=True)
class PrimitiveCosts:
    """One iteration on one device: a batch drawn, its priorities set, new rows, an update."""

    sample: Seconds
    update: Seconds
    insert: Seconds
    train: Seconds


@dataclass(frozen=True)
class DeviceCosts:
    """Costs of a device that has one primitive, and of one that has both."""

    alone: PrimitiveCosts
    shared: PrimitiveCosts
    in_turn: bool = False  # of a run without actors beside: no part of an iteration overlaps


PRIMITIVES = ("sample", "update", "insert", "train")
SHARES = ("alone", "shared")

Costs = Mapping[str, DeviceCosts]  # by the device's name, in the hardware file's order


def impossible(origin: Origin = Origin.MODELLED) -> PrimitiveCosts:
    """Return the costs on a device that can't do any of it."""
    never = Seconds(inf, origin)
    return PrimitiveCosts(never, never, never, never)
