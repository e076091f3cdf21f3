"""Make sum trees on SYCL devices: what to compile for which form, type and size."""

from __future__ import annotations

from operator import index

from accel.checks import require
from accel.interfaces import SumTree
from accel.sycl import compiler, runtime
from accel.sycl.compiler import Source

FANOUTS = (2, 4, 8, 16, 32, 64)
FORMS = ("batched", "pipeline")
_REALS = {"float32": "float", "float64": "double"}
_FILES = ("prelude.hpp", "block.hpp", "tree.hpp")
# Items that a pipe holds. Ten or so would do on an FPGA; on the emulator kernels that wait for each
# other cost milliseconds, so a whole batch goes through each in turn.
_PIPE_DEPTH = 4096
# A pipeline is compiled for a power of two of rows, and serves all smaller trees of its fanout.
_FEWEST_ROWS = 1 << 14
_MOST_ROWS = 1 << 20  # the leaves are an array on the stack of the emulator's thread


def make(
    capacity: int, fanout: int, device: str, dtype: str, form: str, concurrent: bool
) -> SumTree:
    """Make a tree; its program is compiled or loaded first."""
    capacity, fanout = index(capacity), index(fanout)
    _check(capacity, fanout, dtype, form)
    runtime.load()
    from accel import _sycl

    if dtype == "float64":
        has_it = compiler.device(device).has_float64
        require(has_it, "dtype", f"float32 on {device}: no 64-bit atomics", repr(dtype))
    if form == "batched":
        program = compiler.program(device, batched_source(fanout, dtype))
        return _sycl.batched_tree(program, capacity, fanout, dtype == "float64")
    require(device == "fpga_emulator", "device", "'fpga_emulator' for form 'pipeline'", device)
    require(capacity <= _MOST_ROWS, "capacity", f"at most {_MOST_ROWS} in a pipeline", capacity)
    n_rows = max(_FEWEST_ROWS, 1 << (capacity - 1).bit_length())
    nodes = level_nodes(n_rows, fanout)
    if concurrent:
        runtime.check_threads(len(nodes) + 2)
    program = compiler.program(device, pipeline_source(fanout, dtype, nodes))
    return _sycl.pipeline_tree(
        program, capacity, fanout, dtype == "float64", len(nodes), _PIPE_DEPTH, concurrent
    )


def batched_source(fanout: int, dtype: str) -> Source:
    """Return the bodies that all devices share, each a kernel over a range of work-items."""
    return Source(_FILES, (("FANOUT", fanout), ("REAL", _REALS[dtype])), "", "sample_tree")


def pipeline_source(fanout: int, dtype: str, nodes: list[int]) -> Source:
    """Return the pipeline's kernels, one a level, beside the others."""
    definitions: tuple[tuple[str, int | str], ...] = (
        ("FANOUT", fanout),
        ("REAL", _REALS[dtype]),
        ("DEPTH", len(nodes)),
        ("LEVEL_NODES", "{" + ", ".join(map(str, nodes)) + "}"),
        ("PIPE_DEPTH", _PIPE_DEPTH),
    )
    levels = "\n".join(f"LEVEL_KERNEL({level})" for level in range(1, len(nodes) + 1))
    return Source((*_FILES, "tree_pipeline.hpp"), definitions, levels, "sample_tree")


def level_nodes(n_rows: int, fanout: int) -> list[int]:
    """Count the nodes of levels 1 to D, in whole groups of siblings."""
    counts = [n_rows]
    while counts[0] > fanout:
        counts.insert(0, -(-counts[0] // fanout))
    return [-(-n // fanout) * fanout for n in counts]


def _check(capacity: int, fanout: int, dtype: str, form: str) -> None:
    require(1 <= capacity <= 1 << 30, "capacity", "1 to 2^30 rows", capacity)
    require(fanout in FANOUTS, "fanout", "a power of two from 2 to 64", fanout)
    require(dtype in _REALS, "dtype", "'float32' or 'float64'", repr(dtype))
    require(form in FORMS, "form", "'batched' or 'pipeline'", repr(form))
