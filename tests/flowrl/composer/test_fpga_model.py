"""The FPGA model, against numbers computed by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from flowrl.composer.costs import PRIMITIVES, Origin
from flowrl.composer.fpga_model import design, learner_bits, modelled_costs, n_levels, tree_bits
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.stages import Stages, balance, stages_of
from flowrl.config import ConfigError
from flowrl.networks import Activation, perceptron, twins
from tests.flowrl.composer.machines import machine, workload
from tests.launch import ROOT

NUMBERS = {
    "clock_hz": 1e8,
    "n_dsps": 100,
    "n_m20k_blocks": 100,
    "memory_latency_s": 1e-8,
    "memory_bandwidth_bytes_per_s": 1e10,
}
# Of the network 4-8-8-2: FP x 2, GA of three layers, BP of two, LOSS.
WORK = (64, 32, 128, 64, 64, 32, 16, 16, 2)
N_WEIGHTS = 5 * 8 + 9 * 8 + 9 * 2


def fpga(**changes):
    """Return a machine with an FPGA on a link of 1 us and 1 GB/s."""
    return machine(("cpu", "cpu", {}), ("fpga", "fpga", {**NUMBERS, **changes}),
                   links=[("cpu", "fpga", 1e-6, 1e9)])  # fmt: skip


def costs_on(spec, job):
    return modelled_costs(spec.device("fpga"), spec.route("cpu", "fpga"), job)


def values(primitives):
    return [getattr(primitives, name).value for name in PRIMITIVES]


@pytest.mark.parametrize(
    ("capacity", "fanout", "depth", "words"),
    [
        (1000, 10, 3, 10 + 100 + 1000),
        (1001, 10, 4, 2 + 11 + 101 + 1001),
        (4, 16, 1, 4),
        (1, 2, 1, 1),
        (2**20, 16, 5, 16 + 256 + 4096 + 65536 + 2**20),
    ],
)
def test_the_tree_has_every_level_the_leaves_included(capacity, fanout, depth, words):
    assert n_levels(capacity, fanout) == depth
    assert tree_bits(capacity, fanout) == 32 * words


def test_stages_of_a_value_network():
    stages = stages_of(workload())
    assert sorted(stages.work) == sorted(WORK)
    assert stages.depth == 2 * 3 + 1
    assert stages.n_weights == N_WEIGHTS
    assert stages.n_activations == 8 + 8 + 2


def test_stages_of_an_actor_with_two_critics():
    # Actor 3-8-1, critics 4-8-8-1 each, their first layers side by side.
    job = workload(algo="td3", actor=perceptron(3, (8,), 1, Activation.RELU), critic=twins(4, 8, 2))
    stages = stages_of(job)
    forward = [2 * 24, 2 * 8, 3 * 64, 3 * 64, 3 * 64, 3 * 8, 3 * 8]
    backward = [8, 64, 2 * 64, 2 * 64, 2 * 8, 2 * 8]
    gradients = [24, 8, 64, 64, 64, 8, 8]
    assert sorted(stages.work) == sorted([*forward, *backward, *gradients, 2])
    assert stages.depth == 2 * (2 + 3) + 1


@pytest.mark.parametrize(
    ("n_multipliers", "tau", "total"),
    [
        (418, 2, 209),  # as many as there are: a pass of s and one of s' take turns all the same
        (209, 2, 209),
        (208, 3, 22 + 11 + 43 + 22 + 22 + 11 + 6 + 6 + 1),
        (9, 128, 9),
    ],
)
def test_multipliers_are_balanced(n_multipliers, tau, total):
    found, unroll = balance(stages_of(workload()), n_multipliers)
    assert (found, sum(unroll)) == (tau, total)


def test_fewer_multipliers_than_stages_are_no_pipeline():
    assert design(stages_of(workload()), 32, 8, 10**9, 1e8) is None


def test_balancing_finds_the_least_tau():
    rng = np.random.default_rng(0)
    for _ in range(50):
        work = rng.integers(1, 500, rng.integers(1, 8)).tolist()
        most = [int(rng.integers(1, n + 1)) for n in work]
        budget = len(work) + int(rng.integers(0, 400))
        tau, unroll = balance(Stages(tuple(work), tuple(most), 1, 0, 0), budget)
        fits = [
            t for t in range(1, 501)
            if sum(-(-n // t) for n in work) <= budget
            and all(-(-n // t) <= cap for n, cap in zip(work, most, strict=True))
        ]  # fmt: skip
        assert tau == min(fits)
        assert unroll == tuple(-(-n // tau) for n in work)


def test_pipelines_share_the_batch():
    stages = Stages(work=(4, 2), most=(4, 2), depth=3, n_weights=0, n_activations=0)
    # 12 multipliers: DP = 1, 2 have tau 1, 3 has 2, 4 has 2, 5 and 6 have 4.
    assert [design(stages, 12, 12 // n, 0, 1.0).tau for n in (1, 2, 3, 4)] == [1, 1, 2, 2]
    paper = design(stages, 12, 12, 0, 1.0, "paper")
    assert (paper.n_pipelines, paper.tau, paper.compute_s) == (2, 1, 6 + 3)
    best = design(stages, 12, 12, 0, 1.0)
    assert (best.n_pipelines, best.compute_s) == (2, 9)
    # 8 multipliers, 6 of them in one pipeline of tau 1, or all in four of 2 with tau 3.
    stages = Stages(work=(3, 3), most=(3, 3), depth=3, n_weights=0, n_activations=0)
    paper = design(stages, 1200, 8, 0, 1.0, "paper")
    assert (paper.n_pipelines, paper.tau, paper.compute_s) == (1, 1, 1203)
    best = design(stages, 1200, 8, 0, 1.0)
    assert (best.n_pipelines, best.tau, best.compute_s) == (4, 3, 3 * (300 + 3))


def test_memory_bounds_the_pipelines():
    stages = stages_of(workload())
    one, two = learner_bits(stages, 1), learner_bits(stages, 2)
    assert one == 32 * (2 * N_WEIGHTS + 3 * N_WEIGHTS + 7 * 18)
    assert design(stages, 32, 1000, two, 1e8).n_pipelines == 2
    assert design(stages, 32, 1000, two - 1, 1e8).n_pipelines == 1
    assert design(stages, 32, 1000, one - 1, 1e8) is None


def test_seconds_are_those_of_the_formulas():
    # BS = 32, n_new = 8, N = 1000, K = 16: D = 3. A link of 1 us and 1 ns a byte, a clock of 10 ns.
    costs = costs_on(fpga(), workload())
    assert {getattr(costs.alone, name).origin for name in PRIMITIVES} == {Origin.MODELLED}
    sample, update, insert, train = values(costs.alone)
    assert sample == pytest.approx(2 * 16 * 35 * 1e-8 + 1e-6 + 4 * 32e-9)
    assert update == pytest.approx(2 * 35 * 1e-8 + 1e-6 + 8 * 32e-9)
    assert insert == pytest.approx((2 * 11 + 11) * 1e-8 + 1e-6 + 8 * 8e-9)
    # 100 multipliers: the designs have DP pipelines with tau by 100 // DP.
    stages = stages_of(workload())
    cycles = min(balance(stages, 100 // n)[0] * (-(-32 // n) + 7) for n in range(1, 12))
    weights = 1e-8 + 4 * N_WEIGHTS / 1e10
    assert train == pytest.approx(cycles * 1e-8 + weights + 1e-6 + (44 + 4) * 32e-9)


def test_what_shares_a_device_needs_no_message_for_updates():
    costs = costs_on(fpga(), workload())
    assert values(costs.shared)[1] == pytest.approx(2 * 35 * 1e-8)
    assert values(costs.shared)[::2] == values(costs.alone)[::2]


def test_both_share_a_device_only_if_both_fit():
    job = workload()
    tree, learner = tree_bits(1000, 16), learner_bits(stages_of(job), 1)
    blocks = -(-(tree + learner) // 20480)
    assert inf not in values(costs_on(fpga(n_m20k_blocks=blocks), job).shared)
    large = workload(capacity=1700)
    assert tree_bits(1700, 16) <= blocks * 20480 < tree_bits(1700, 16) + learner
    costs = costs_on(fpga(n_m20k_blocks=blocks), large)
    assert inf not in values(costs.alone)
    assert values(costs.shared) == [inf] * 4
    costs = costs_on(fpga(n_m20k_blocks=blocks), workload(capacity=10**6))
    assert values(costs.alone)[:3] == [inf] * 3
    assert values(costs.alone)[3] < inf


def test_what_an_fpga_cannot_train_is_infinite():
    assert values(costs_on(fpga(n_dsps=8), workload()).alone)[3] == inf
    assert values(costs_on(fpga(), workload(algo="torch")).alone)[3] == inf
    assert values(costs_on(fpga(), workload(algo="torch")).shared) == [inf] * 4


def test_uniform_replay_has_no_updates():
    costs = costs_on(fpga(), replace(workload(), is_prioritized=False))
    assert values(costs.alone)[1] == values(costs.shared)[1] == 0.0


def test_a_missing_number_is_named():
    spec = machine(("cpu", "cpu", {}), ("fpga", "fpga", {k: v for k, v in NUMBERS.items()
                                                         if k != "n_dsps"}),
                   links=[("cpu", "fpga", 1e-6, 1e9)])  # fmt: skip
    with pytest.raises(ConfigError, match=r"devices.fpga.n_dsps must be known"):
        costs_on(spec, workload())


def test_the_example_fpga_holds_a_million_rows_and_a_learner():
    spec = HardwareSpec.load(ROOT / "runs/hardware/cpu_gpu_fpga.toml")
    assert spec.device("fpga").sram_bits == 7110 * 20480 + 24360 * 640
    costs = costs_on(spec, workload(batch_size=512, capacity=2**20, width=64))
    assert inf not in values(costs.shared)
