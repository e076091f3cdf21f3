"""Make sum trees on SYCL devices."""

from __future__ import annotations

from typing import cast

from accel.interfaces import SumTree
from accel.sycl import compiler, runtime
from accel.sycl.compiler import Source


def make(capacity: int, fanout: int, device: str, dtype: str) -> SumTree:
    """Make a tree; its program is compiled or loaded first."""
    program = compiler.program(device, batched_source(fanout, dtype))
    tree = runtime.load().SumTree(program, capacity, fanout, dtype == "float64")
    return cast(SumTree, tree)


def batched_source(fanout: int, dtype: str) -> Source:
    """Return the bodies that all devices share, each a kernel over a range of work-items."""
    real = {"float32": "float", "float64": "double"}[dtype]
    return Source(
        ("prelude.hpp", "block.hpp", "tree.hpp"), (("FANOUT", fanout), ("REAL", real)), "", "sample_tree"
    )
