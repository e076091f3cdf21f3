"""What is measured, how often, and when it is taken from the cache; no test asserts a time."""

from __future__ import annotations

import dataclasses
import json
import time
from math import inf, isfinite

import numpy as np
import pytest

from flowrl.composer import cache
from flowrl.composer.accelerators import configured_accelerators
from flowrl.composer.check import Comparison, compare
from flowrl.composer.costs import PRIMITIVES, Origin
from flowrl.composer.cpu_split import Split, most_learner_threads, split_threads
from flowrl.composer.hardware import Device, HardwareSpec, Kind, Link
from flowrl.composer.iterations import Form, Times, form_of, make_iterations
from flowrl.composer.placement import Mode, iteration_seconds
from flowrl.composer.profile import (
    FEWEST_ITERATIONS,
    FEWEST_SLOW_ITERATIONS,
    Effort,
    _alone,
    _in_turn,
    _shared,
    cache_key,
    measured_times,
    middle_and_spread,
    profile,
)
from flowrl.composer.stand import filled_manager
from flowrl.config import ConfigError, NetworkConfig, ParallelConfig, ReplayConfig, RunConfig
from flowrl.parallel.messages import Closed, Drawn, Learnt, Told

CPU = Device("cpu", Kind.CPU, 2**30)
LINKS = tuple(
    Link(pair, 1e-6, 1e9) for pair in (("cpu", "again"), ("cpu", "agilex"), ("again", "agilex"))
)
HOST = HardwareSpec((CPU,), ())
AGILEX = Device(
    "agilex", Kind.FPGA, 2**30, clock_hz=250e6, n_dsps=4510, n_m20k_blocks=7110, n_mlabs=24360,
    memory_latency_s=16e-9, memory_bandwidth_bytes_per_s=77e9,
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWRL_CACHE", str(tmp_path))
    return tmp_path / "composer"


def make(
    algo="dqn", env="CartPole-v1", priorities="prioritized", capacity=300, insert_size=2, workers=0
):
    config = RunConfig(
        algo=algo,
        env=env,
        network=NetworkConfig(16, 16),
        parallel=ParallelConfig(workers=workers),
        replay=ReplayConfig(capacity=capacity, batch_size=8, priorities=priorities),
    )
    return configured_accelerators(config, insert_size)


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
    costs = profile(HOST, make("dqn", "Pendulum-v1"), Mode.STRICT, Effort(3)).costs
    assert isfinite(costs["cpu"].shared.train.value)


def times_of(sample, update, insert, period, **heard):
    kinds = {"drawn": Drawn, "learnt": Learnt, "closed": Closed, "told": Told}
    by_kind = {kinds[name]: np.full(3, x) for name, x in heard.items()}
    return Times(*(np.full(3, x) for x in (period, sample, update, insert)), by_kind)


@pytest.mark.parametrize("mode", Mode)
def test_costs_of_a_device_with_both_add_up_to_its_iteration(mode):
    costs = _shared(times_of(1.0, 2.0, 4.0, 20.0), mode)
    assert iteration_seconds(mode, costs, costs) == 20.0
    assert (costs.sample.value, costs.update.value, costs.insert.value) == (1.0, 2.0, 4.0)


def test_costs_in_turn_add_up_to_the_iteration_whatever_the_mode():
    costs = _in_turn(times_of(1.0, 2.0, 4.0, 20.0))
    assert costs.train.value == 13.0
    assert iteration_seconds(None, costs, costs) == 20.0


@pytest.mark.parametrize(
    ("mode", "told", "sample", "update", "train"),
    [
        (Mode.STRICT, 12.0, 3.0, 5.0, 5.0),  # told before the replay manager answered
        (Mode.STRICT, 14.0, 3.0, 5.0, 6.0),  # 1 later
        (Mode.RELAXED, 9.0, 3.0, 2.0, 8.0),  # the end without the update: 13 - 2
        (Mode.RELAXED, 12.0, 3.0, 2.0, 9.0),
        (Mode.PIPELINED, 9.0, 1.0, 2.0, 8.0),  # no one waits for a draw
    ],
)
def test_costs_of_a_part_alone_by_hand(mode, told, sample, update, train):
    times = times_of(1.0, 2.0, 4.0, 20.0, drawn=3.0, learnt=8.0, closed=13.0, told=told)
    costs = _alone(times, mode)
    assert (costs.sample.value, costs.update.value) == (sample, update)
    assert (costs.insert.value, costs.train.value) == (4.0, train)


def test_waiting_for_new_rows_is_no_part_of_new_priorities():
    # New rows are stored from 3 to 11, learnt is at 4: priorities begin at 11.
    times = times_of(1.0, 2.0, 8.0, 20.0, drawn=3.0, learnt=4.0, closed=13.5, told=5.0)
    costs = _alone(times, Mode.STRICT)
    assert (costs.update.value, costs.train.value) == (2.5, 1.0)
    assert iteration_seconds(Mode.STRICT, costs, costs) == 13.5


def test_the_median_and_the_interquartile_range():
    assert middle_and_spread(np.array([1.0, 2.0, 3.0, 4.0, 100.0])) == (3.0, 2.0)


@pytest.mark.parametrize(
    ("asked", "budget", "seconds", "n"),
    [
        (1000, 5.0, 1e-6, 1000),
        (1000, 5.0, 0.01, 500),
        (1000, 0.1, 0.01, FEWEST_ITERATIONS),
        (1000, 5.0, 0.1, 50),
        (1000, 1.0, 0.5, FEWEST_SLOW_ITERATIONS),
        (3, 5.0, 1.0, 3),
    ],
)
def test_what_is_slow_is_measured_less_often(asked, budget, seconds, n):
    assert Effort(asked, budget).count(seconds) == n


class Counted:
    def __init__(self, seconds):
        self.seconds, self.runs = seconds, []

    def run(self, n):
        self.runs.append(n)
        return times_of(0.0, 0.0, 0.0, self.seconds)


def test_the_warm_up_does_not_count():
    iterations = Counted(0.5)
    measured_times(iterations, Effort(1000, budget=20.0))
    assert iterations.runs[-1] == 40
    assert set(iterations.runs[:-1]) == {1}
    assert len(iterations.runs) > 2


@pytest.mark.parametrize(
    ("workers", "mode", "is_one_device", "form"),
    [
        (0, Mode.STRICT, True, Form.IN_TURN),
        (0, Mode.STRICT, False, Form.IN_TURN),
        (2, Mode.STRICT, True, Form.JOINED),
        (2, Mode.STRICT, False, Form.RELAYED),
        (0, Mode.RELAXED, True, Form.RELAYED),  # generated programs then have a worker
        (2, Mode.PIPELINED, True, Form.RELAYED),
    ],
)
def test_the_form_is_that_of_the_training(workers, mode, is_one_device, form):
    assert form_of(make(workers=workers), mode, is_one_device) is form


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("mode", Mode)
def test_iterations_are_those_of_the_runtime(form, mode):
    accelerators = make()
    manager = filled_manager(accelerators, CPU)
    begin = time.perf_counter()
    with make_iterations(accelerators, manager, (CPU, CPU), form, mode) as iterations:
        iterations.run(1)
        times = iterations.run(12)
    elapsed = time.perf_counter() - begin
    assert len(times.period) == 12
    for laps in (times.sample, times.update, times.insert):
        assert 11 <= len(laps) <= 12  # a relaxed run's last priorities are not set
        assert (laps > 0).all()
    # What a thread does in turn lies within the iterations, and they within all of it.
    assert times.sample[:11].sum() < elapsed
    assert times.period.sum() < elapsed
    if form is Form.RELAYED and mode is Mode.STRICT:
        assert (times.heard[Drawn] < times.heard[Learnt]).all()
        assert (times.heard[Learnt] < times.heard[Closed]).all()


def test_costs_say_in_which_form_they_were_measured():
    in_turn = profile(HOST, make(workers=0), Mode.STRICT, Effort(5)).costs["cpu"]
    beside = profile(HOST, make(workers=1), Mode.STRICT, Effort(5)).costs["cpu"]
    assert in_turn.in_turn
    assert in_turn.alone == in_turn.shared
    assert not beside.in_turn
    assert beside.alone != beside.shared
    assert in_turn.alone.train.n_iterations == 5


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
        cache_key(CPU, make(workers=1), Mode.STRICT, effort),
        cache_key(CPU, make(), Mode.RELAXED, effort),
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
@pytest.mark.parametrize("workers", [0, 1])
def test_whole_iterations_are_measured_and_compared(insert_size, workers):
    accelerators = make(insert_size=insert_size, workers=workers)
    other = dataclasses.replace(CPU, name="again")
    spec = HardwareSpec((CPU, other, AGILEX), LINKS)
    rounds = compare(spec, accelerators, Mode.STRICT, Effort(10, is_cached=False), 2)
    pairs = [(c.replay_manager, c.learner) for c in rounds]
    assert pairs == [("cpu", "cpu"), ("cpu", "again"), ("again", "cpu"), ("again", "again")]
    assert all(len(c.predicted) == 3 and len(c.measured) == 2 for c in rounds)
    beside = {Form.JOINED, Form.RELAYED}
    assert {c.form for c in rounds} == (beside if workers else {Form.IN_TURN})


def test_a_measurement_is_held_against_the_profiles_around_it():
    c = Comparison("cpu", "cpu", Form.JOINED, (1.0, 3.0, 5.0, 7.0), (2.0, 2.0, 3.0))
    assert c.ratios == (1.0, 2.0, 2.0)
    assert (c.ratio, c.predicted_s, c.measured_s) == (2.0, 4.0, 2.0)
    assert c.ratio_quartiles == (1.5, 2.0)


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
