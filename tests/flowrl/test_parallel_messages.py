"""Parcels, policies on their way, and sequence numbers: the parts of the parallel system."""

import multiprocessing
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowrl.parallel.messages import CaughtUp, InOrder, Mail
from flowrl.parallel.parcels import Header, ParcelLayout, ring
from flowrl.parallel.policies import PolicyFault, PolicySlots, n_slots
from flowrl.parallel.transport import check_sequence
from flowrl.parallel.worker import WorkerLink, bytes_of, parcel_number, permit_message
from flowrl.trainer import TrainingError
from flowrl.trajectory import Trajectory

SIZES = (50_000, 3)  # weights and observations


def random_trajectory(rng, n_envs, n_steps):
    trajectory = Trajectory.allocate(n_envs, n_steps, 3, 2)
    for name in ("observations", "next_observations", "actions", "rewards"):
        array = getattr(trajectory, name)
        array[:] = rng.normal(size=array.shape)
    trajectory.terminated[:] = rng.random((n_envs, n_steps)) < 0.3
    trajectory.truncated[:] = rng.random((n_envs, n_steps)) < 0.3
    trajectory.lengths[:] = rng.integers(0, n_steps + 1, n_envs)
    return trajectory


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 99), st.data())
def test_what_is_packed_is_unpacked(n_envs, n_steps, seed, data):
    rng = np.random.default_rng(seed)
    layout = ParcelLayout(n_envs, n_steps, 3, 2)
    parcels = ring(layout, 2, rng.integers(0, 256, 2 * layout.n_bytes).astype(np.uint8))
    sent = []
    for number, parcel in enumerate(parcels):  # each must leave the other alone
        trajectory = random_trajectory(rng, n_envs, data.draw(st.integers(1, n_steps)))
        episodes = rng.normal(size=(data.draw(st.integers(0, n_envs * n_steps)), 4))
        header = Header(number, 1, 2, 3, 4, len(episodes))
        parcel.write(header, trajectory, episodes)
        sent.append((header, trajectory, episodes))
    for parcel, (header, trajectory, episodes) in zip(parcels, sent, strict=True):
        assert parcel.header == header
        np.testing.assert_array_equal(parcel.episodes(len(episodes)), episodes)
        longest = trajectory.lengths.max()
        for name, array in vars(parcel.trajectory).items():
            expected = getattr(trajectory, name)
            expected = expected if name == "lengths" else expected[:, :longest]
            np.testing.assert_array_equal(array, expected, err_msg=name)


def slots_of(block, lag):
    return PolicySlots(*SIZES, n_slots(lag), block)


def publish(slots, version):
    slots.write(
        version, 10 * version, *(np.full(n, version) for n in (SIZES[0], SIZES[1], SIZES[1]))
    )


def test_an_overwritten_policy_is_a_fault_not_a_mixture():
    slots = slots_of(np.zeros(n_slots(0) * PolicySlots.slot_bytes(*SIZES), np.uint8), 0)
    for version in (1, 2, 3):
        publish(slots, version)
    assert slots.read(3).n_updates == 30
    with pytest.raises(PolicyFault, match="policy 1 was asked for, and its slot held 3"):
        slots.read(1)


def read_policies(connection, memory, lag, newest, n):
    """Read policies as an actor does, as fast as can be; say what was wrong, or nothing."""
    link = WorkerLink(connection, [], slots_of(bytes_of(memory), lag), newest)
    version = 0
    for number in range(n):
        published = link.await_permit(number)
        if published is not None:
            parts = np.concatenate([published.weights, published.mean, published.scale])
            is_right = (parts == published.version).all() and published.version > version
            if not is_right or published.n_updates != 10 * published.version:
                link.say(b"E" + repr((number, version, published)).encode())
                return
            version = published.version
        link.send(number)
    link.say(b"V%d" % version)


@pytest.mark.parametrize(("lag", "newest"), [(0, True), (2, False)])
def test_readers_never_see_a_mixed_policy(lag, newest):
    """Let a host publish after every collection, and two processes read while it writes."""
    n, context = 150, multiprocessing.get_context("spawn")
    memory = context.RawArray("B", n_slots(lag) * PolicySlots.slot_bytes(*SIZES))
    slots = slots_of(bytes_of(memory), lag)
    links, readers = [], []
    for _ in range(2):
        here, there = context.Pipe()
        args = (there, memory, lag, newest, n)
        readers.append(context.Process(target=read_policies, args=args, daemon=True))
        readers[-1].start()
        there.close()
        links.append(here)
        here.send_bytes(permit_message(lag + 1, 0))
    for number in range(n):
        for link in links:
            assert parcel_number(link.recv_bytes()) == number
        publish(slots, number + 1)
        for link in links:
            link.send_bytes(permit_message(number + 1 + lag + 1, number + 1))
    last = [int(link.recv_bytes()[1:]) for link in links]
    for reader in readers:
        reader.join(60)
        assert reader.exitcode == 0
    # The policy of the last collection is that of `lag` collections before, or a newer one.
    assert all(n - 1 - lag <= version <= n - 1 for version in last)


def test_numbers_out_of_order_are_faults_that_say_so():
    order = InOrder("batch", 1)
    order.check(1)
    with pytest.raises(TrainingError, match="batch 2 must come next, got 4"):
        order.check(4)
    check_sequence(Header(7, 3, 0, 0, 0, 0), 3, 7)
    with pytest.raises(TrainingError, match="worker 3 must send collection 8 next, got coll"):
        check_sequence(Header(7, 3, 0, 0, 0, 0), 3, 8)


def test_mail_of_many_threads_arrives_in_the_order_of_each():
    mail = Mail()
    messages = [[CaughtUp(i, thread, (), None, None) for i in range(500)] for thread in range(3)]
    threads = [
        threading.Thread(target=lambda own=own: [mail.put(message) for message in own])
        for own in messages
    ]
    for thread in threads:
        thread.start()
    taken = []
    while len(taken) < 1500:
        taken += mail.take()
    for thread in threads:
        thread.join()
    assert mail.take() == []
    mail.close()
    for own, thread in zip(messages, range(3), strict=True):
        assert [message for message in taken if message.n_updates == thread] == own
