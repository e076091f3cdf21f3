"""What is measured, how often, and when it is taken from the cache; no test asserts a time."""

from __future__ import annotations

import dataclasses
import json
from math import inf, isfinite

import numpy as np
import pytest

from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer import cache
from flowrl.composer.accelerators import native_accelerators
from flowrl.composer.agent_workload import agent_workload
from flowrl.composer.check import compare, measure_iteration
from flowrl.composer.costs import PRIMITIVES, Origin
from flowrl.composer.cpu_split import Split, most_learner_threads, split_threads
from flowrl.composer.hardware import Device, HardwareSpec, Kind, Link
from flowrl.composer.placement import Mode, compose
from flowrl.composer.profile import (
    FEWEST_ITERATIONS,
    Effort,
    _joined,
    _timed,
    cache_key,
    measure_costs,
    profile,
)
from flowrl.config import ConfigError, NetworkConfig, ReplayConfig, RunConfig
from flowrl.registry import EnvironmentSource

CPU = Device("cpu", Kind.CPU, 2**30)
HOST = HardwareSpec((CPU,), ())
AGILEX = Device(
    "agilex", Kind.FPGA, 2**30, clock_hz=250e6, n_dsps=4510, n_m20k_blocks=7110, n_mlabs=24360,
    memory_latency_s=16e-9, memory_bandwidth_bytes_per_s=77e9,
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWRL_CACHE", str(tmp_path))
    return tmp_path / "composer"


def make(algo="dqn", env="CartPole-v1", priorities="prioritized", capacity=300, insert_size=2):
    config = RunConfig(
        algo=algo,
        env=env,
        network=NetworkConfig(16, 16),
        replay=ReplayConfig(capacity=capacity, batch_size=8, priorities=priorities),
    )
    interface = EnvironmentSource(env, {}).interface(1)
    workload = agent_workload(config, OffPolicyAgent.build(config, interface), insert_size)
    return native_accelerators(workload, interface, config)


@pytest.mark.parametrize(("algo", "env"), [("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")])
@pytest.mark.parametrize("priorities", ["prioritized", "uniform"])
def test_every_primitive_is_measured(algo, env, priorities):
    found = profile(HOST, make(algo, env, priorities), Mode.STRICT, Effort(60))
    assert found.n_iterations == {"cpu": 60}
    for costs in (found.costs["cpu"].alone, found.costs["cpu"].shared):
        for name in PRIMITIVES:
            seconds = getattr(costs, name)
            assert seconds.origin is Origin.MEASURED
            assert 0 < seconds.value < 1
            assert seconds.spread >= 0


def test_dqn_on_a_box():
    accelerators = make("dqn", "Pendulum-v1")
    costs = measure_costs(HOST, accelerators.workload, accelerators.interface, n_iterations=3)
    assert isfinite(costs["cpu"].shared.train.value)


def test_training_shared_ends_with_all_that_may_run_beside_it():
    laps = [np.full(3, x) for x in (1.0, 2.0, 4.0, 8.0)]  # sample, update, insert, train
    ends = {mode: _joined(laps, mode).train.value for mode in Mode}
    assert ends == {Mode.STRICT: 12.0, Mode.RELAXED: 14.0, Mode.PIPELINED: 15.0}
    # so that every mode's formula gives the sum: one thread does one after the other
    strict = _joined(laps, Mode.STRICT)
    assert strict.sample.value + max(strict.train.value, strict.insert.value) + (
        strict.update.value
    ) == 15.0  # fmt: skip


def test_slow_primitives_are_measured_less_often_but_not_too_little():
    calls = []

    def iterate():
        calls.append(0)
        return [1.0]  # a second, as it says

    n, laps = _timed(iterate, Effort(1000, budget=70.0))
    assert (n, len(laps[0])) == (70, 70)
    assert _timed(iterate, Effort(1000, budget=1.0))[0] == FEWEST_ITERATIONS
    assert _timed(iterate, Effort(5, budget=1.0))[0] == 5


def test_a_second_time_it_is_taken_from_the_cache(own_cache):
    accelerators, effort = make(), Effort(4)
    first = profile(HOST, accelerators, Mode.STRICT, effort)
    again = profile(HOST, accelerators, Mode.STRICT, effort)
    assert (first.from_cache, again.from_cache) == (frozenset(), frozenset({"cpu"}))
    assert again.costs == first.costs
    assert again.n_iterations == {"cpu": 4}
    assert len(list(own_cache.iterdir())) == 1
    other = profile(HOST, accelerators, Mode.RELAXED, effort)
    assert other.from_cache == frozenset()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"key": 1}', "\0", '{"key": null, "alone": {}}']
)
def test_a_broken_file_counts_as_none(own_cache, content):
    accelerators, effort = make(), Effort(2)
    profile(HOST, accelerators, Mode.STRICT, effort)
    (path,) = own_cache.iterdir()
    path.write_text(content)
    assert profile(HOST, accelerators, Mode.STRICT, effort).from_cache == frozenset()
    assert profile(HOST, accelerators, Mode.STRICT, effort).from_cache == {"cpu"}


