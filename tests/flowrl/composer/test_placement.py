"""Placements: against examples by hand, and against a search that is written separately."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flowrl.composer.costs import PRIMITIVES, Origin
from flowrl.composer.placement import compose
from flowrl.config import ConfigError
from tests.flowrl.composer.machines import device_costs, machine, workload

POWER = {"idle_power_w": 10.0, "busy_power_w": 30.0}


def two(**others):
    """Return a CPU and a GPU with a link of 1 us and 1 GB/s."""
    return machine(("cpu", "cpu", {**POWER, **others}),
                   ("gpu0", "cuda", {"idle_power_w": 50.0, "busy_power_w": 250.0, **others}),
                   links=[("cpu", "gpu0", 1e-6, 1e9)])  # fmt: skip


COSTS = {
    # sample, update, insert, train
    "cpu": device_costs((10e-6, 4e-6, 6e-6, 300e-6), (20e-6, 8e-6, 12e-6, 400e-6)),
    "gpu0": device_costs((30e-6, 20e-6, 25e-6, 100e-6), (31e-6, 21e-6, 26e-6, 110e-6)),
}


@pytest.mark.parametrize(
    ("mode", "t_itr"),
    [
        ("strict", 10e-6 + 100e-6 + 4e-6),
        ("relaxed", 10e-6 + 100e-6),
        ("pipelined", 100e-6),
    ],
)
def test_the_modes_are_those_of_the_text(mode, t_itr):
    placement = compose(two(), workload(batch_size=32), COSTS, mode=mode, tie=0)
    assert (placement.replay_manager, placement.learner) == ("cpu", "gpu0")
    assert placement.t_itr_s == pytest.approx(t_itr)
    assert placement.eps == pytest.approx(32 / t_itr)
    seconds = {(a.replay_manager, a.learner): a.t_itr_s for a in placement.assignments}
    shared = {"strict": 31 + 110 + 21, "relaxed": 31 + 110, "pipelined": 110}[mode]
    assert seconds["gpu0", "gpu0"] == pytest.approx(shared * 1e-6)
    assert list(seconds) == [("cpu", "cpu"), ("cpu", "gpu0"), ("gpu0", "cpu"), ("gpu0", "gpu0")]


def test_storage_is_where_the_traffic_is_least():
    # E = 44 bytes. On the CPU: nothing, 32 x 44 bytes, nothing. On the GPU: 4 x 32 bytes, nothing,
    # 8 x 44 bytes, in two transfers.
    placement = compose(two(), workload(batch_size=32, insert_size=8), COSTS, tie=0)
    assert placement.storage == "cpu"
    assert placement.traffic_s == pytest.approx(1e-6 + 32 * 44e-9)
    large = compose(two(), workload(batch_size=320, insert_size=8), COSTS, tie=0)
    assert large.storage == "gpu0"
    assert large.traffic_s == pytest.approx(2e-6 + 4 * 320e-9 + 8 * 44e-9)
    small_gpu = machine(("cpu", "cpu", {}), ("gpu0", "cuda", {"memory_bytes": 44 * 1000 - 1}),
                        links=[("cpu", "gpu0", 1e-6, 1e9)])  # fmt: skip
    assert compose(small_gpu, workload(batch_size=320), COSTS, tie=0).storage == "cpu"


def test_power_is_that_of_the_time_at_work():
    placement = compose(two(), workload(), COSTS, metric="power", tie=0)
    joules = {(a.replay_manager, a.learner): a.value for a in placement.assignments}
    t = 10e-6 + 100e-6 + 4e-6
    watts = 10 + 20 * 20e-6 / t + 50 + 200 * 100e-6 / t
    assert joules["cpu", "gpu0"] == pytest.approx(32 / t / watts)
    # One device that has both is busy all the time.
    assert joules["cpu", "cpu"] == pytest.approx(32 / (20e-6 + 400e-6 + 8e-6) / 30)
    assert placement.learner == "cpu"
    assert placement.watts == pytest.approx(30)
    assert placement.eps_per_watt == pytest.approx(placement.eps / 30)


def test_power_is_known_or_refused_but_never_guessed():
    spec = machine(("cpu", "cpu", POWER), ("gpu0", "cuda", {}), links=[("cpu", "gpu0", 0, 1e9)])
    with pytest.raises(ConfigError, match=r"metric power must know .* none for 'gpu0'"):
        compose(spec, workload(), COSTS, metric="power")
    placement = compose(spec, workload(), COSTS)
    assert placement.watts is None
    assert placement.eps_per_watt is None


def test_of_equal_pairs_the_one_with_the_least_traffic_is_taken():
    costs = {"cpu": device_costs((1e-5,) * 4), "gpu0": device_costs((0.99e-5,) * 4)}
    literal = compose(two(), workload(), costs, tie=0)
    assert (literal.replay_manager, literal.learner) == ("gpu0", "gpu0")
    assert len(literal.ties) == 1
    tolerant = compose(two(), workload(), costs, tie=0.02)
    assert (tolerant.replay_manager, tolerant.learner) == ("cpu", "cpu")
    assert tolerant.traffic_s == 0.0
    assert len(tolerant.ties) == 4
    assert tolerant.ties[0] == tolerant.chosen
    equal = compose(two(), workload(), {"cpu": costs["cpu"], "gpu0": costs["cpu"]}, tie=0)
    assert len(equal.ties) == 4
    assert equal.chosen == equal.assignments[0]


def test_origins_are_those_of_what_was_added():
    measured = replace(COSTS["gpu0"].alone, train=replace(COSTS["gpu0"].alone.train,
                                                          origin=Origin.MEASURED))  # fmt: skip
    costs = {**COSTS, "gpu0": replace(COSTS["gpu0"], alone=measured)}
    placement = compose(two(), workload(), costs, tie=0)
    assert placement.cost_origins == (Origin.GIVEN, Origin.MEASURED)
    assert placement.link_origins == (Origin.GIVEN,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "lazy"}, "mode must be one of strict, relaxed, pipelined, got 'lazy'"),
        ({"metric": "powr"}, "metric must be one of throughput, power, got 'powr'; did you mean"),
        ({"workload": workload(capacity=10**8)}, "capacity must .* use at most 22727272 rows"),
        ({"costs": dict.fromkeys(COSTS, device_costs((inf,) * 4))}, "got inf for every pair"),
        ({"costs": dict.fromkeys(COSTS, device_costs((0.0,) * 4))}, "must make every iteration"),
    ],
)
def test_what_has_no_placement_is_told_in_one_line(changes, message):
    arguments = {"spec": two(), "workload": workload(), "costs": COSTS, **changes}
    with pytest.raises(ConfigError, match=message):
        compose(**arguments)


# Few different values make many ties, and infinities many impossible pairs.
seconds = st.one_of(st.sampled_from([1e-5, 2e-5, 5e-5, inf]), st.floats(1e-7, 1e-2))
rows = st.tuples(seconds, seconds, seconds, seconds)


@st.composite
def machines(draw):
    names = ["host", "a", "b", "c"][: draw(st.integers(1, 4))]
    devices = [
        (name, "cpu" if name == "host" else draw(st.sampled_from(["cuda", "fpga", "sycl"])),
         {"memory_bytes": draw(st.sampled_from([43_999, 44_000, 10**9])),
          "idle_power_w": draw(st.sampled_from([0.0, 20.0])),
          "busy_power_w": draw(st.sampled_from([20.0, 200.0]))})
        for name in names
    ]  # fmt: skip
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    links = [
        (*pair, draw(st.sampled_from([0.0, 1e-6, 1e-5])), draw(st.sampled_from([1e8, 1e9])))
        for pair in pairs
        if pair[0] == "host" or draw(st.booleans())
    ]
    return machine(*draw(st.permutations(devices)), links=links)


def brute_force(spec, job, costs, metric, mode, tie):
    """Return all (replay manager, learner, storage) within the tie, the best first."""
    way = {(link.between): (link.latency_s, link.bandwidth_bytes_per_s) for link in spec.links}
    way |= {(b, a): numbers for (a, b), numbers in way.items()}

    def move(n, a, b):
        if a == b:
            return 0.0
        if (a, b) in way:
            return way[a, b][0] + n / way[a, b][1]
        (l1, b1), (l2, b2) = way[a, "host"], way["host", b]
        return l1 + l2 + n / (1 / (1 / b1 + 1 / b2))

    found = []
    for i, r in enumerate(spec.devices):
        for j, k in enumerate(spec.devices):
            column = "shared" if i == j else "alone"
            s, u, n = (getattr(getattr(costs[r.name], column), p).value for p in PRIMITIVES[:3])
            t = getattr(costs[k.name], column).train.value
            total = {"strict": s + max(t, n) + u, "relaxed": s + max(t, u + n),
                     "pipelined": max(t, s + u + n)}[mode]  # fmt: skip
            if total == inf:
                continue
            value = job.batch_size / total
            if metric == "power":
                shares = [(r, 1.0)] if i == j else [(r, (s + u + n) / total), (k, t / total)]
                value /= sum(d.idle_power_w + (d.busy_power_w - d.idle_power_w) * share
                             for d, share in shares)  # fmt: skip
            traffic = [
                (move(4 * job.batch_size, r.name, d.name)
                 + move(44 * job.batch_size, d.name, k.name)
                 + move(44 * job.insert_size, "host", d.name), m)
                for m, d in enumerate(spec.devices)
                if d.memory_bytes >= 44_000
            ]  # fmt: skip
            found.append((value, *min(traffic), i, j))
    best = max((f[0] for f in found), default=0.0)
    ties = sorted((f[1], -f[0], f[3], f[4], f[2]) for f in found if f[0] >= best * (1 - tie))
    return [tuple(spec.names[x] for x in tie_[2:]) for tie_ in ties]


@settings(max_examples=300, deadline=None)
@given(
    spec=machines(),
    data=st.data(),
    metric=st.sampled_from(["throughput", "power"]),
    mode=st.sampled_from(["strict", "relaxed", "pipelined"]),
    tie=st.sampled_from([0.0, 0.02, 0.5]),
    batch=st.integers(1, 4096),
    new=st.integers(1, 512),
)
def test_no_search_finds_a_better_one(spec, data, metric, mode, tie, batch, new):
    costs = {name: device_costs(data.draw(rows), data.draw(rows)) for name in spec.names}
    assume(any(device.memory_bytes >= 44_000 for device in spec.devices))
    job = workload(batch_size=batch, insert_size=new, capacity=1000)
    expected = brute_force(spec, job, costs, metric, mode, tie)
    if not expected:
        with pytest.raises(ConfigError, match="got inf for every pair"):
            compose(spec, job, costs, metric, mode, tie)
        return
    placement = compose(spec, job, costs, metric, mode, tie)
    ties = [(item.replay_manager, item.learner, item.storage) for item in placement.ties]
    assert ties == expected
    assert ties[0] == (placement.replay_manager, placement.learner, placement.storage)
