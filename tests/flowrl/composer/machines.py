"""Machines, workloads and costs that the composer's tests share."""

from flowrl.composer.costs import DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.workload import Workload
from flowrl.networks import NO_LAYERS, Activation, perceptron


def workload(batch_size=32, insert_size=8, capacity=1000, fanout=16, width=8, **others):
    """Return a DQN of two hidden layers on 4 observations and 2 actions; E = 44 bytes."""
    network = perceptron(4, (width, width), 2, Activation.RELU)
    values = {"algo": "dqn", "actor": network, "critic": NO_LAYERS, **others}
    return Workload(n_observations=4, n_actions=1, batch_size=batch_size, insert_size=insert_size,
                    capacity=capacity, fanout=fanout, **values)  # fmt: skip


def machine(*devices, links=()):
    """Return a machine of (name, kind, other keys) and (a, b, latency, bandwidth)."""
    return HardwareSpec.from_tables(
        {
            "devices": [
                {"name": name, "kind": kind, "memory_bytes": 10**9, **others}
                for name, kind, others in devices
            ],
            "links": [
                {"between": [a, b], "latency_s": latency, "bandwidth_bytes_per_s": bandwidth}
                for a, b, latency, bandwidth in links
            ],
        },
        "machine.toml",
    )


def primitives(sample, update, insert, train):
    return PrimitiveCosts(*(Seconds(x, Origin.GIVEN) for x in (sample, update, insert, train)))


def device_costs(alone, shared=None):
    return DeviceCosts(primitives(*alone), primitives(*(shared or alone)))
