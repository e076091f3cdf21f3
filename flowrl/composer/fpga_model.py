"""Model the seconds of the primitives on an FPGA: modelled numbers, and labelled so.

Zhang et al. (HiPC 2021, TPDS 2023) and Meng et al. (CF 2024). With clock f, fanout K, batch BS,
n_new inserted rows and a tree of D levels, one pipelined kernel each:

    T_sample = 2 K (BS + D) / f + T_comm
    T_update = 2 (BS + D) / f + T_comm
    T_insert = 2 (n_new + D) / f + (n_new + D) / f + T_comm       the second term: reading first
    T_train  = tau (ceil(BS / DP) + D_L) / f + T_weights + T_comm

DP equal pipelines of the stages FP, LOSS, BP, GA share the rows of a batch; D_L = 2 L + 1 for L
layers; tau is the slowest stage in cycles. What the sources leave open and we chose:

* T_comm, messages with the host: sample 4 BS bytes of indices, update 8 BS and insert 8 n_new of
  indices and priorities, train the batch and 4 BS of errors. Where replay manager and learner share
  the FPGA, indices of an update are there and priorities go by pipes: its T_comm is 0.
* T_weights: all weights go once through the FPGA's own memory.
* On-chip memory of a learner, words of 32 bits: two moments of the optimiser for each weight, and
  in each pipeline weights, target's weights, sums of gradients, and the activations of D_L rows.
* Uniform replay has no priorities to update.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from math import ceil, inf
from typing import Literal

from flowrl.composer.costs import DeviceCosts, Origin, PrimitiveCosts, Seconds, impossible
from flowrl.composer.hardware import Device, Link
from flowrl.composer.stages import Stages, balance, stages_of
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError
from flowrl.config.names import shown

_WORD_BITS, _WORD_BYTES = 32, 4
_NEEDED = (
    "clock_hz",
    "n_dsps",
    "n_m20k_blocks",
    "memory_latency_s",
    "memory_bandwidth_bytes_per_s",
)


@dataclass(frozen=True)
class Design:
    """A learner on an FPGA."""

    n_pipelines: int  # DP
    unroll: tuple[int, ...]  # UF, multipliers of each stage of one pipeline
    tau: int  # [cycles] a row in the slowest stage
    sram_bits: int
    compute_s: float  # tau (ceil(BS / DP) + D_L) / f


def modelled_costs(device: Device, link_to_host: Link, workload: Workload) -> DeviceCosts:
    """Return the costs on an FPGA; infinite where it has not the memory or the multipliers.

    A trainer of the user's own ("torch") has no form that an FPGA could run.
    """
    _require_numbers(device)
    tree = tree_bits(workload.capacity, workload.fanout) if workload.is_prioritized else 0
    alone = _costs(device, link_to_host, workload, tree, device.sram_bits)
    left = device.sram_bits - tree
    shared = _costs(device, link_to_host, workload, tree, left)
    if shared.train.value == inf or shared.sample.value == inf:
        return DeviceCosts(alone, impossible())
    return DeviceCosts(alone, _joined(device, workload, shared))


def n_levels(capacity: int, fanout: int) -> int:
    """Return D = ceil(log_K N), at least 1: the levels below the root."""
    levels, leaves = 1, fanout
    while leaves < capacity:
        levels, leaves = levels + 1, leaves * fanout
    return levels


def tree_bits(capacity: int, fanout: int) -> int:
    """Return the on-chip memory of all levels, that of the leaves included [bits].

    Level l of D has min(K^l, ceil(N / K^(D - l))) words.
    """
    words, above, below = 0, 1, fanout ** n_levels(capacity, fanout)
    for _ in range(n_levels(capacity, fanout)):
        above, below = above * fanout, below // fanout
        words += min(above, -(-capacity // below))
    return _WORD_BITS * words


def learner_bits(stages: Stages, n_pipelines: int) -> int:
    """Return the on-chip memory of a learner [bits], see the module."""
    pipeline = 3 * stages.n_weights + stages.depth * stages.n_activations
    return _WORD_BITS * (2 * stages.n_weights + n_pipelines * pipeline)


def design(
    stages: Stages,
    batch_size: int,
    n_dsps: int,
    sram_bits: int,
    clock_hz: float,
    rule: Literal["best", "paper"] = "best",
) -> Design | None:
    """Return the learner that fits multipliers and memory; None where not one pipeline does.

    Rule "best" takes the least time, of equal ones that of the fewest pipelines. Rule "paper" takes
    as many pipelines as leave tau at its least.
    """
    most = min(batch_size, n_dsps // len(stages.work))
    fitting = takewhile(lambda n: learner_bits(stages, n) <= sram_bits, range(1, most + 1))
    designs = [_design(stages, batch_size, n, n_dsps, clock_hz) for n in fitting]
    if not designs:
        return None
    if rule == "paper":
        least = min(found.tau for found in designs)
        return [found for found in designs if found.tau == least][-1]
    return min(designs, key=lambda found: found.compute_s)


def _design(
    stages: Stages, batch_size: int, n_pipelines: int, n_dsps: int, clock_hz: float
) -> Design:
    tau, unroll = balance(stages, n_dsps // n_pipelines)
    cycles = tau * (ceil(batch_size / n_pipelines) + stages.depth)
    return Design(n_pipelines, unroll, tau, learner_bits(stages, n_pipelines), cycles / clock_hz)


def _costs(
    device: Device, link: Link, workload: Workload, tree: int, learner_sram_bits: int
) -> PrimitiveCosts:
    """Return the costs with the tree's memory and so much for the learner."""
    train = _train_seconds(device, link, workload, learner_sram_bits)
    if tree > device.sram_bits:
        return replace(impossible(), train=train)
    clock = _number(device.clock_hz)
    batch, new = workload.batch_size, workload.insert_size
    depth = n_levels(workload.capacity, workload.fanout)
    update = 2 * (batch + depth) / clock + link.seconds(2 * _WORD_BYTES * batch)
    return PrimitiveCosts(
        _modelled(
            2 * workload.fanout * (batch + depth) / clock + link.seconds(_WORD_BYTES * batch)
        ),
        _modelled(update if workload.is_prioritized else 0.0),
        _modelled(3 * (new + depth) / clock + link.seconds(2 * _WORD_BYTES * new)),
        train,
    )


