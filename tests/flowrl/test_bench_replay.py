from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from flowrl.bench import memory, replay, replay_peers
from flowrl.bench.__main__ import command


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "CAPACITIES", (1024,))
    monkeypatch.setattr(replay, "BATCHES", (32, 64))
    monkeypatch.setattr(replay, "TARGETS", {"update": {32: 3.0, 64: 3.0}})
    monkeypatch.setattr(replay_peers, "PEERS", {})


@pytest.mark.usefixtures("small")
def test_every_operation_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["replay", "--repeats", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    cases = {(r["operation"], r["batch"], r["contender"]) for r in found["rates"]}
    assert len(cases) == len(found["rates"]) == 4 * 2 * len(replay.FANOUTS)
    assert all(rate["items_per_us"] > 0 for rate in found["rates"])
    for floor in found["floors"]:
        assert floor["items_per_us"] > 0


@pytest.mark.usefixtures("small")
def test_a_peer_that_does_not_load_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(priorities: Any) -> Any:
        raise ImportError(f"no such library for {priorities.size}\nand more")

    monkeypatch.setattr(replay_peers, "PEERS", {"other": fail})
    assert command(["replay", "--repeats", "1"]) == 0
    shown = capsys.readouterr().out
    assert "other is left out: no such library for 1024\n" in shown
    assert "and more" not in shown


def test_ratios_are_those_of_the_best() -> None:
    rates = [
        replay.Rate(64, "update", 32, name, rate)
        for name, rate in [("accel K=8", 9.0), ("accel K=16", 8.0), ("a", 2.0), ("b", 3.0)]
    ]
    assert replay.ratio(rates, "update", 32) == 3.0
    assert replay.ratio(rates[:2], "update", 32) is None


@pytest.mark.parametrize("name", sorted(replay_peers.PEERS))
def test_a_peer_does_what_is_timed(name: str) -> None:
    priorities = np.full(64, 0.5)
    try:
        peer = replay_peers.PEERS[name](priorities)
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"{name}: {error}")
    rows = np.arange(8).astype(peer.indices)
    assert peer.sample(32) is not None
    peer.update(rows, np.ones(8, np.float32))
    peer.insert(np.arange(8))
    if peer.set is not None:
        peer.set(rows, np.ones(8))


def test_a_chain_goes_through_all_lines() -> None:
    successors, place, seen = memory.random_cycle(100), 0, set()
    while place not in seen:
        seen.add(place)
        place = int(successors[place])
    assert seen == set(range(0, 800, 8))
