"""States of a run as flat mappings from names to arrays, composed by prefixes.

Every owner of state has `state()`, which returns such a mapping, and `load_state(...)`, which takes
it. What is loaded comes from a file that anybody may have written: it is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from flowrl.config import ConfigError
from flowrl.config.names import shown
from flowrl.trajectory import UInt64Array

Array = NDArray[Any]
State = dict[str, Array]

_WORD = 2**64
N_WORDS = 6  # of a generator


class StateError(ConfigError):
    """Report, in one line, why a saved state does not fit the run."""


def prefixed(prefix: str, state: Mapping[str, Any]) -> State:
    """Return a state under longer names."""
    return {f"{prefix}/{name}": np.asarray(values) for name, values in state.items()}


def within(prefix: str, state: Mapping[str, Array]) -> State:
    """Return what was prefixed, under its own names."""
    start = f"{prefix}/"
    return {name[len(start) :]: a for name, a in state.items() if name.startswith(start)}


def take(
    state: Mapping[str, Array], name: str, dtype: DTypeLike, shape: tuple[int | None, ...]
) -> Array:
    """Return an array of the state; None in the shape stands for any length."""
    if name not in state:
        raise StateError(f"saved state must hold {name}, got none: it is of another kind of run")
    array = state[name]
    fits = len(shape) == array.ndim and all(
        n is None or n == m for n, m in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise StateError(
            f"saved state's {shown(name)} must be {np.dtype(dtype)} of shape {wanted}, got "
            f"{array.dtype} of shape {array.shape}: it is of a run with other sizes"
        )
    return array


def take_count(state: Mapping[str, Array], name: str, most: int = 2**62) -> int:
    """Return a count of the state, from 0 to `most`."""
    count = int(take(state, name, np.int64, ()))
    if not 0 <= count <= most:
        raise StateError(f"saved state's {name} must be 0 to {most}, got {count}: it is damaged")
    return count


def take_like(state: Mapping[str, Array], template: Mapping[str, Any]) -> State:
    """Return the arrays named in a template, each of the type and shape that it has there."""
    return {
        name: take(state, name, np.asarray(like).dtype, np.shape(like))
        for name, like in template.items()
    }


def generator_words(rng: np.random.Generator) -> UInt64Array:
    """Return the state of a PCG64 generator as (N_WORDS,) whole numbers."""
    state: Any = rng.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    words = [word for number in numbers for word in divmod(number, _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def set_generator(rng: np.random.Generator, words: UInt64Array) -> None:
    """Let a PCG64 generator go on from its words."""
    high, low, inc_high, inc_low, has_uint32, uinteger = map(int, words)
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * _WORD + low, "inc": (inc_high * _WORD + inc_low) | 1},
        "has_uint32": int(has_uint32 > 0),
        "uinteger": uinteger % 2**32,
    }


def pack(state: Mapping[str, Array]) -> NDArray[np.uint8]:
    """Return a state as one block of bytes, from which `unpack` makes an equal one."""
    arrays = {name: np.asarray(values) for name, values in state.items()}
    entries = [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]
    head = json.dumps(entries).encode()
    sizes = np.array([len(head)], np.int64).tobytes()
    pieces = [sizes, head, *(np.ascontiguousarray(a).tobytes() for a in arrays.values())]
    return np.frombuffer(b"".join(pieces), np.uint8)


def unpack(block: NDArray[np.uint8]) -> State:
    """Return the state in a block of bytes; what follows it is ignored."""
    try:
        return _unpacked(block.tobytes())
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise StateError(f"saved state can't be unpacked ({error}): it is damaged") from error


def _unpacked(block: bytes) -> State:
    begin = 8 + int(np.frombuffer(block[:8], np.int64)[0])
    state: State = {}
    for name, kind, shape in json.loads(block[8:begin]):
        dtype = np.dtype(str(kind))
        if dtype.kind not in "fiub" or any(n < 0 for n in shape):
            raise ValueError(f"{shown(str(name))} is not an array of numbers")
        n = int(np.prod(shape, dtype=object))
        if n * dtype.itemsize > len(block) - begin:
            raise ValueError(f"{shown(str(name))} claims more bytes than there are")
        state[str(name)] = np.frombuffer(block, dtype, n, begin).reshape(shape).copy()
        begin += n * dtype.itemsize
    return state