def _train_seconds(device: Device, link: Link, workload: Workload, sram_bits: int) -> Seconds:
    if workload.algo == "torch":
        return _modelled(inf)
    stages = stages_of(workload)
    found = design(
        stages, workload.batch_size, device.n_dsps or 0, sram_bits, _number(device.clock_hz)
    )
    if found is None:
        return _modelled(inf)
    bandwidth = _number(device.memory_bandwidth_bytes_per_s)
    weights = _number(device.memory_latency_s) + _WORD_BYTES * stages.n_weights / bandwidth
    messages = link.seconds(workload.batch_size * (workload.row_bytes + _WORD_BYTES))
    return _modelled(found.compute_s + weights + messages)


def _joined(device: Device, workload: Workload, costs: PrimitiveCosts) -> PrimitiveCosts:
    """Return the costs where updates come from the learner by pipes."""
    depth = n_levels(workload.capacity, workload.fanout)
    cycles = 2 * (workload.batch_size + depth) if workload.is_prioritized else 0
    return replace(costs, update=_modelled(cycles / _number(device.clock_hz)))


def _require_numbers(device: Device) -> None:
    for name in _NEEDED:
        if getattr(device, name) is None:
            raise ConfigError(
                f"devices.{device.name}.{name} must be known to model an FPGA, got nothing; add it "
                f"to the hardware file, or give the costs of {shown(device.name)} with --costs"
            )


def _number(value: float | None) -> float:
    """Return a number that `_require_numbers` has found."""
    if value is None:
        raise ValueError("a number that models an FPGA is missing")
    return value


def _modelled(seconds: float) -> Seconds:
    return Seconds(seconds, Origin.MODELLED)
