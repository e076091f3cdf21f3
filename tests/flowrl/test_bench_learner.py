"""The bench of the learner runs and counts right."""

import json

import pytest

from flowrl.bench.learner import command, count_operations
from flowrl.networks import critic


def test_operations_of_a_network() -> None:
    # Forward and weights twice each product, inputs too but for the first layer.
    expected = 2 * (2 * 10 * 64 + 3 * 64 * 64 + 3 * 64 * 1)
    assert count_operations(critic(10, 64)) == expected


def test_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert command(["--algorithms", "ppo", "--n-rows", "60", "--repeats", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["peak_gflops"] > 0
    assert [t["learner"] for t in report["learners"]] == ["native", "native", "torch"]
    assert report["learners"][-1]["torch_ratio"] == pytest.approx(1.0)
