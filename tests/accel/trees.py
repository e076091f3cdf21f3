"""Sum trees of all backends, what must hold of their draws, and calls that are wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import accel
from accel.backends import NAMES, BackendError, load
from accel.interfaces import Float64Array, Int64Array, SumTree
from accel.reference import SumTreeReference

FANOUTS = [2, 4, 8, 16, 32, 64]


class Maker(NamedTuple):
    """How to make the trees of one backend, and how many changes it does in reasonable time."""

    make: Callable[..., Any]
    n_updates: int

    def __call__(self, capacity: int, fanout: int = 16) -> SumTree:
        tree: SumTree = self.make(capacity, fanout)
        return tree


# Emulated pipelines and a cumulative sum a call take their time.
N_UPDATES = {"sycl": 20_000, "reference": 200_000}


def makers() -> list[Any]:
    """List the reference, each variant of the CPU and each device; skip those that do not load."""
    listed = [pytest.param(Maker(SumTreeReference, N_UPDATES["reference"]), id="reference")]
    for name in NAMES:
        try:
            backend = load(name)
            devices = [""] if name == "cpu" else backend.devices()
        except BackendError as error:
            skip = pytest.mark.skip(reason=f"{name}: {error}")
            listed.append(pytest.param(None, id=name, marks=skip))
            continue
        options = [{"device": device} for device in devices]
        if name == "cpu":
            options = [{"variant": v} for v in accel.variants()] + [{"n_threads": 3}]  # type: ignore[dict-item]
        if name == "portable":
            options = [{"dtype": dtype} for dtype in ("float32", "float64")]
        if "fpga_emulator" in devices:
            options.append({"device": "fpga_emulator", "form": "pipeline"})
        for kept in options:
            maker = Maker(partial(backend.SumTree, **kept), N_UPDATES.get(name, 10**6))
            listed.append(pytest.param(maker, id="-".join([name, *map(str, kept.values())])))
    return listed


def unit(maker: Maker) -> float:
    """Return the unit roundoff of the priorities that a backend keeps."""
    tree = maker(1)
    tree.set(np.zeros(1, np.int64), np.array([1 + 2.0**-40]))
    return 2.0**-53 if tree.retrieve(np.zeros(1, np.int64))[0] > 1 else 2.0**-24


def depth_of(capacity: int, fanout: int) -> int:
    depth = 0
    while fanout**depth < capacity:
        depth += 1
    return depth


def rows_of(*values: int) -> Int64Array:
    return np.array(values, np.int64)


def filled(maker: Maker, priorities: Float64Array, fanout: int = 16) -> SumTree:
    tree = maker(priorities.size, fanout)
    tree.set(np.arange(priorities.size), priorities)
    return tree


def assert_right(
    tree: SumTree, targets: Float64Array, rows: Int64Array, roundoff: float, zero_below: float = 0
) -> None:
    """Each row is positive and holds its target, up to the rounding of the tree's sums."""
    leaves = tree.priorities().astype(np.longdouble)
    ends = np.cumsum(leaves)
    # A sum of `fanout` terms a level, and the leaf's own.
    slack = 2 * roundoff * (tree.fanout * (tree.depth + 1) + 4) * ends[-1]
    inside = np.minimum(targets, ends[-1])
    assert rows.dtype == np.int64
    assert (leaves[rows] > zero_below).all()
    assert (ends[rows] >= inside - slack).all()
    assert (ends[rows] - leaves[rows] <= inside + slack).all()


