"""Prioritized replay of ours and of other libraries, behind one set of calls for the benchmark."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cpu import SumTree

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6


@dataclass(frozen=True)
class Contender:
    """The calls of one library; None where it has no such call apart from others."""

    name: str
    sample: Callable[[int], object]  # indices and importance weights, random numbers included
    update: Callable[[Int64Array, Float32Array], object]  # from errors of temporal differences
    set: Callable[[Int64Array, Float64Array], object] | None  # priorities as they are
    insert: Callable[[Int64Array], object]  # the largest priority for rows side by side
    indices: type = np.int64  # type of index that it takes without a copy


Maker = Callable[[Float64Array], Contender]  # from the priorities (capacity,)


def ours(fanout: int) -> Maker:
    """Return a maker of our sum tree on the CPU."""

    def make(priorities: Float64Array) -> Contender:
        tree = SumTree(priorities.size, fanout)
        tree.load(priorities, float(priorities.max()))
        rng = np.random.Generator(np.random.SFC64(0))
        return Contender(
            name=f"accel K={fanout}",
            sample=lambda n: tree.sample_stratified(rng.random(n), BETA),
            update=lambda indices, errors: tree.set_td_errors(indices, errors, ALPHA, EPSILON),
            set=tree.set,
            insert=lambda indices: tree.insert(int(indices[0]), indices.size),
        )

    return make


def _cpprb(priorities: Float64Array) -> Contender:
    cpprb = importlib.import_module("cpprb")
    # Sampling can't be had without fetching rows: as short a row as there is.
    row = {"row": {"shape": 1, "dtype": np.int8}}
    buffer = cpprb.PrioritizedReplayBuffer(priorities.size, row, alpha=ALPHA, eps=EPSILON)
    buffer.add(row=np.zeros((priorities.size, 1), np.int8))
    buffer.update_priorities(np.arange(priorities.size), priorities ** (1 / ALPHA))
    rows = np.zeros((priorities.size, 1), np.int8)
    return Contender(
        name="cpprb",
        sample=lambda n: buffer.sample(n, beta=BETA),
        update=lambda indices, errors: buffer.update_priorities(indices, np.abs(errors)),
        set=None,
        insert=lambda indices: buffer.add(row=rows[: indices.size]),
        indices=np.uint64,
    )


def _tianshou(priorities: Float64Array) -> Contender:
    data = importlib.import_module("tianshou.data")
    buffer = data.PrioritizedReplayBuffer(priorities.size, alpha=ALPHA, beta=BETA)
    row = dict.fromkeys(("obs", "act", "rew", "terminated", "truncated", "obs_next", "info"), 0)
    buffer.add(data.Batch({**row, "info": {}}))  # an empty buffer draws nothing
    buffer.weight[np.arange(priorities.size)] = priorities

    def sample(n: int) -> object:
        indices = buffer.sample_indices(n)
        weights = buffer.get_weight(indices)
        return indices, weights / weights.max()

    return Contender(
        name="tianshou",
        sample=sample,
        update=buffer.update_weight,
        set=buffer.weight.__setitem__,
        insert=buffer.init_weight,
    )


def _torchrl(priorities: Float64Array) -> Contender:
    torch = importlib.import_module("torch")
    # The package loads without its compiled part, the sampler does not.
    tree_type = importlib.import_module("torchrl._torchrl").SumSegmentTreeFp32
    samplers = importlib.import_module("torchrl.data.replay_buffers.samplers")
    storages = importlib.import_module("torchrl.data.replay_buffers.storages")
    capacity = priorities.size
    sampler = samplers.PrioritizedSampler(capacity, alpha=ALPHA, beta=BETA, eps=EPSILON)
    storage = storages.ListStorage(capacity)
    storage.set(range(capacity), [0] * capacity)
    sampler.extend(torch.arange(capacity))
    sampler.update_priority(torch.arange(capacity), torch.from_numpy(priorities).float())
    # The sampler takes errors only: priorities as they are go to a tree of its kind.
    tree: Any = tree_type(capacity)
    return Contender(
        name="torchrl",
        sample=lambda n: sampler.sample(storage, n),
        update=lambda i, e: sampler.update_priority(torch.from_numpy(i), torch.from_numpy(e).abs()),
        set=lambda indices, values: tree.__setitem__(indices, values.astype(np.float32)),
        insert=lambda indices: sampler.extend(torch.from_numpy(indices)),
    )


PEERS: dict[str, Maker] = {"cpprb": _cpprb, "torchrl": _torchrl, "tianshou": _tianshou}


def make_peers(priorities: Float64Array) -> tuple[list[Contender], list[str]]:
    """Return the peers that load, and one line for each that does not."""
    made, skipped = [], []
    for name, make in PEERS.items():
        try:
            made.append(make(priorities))
        except (ImportError, OSError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            skipped.append(f"{name} is left out: {reason[:150]}")
    return made, skipped