@pytest.mark.parametrize("value", [float("nan"), -1.0, "fast", None])
def test_a_kept_number_that_is_no_time_counts_as_none(own_cache, value):
    accelerators, effort = make(), Effort(2)
    profile(HOST, accelerators, Mode.STRICT, effort)
    (path,) = own_cache.iterdir()
    kept = json.loads(path.read_text())
    kept["alone"]["train"][0] = value
    path.write_text(json.dumps(kept))
    assert cache.load_profile(cache_key(CPU, accelerators, Mode.STRICT, effort)) is None


def test_a_cache_that_cannot_be_written_is_no_failure(own_cache):
    own_cache.parent.mkdir(exist_ok=True)
    own_cache.write_text("a file where the folder would be")
    assert profile(HOST, make(), Mode.STRICT, Effort(2)).from_cache == frozenset()


def test_the_key_has_all_that_matters():
    effort = Effort(2)
    keys = [
        cache_key(CPU, make(), Mode.STRICT, effort),
        cache_key(dataclasses.replace(CPU, cores=3), make(), Mode.STRICT, effort),
        cache_key(CPU, make(capacity=301), Mode.STRICT, effort),
        cache_key(CPU, make(priorities="uniform"), Mode.STRICT, effort),
        cache_key(CPU, make(), Mode.STRICT, Effort(3)),
    ]
    assert len({json.dumps(key, sort_keys=True) for key in keys}) == len(keys)


def test_an_fpga_that_is_not_here_is_modelled():
    spec = HardwareSpec((CPU, AGILEX), (Link(("cpu", "agilex"), 1e-6, 1e9),))
    found = profile(spec, make(), Mode.STRICT, Effort(2))
    assert found.costs["agilex"].alone.train.origin is Origin.MODELLED
    assert found.n_iterations["agilex"] == 0


def test_a_device_that_is_neither_here_nor_modelled_needs_costs():
    gpu = Device("gpu9", Kind.SYCL, 2**30, backend_device="of_another_machine")
    spec = HardwareSpec((CPU, gpu), (Link(("cpu", "gpu9"), 1e-6, 1e9),))
    with pytest.raises(ConfigError, match=r"devices\.gpu9 must be a device .* give costs of all"):
        profile(spec, make(), Mode.STRICT, Effort(2))


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "10"])
def test_the_number_of_iterations_is_checked(n):
    with pytest.raises(ConfigError, match="n_iterations must be a whole number from 1"):
        Effort(n)


@pytest.mark.parametrize("insert_size", [1, 20])
def test_whole_iterations_are_measured_and_compared(insert_size):
    accelerators = make(insert_size=insert_size)
    assert 0 < measure_iteration(accelerators, CPU, CPU, 10) < 1
    other = dataclasses.replace(CPU, name="again")
    assert 0 < measure_iteration(accelerators, CPU, other, 10, Mode.STRICT) < 1
    costs = profile(HOST, accelerators, Mode.STRICT, Effort(20)).costs
    placement = compose(HOST, accelerators.workload, costs)
    (found,) = compare(HOST, accelerators, placement, 20)
    assert found.ratio == pytest.approx(placement.t_itr_s / found.measured_s)


@pytest.mark.parametrize(
    ("threads", "actors", "actor_seconds", "train", "expected"),
    [
        (8, 2, 3.0, {1: 8.0, 2: 4.0, 4: 2.0, 5: 1.9}, Split(2, 4, 1)),  # 8 - 4 - 2 - 1
        (16, 2, 4.0, {1: 8.0, 2: 4.0, 4: 2.0}, Split(2, 2, 8)),  # 11, but a batch has 8
        (8, 2, 100.0, {1: 8.0, 2: 4.0}, Split(2, 1, 4)),  # one keeps up
        (8, 1, 0.1, {1: 8.0, 2: 4.0, 4: 5.0}, Split(1, 2, 4)),  # none does: the fastest
        (4, 1, 0.1, {1: 8.0, 2: 4.0, 4: 1.0}, Split(1, 2, 1)),  # 4 are not left
        (1, 4, 0.1, {1: 8.0}, Split(4, 1, 1)),
    ],
)
def test_threads_by_hand(threads, actors, actor_seconds, train, expected):
    assert split_threads(threads, actors, 8, actor_seconds, train) == expected


def test_threads_need_a_time():
    assert most_learner_threads(8, 2) == 5
    assert most_learner_threads(2, 4) == 1
    with pytest.raises(ValueError, match="1 to 1 threads"):
        split_threads(2, 1, 8, 1.0, {2: inf})