ONE, TWO = rows_of(1), rows_of(1, 2)
BAD_CALLS: list[tuple[str, tuple[Any, ...], str]] = [
    ("sample", (np.array([1.0, -0.1]),), "targets"),
    ("sample", (np.array([1.0, np.nan]),), "targets"),
    ("sample", (np.array([np.inf]),), "targets"),
    ("sample", (np.ones(2, np.float32),), "targets"),
    ("sample", (np.ones((2, 2)),), "targets"),
    ("sample", (np.ones(4)[::2],), "targets"),
    ("sample", (np.ones(2, ">f8"),), "targets"),
    ("sample_stratified", (np.array([0.5, 1.0]), 0.5), "uniforms"),
    ("sample_stratified", (np.array([-1e-9]), 0.5), "uniforms"),
    ("sample_stratified", (np.array([np.nan]), 0.5), "uniforms"),
    ("sample_stratified", (np.zeros(2, np.int64), 0.5), "uniforms"),
    ("sample_stratified", (np.zeros(2), -0.1), "beta"),
    ("sample_stratified", (np.zeros(2), np.nan), "beta"),
    ("sample_stratified", (np.zeros(2), np.inf), "beta"),
    ("retrieve", (rows_of(0, 30),), "indices"),
    ("retrieve", (rows_of(-1),), "indices"),
    ("retrieve", (np.array([1], np.int32),), "indices"),
    ("retrieve", (np.array([1.0]),), "indices"),
    ("set", (rows_of(1, 30), np.ones(2)), "indices"),
    ("set", (rows_of(1, -1), np.ones(2)), "indices"),
    ("set", (rows_of(1, 2**62), np.ones(2)), "indices"),
    ("set", (TWO.astype(np.uint64), np.ones(2)), "indices"),
    ("set", (TWO, np.array([5.0, -1e-9])), "priorities"),
    ("set", (TWO, np.array([np.nan, 5.0])), "priorities"),
    ("set", (TWO, np.array([5.0, np.inf])), "priorities"),
    ("set", (TWO, np.array([5.0, 1e308])), "priorities"),
    ("set", (rows_of(2, 2), np.array([np.nan, 5.0])), "priorities"),
    ("set", (TWO, np.ones(3)), "priorities"),
    ("set", (TWO, np.ones(2, np.float32)), "priorities"),
    ("update", (rows_of(30), np.ones(1)), "indices"),
    ("update", (rows_of(5, 4), np.array([9.0, -4.5])), "deltas"),
    ("update", (rows_of(5, 6), np.array([9.0, np.nan])), "deltas"),
    ("update", (rows_of(5, 6), np.array([-np.inf, 9.0])), "deltas"),
    ("update", (rows_of(5, 5), np.array([np.inf, 9.0])), "deltas"),
    ("update", (rows_of(5, 6), np.array([9.0, 1e308])), "deltas"),
    ("update", (TWO, np.ones(1)), "deltas"),
    ("set_td_errors", (rows_of(30), np.ones(1, np.float32), 0.6, 0.1), "indices"),
    ("set_td_errors", (ONE, np.ones(1), 0.6, 0.1), "td_errors"),
    ("set_td_errors", (ONE, np.array([np.nan], np.float32), 0.6, 0.1), "td_errors"),
    ("set_td_errors", (TWO, np.array([1, -np.inf], np.float32), 0.6, 0.1), "td_errors"),
    ("set_td_errors", (TWO, np.ones(1, np.float32), 0.6, 0.1), "td_errors"),
    ("set_td_errors", (ONE, np.ones(1, np.float32), -0.1, 0.1), "alpha"),
    ("set_td_errors", (ONE, np.ones(1, np.float32), np.nan, 0.1), "alpha"),
    ("set_td_errors", (ONE, np.ones(1, np.float32), 0.6, -0.1), "epsilon"),
    ("set_td_errors", (ONE, np.ones(1, np.float32), 0.6, np.inf), "epsilon"),
    ("set_td_errors", (TWO, np.array([1, 1e38], np.float32), 9.0, 0.1), "priorities"),
    ("insert", (30, 1), "start"),
    ("insert", (-1, 1), "start"),
    ("insert", (0, 31), "n "),
    ("insert", (0, -1), "n "),
    ("insert", (0, 2, -1.0), "priority"),
    ("insert", (0, 2, np.nan), "priority"),
    ("insert", (0, 0, np.inf), "priority"),
    ("load", (np.ones(29), 1.0), "priorities"),
    ("load", (np.ones(30, np.float32), 1.0), "priorities"),
    ("load", (np.full(30, np.nan), 1.0), "priorities"),
    ("load", (-np.ones(30), 1.0), "priorities"),
    ("load", (np.ones(30), 0.5), "largest"),
    ("load", (np.zeros(30), 0.0), "largest"),
    ("load", (np.ones(30), np.nan), "largest"),
    ("load", (np.ones(30), np.inf), "largest"),
]  # fmt: skip
