"""Keep the state of one Gymnasium environment with its wrappers, where it offers that.

An environment takes part by `get_state()` and `set_state(state)`: all that its `step` and `reset`
read and change, its random generator too, as arrays, numbers, texts, and dicts or lists of those.
"""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import (
    OrderEnforcing,
    PassiveEnvChecker,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
)
from numpy.typing import NDArray

from flowrl.state import Array, State, StateError, pack, unpack

Record = NDArray[np.uint8]  # empty where a state can't be kept

_TREE, _ARRAY = "tree", "array"
_ELAPSED = "_elapsed_steps"  # of a time limit; Gymnasium has no other way to it
# Wrappers that keep nothing from one step to the next that matters.
_STATELESS = (
    OrderEnforcing, PassiveEnvChecker, TransformAction, TransformObservation, TransformReward
)  # fmt: skip


def saved(env: Any) -> Record:
    """Return an environment's state as bytes; none where it or a wrapper can't tell it."""
    chain = _chain(env)
    if chain is None:
        return np.empty(0, np.uint8)
    limits, owner = chain
    arrays: list[Array] = []
    try:
        tree = _plain([[getattr(limit, _ELAPSED) for limit in limits], owner.get_state()], arrays)
    except TypeError:
        return np.empty(0, np.uint8)
    text = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    return pack({_TREE: text} | {f"{_ARRAY}{i}": array for i, array in enumerate(arrays)})


def restore(env: Any, record: Record) -> bool:
    """Let an environment, reset before, go on from what `saved` returned; tell whether it does."""
    chain = _chain(env)
    if chain is None or not record.any():
        return False
    limits, owner = chain
    try:
        pieces = unpack(record)
        elapsed, state = _arrayed(json.loads(pieces[_TREE].tobytes()), pieces)
        for limit, n_steps in zip(limits, elapsed, strict=True):
            setattr(limit, _ELAPSED, int(n_steps))
        owner.set_state(state)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StateError(f"environment {env.unwrapped} refuses its saved state: {error}") from error
    return True


def _chain(env: Any) -> tuple[list[TimeLimit[Any, Any]], Any] | None:
    """Return the time limits around the part that tells its state, and that part."""
    limits = []
    while not (_has(env, "get_state") and _has(env, "set_state")):
        if isinstance(env, TimeLimit):
            limits.append(env)
        elif not (isinstance(env, _STATELESS) and type(env).__module__.startswith("gymnasium.")):
            return None
        env = env.env
    return limits, env


def _has(env: gymnasium.Env[Any, Any], name: str) -> bool:
    return callable(getattr(env, name, None))


def _plain(value: Any, arrays: list[Array]) -> Any:
    """Return what JSON holds of a value, its arrays replaced by their places in `arrays`."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        arrays.append(value.copy())
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key is not a text")
        return {"dict": [[key, _plain(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item(), arrays)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} is not kept")


def _arrayed(tree: Any, state: State) -> Any:
    """Return what `_plain` was given; tuples have become lists."""
    if isinstance(tree, list):
        return [_arrayed(item, state) for item in tree]
    if isinstance(tree, dict) and _ARRAY in tree:
        return state[f"{_ARRAY}{int(tree[_ARRAY])}"]
    if isinstance(tree, dict):
        return {str(key): _arrayed(item, state) for key, item in tree["dict"]}
    return tree
