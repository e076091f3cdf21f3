"""Cut the training of small networks into the stages of an FPGA's pipeline.

Zhang et al. (TPDS 2023). A layer of n inputs and m outputs has n m multiply-adds a row in its
forward stage FP, in BP (the gradient of its input) and in GA (the gradient of its weights); LOSS
has one a value. Where s and s' share the pipe, FP has twice the work.

The sources treat value networks only. For an actor with critics we add [ours] what its gradient
takes: critics are passed once more, on (s, pi(s)), forward and back to the actions. The pipe is as
deep as actor and critic one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from flowrl.composer.workload import Workload
from flowrl.networks import Column, Layers, n_outputs, n_weights


@dataclass(frozen=True)
class Stages:
    """Work of one pipeline."""

    work: tuple[int, ...]  # n_s, multiply-adds a row of each stage
    most: tuple[int, ...]  # multipliers a stage can use: those of one pass
    depth: int  # D_L = 2 L + 1 stages one after the other
    n_weights: int
    n_activations: int  # numbers that all layers make of one row


def stages_of(workload: Workload) -> Stages:
    """Return the stages of a workload's networks."""
    if not len(workload.critic):
        return _stages([_network(workload.actor, 2, 1, 0), _loss(workload.actor)], workload)
    parts = [
        _network(workload.actor, 2, 1, 0),
        _network(workload.critic, 3, 2, 1),
        _loss(workload.critic),
    ]
    return _stages(parts, workload)


def balance(stages: Stages, n_multipliers: int) -> tuple[int, tuple[int, ...]]:
    """Return tau and the multipliers of each stage, of which there is one at least.

    tau(B) = least t with sum_s ceil(n_s / t) <= B and t >= max_s ceil(n_s / cap_s), then
    UF_s = ceil(n_s / t).
    """
    low = max(-(-work // most) for work, most in zip(stages.work, stages.most, strict=True))
    high = max(low, *stages.work)
    while low < high:  # the sum falls as t grows
        middle = (low + high) // 2
        if sum(-(-work // middle) for work in stages.work) <= n_multipliers:
            high = middle
        else:
            low = middle + 1
    return low, tuple(-(-work // low) for work in stages.work)


_Part = list[tuple[int, int]]  # work and most multipliers of some stages


def _network(layers: Layers, n_forward: int, n_backward: int, n_to_inputs: int) -> _Part:
    """Return FP, BP and GA of a network's layers.

    The gradient goes n_backward times through the layers behind the first ones, and n_to_inputs
    times through those to the network's input.
    """
    part: _Part = []
    for row in layers:
        once = int(row[Column.N_IN]) * int(row[Column.N_OUT])
        n_back = n_to_inputs if row[Column.SOURCE] < 0 else n_backward
        part += [(n_forward * once, once), (once, once)]
        part += [(n_back * once, once)] if n_back else []
    return part


def _loss(layers: Layers) -> _Part:
    n = n_outputs(layers)
    return [(n, n)]


def _stages(parts: list[_Part], workload: Workload) -> Stages:
    stages = [stage for part in parts for stage in part]
    networks = [layers for layers in (workload.actor, workload.critic) if len(layers)]
    return Stages(
        work=tuple(work for work, _ in stages),
        most=tuple(most for _, most in stages),
        depth=2 * sum(map(_n_layers, networks)) + 1,
        n_weights=sum(map(n_weights, networks)),
        n_activations=sum(int(layers[:, Column.N_OUT].sum()) for layers in networks),
    )


def _n_layers(layers: Layers) -> int:
    """Return the length of the longest chain of layers."""
    depths: list[int] = []
    for row in layers:
        source = int(row[Column.SOURCE])
        depths.append(1 if source < 0 else depths[source] + 1)
    return max(depths)
