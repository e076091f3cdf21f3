"""The bench of the off-policy learners runs, counts right and says what is missing."""

import json
from typing import Any

import pytest

from flowrl.bench import learner_peers
from flowrl.bench.learner import LearnerBenchOptions, command
from flowrl.bench.learner_peers import PEERS, PeerMissing
from flowrl.bench.off_policy_learner import NATIVE, measure
from flowrl.bench.workloads import Workload
from flowrl.config import ConfigError


def test_operations_of_dqn() -> None:
    products = 4 * 64 + 64 * 64 + 64 * 2
    # Forward at s and s', back to the weights and, but for the first layer, to the inputs.
    assert Workload("dqn", 64, 32).n_operations == 2 * 32 * (4 * products - 4 * 64)


def test_operations_of_sac() -> None:
    actor = 17 * 256 + 256 * 256 + 256 * 12
    critics = 2 * (23 * 256 + 256 * 256 + 256)
    first = 2 * 23 * 256
    to_actions = critics - 2 * 17 * 256
    expected = actor + critics + 3 * critics - first + 3 * actor - 17 * 256 + critics + to_actions
    assert Workload("sac", 256, 8).n_operations == pytest.approx(2 * 8 * expected)


@pytest.mark.parametrize("algorithm", ["dqn", "ddpg", "td3", "sac"])
def test_native_steps_are_timed(algorithm: str) -> None:
    (times,) = measure(Workload(algorithm, 16, 8), 1, 1, [], print)
    assert times.learner == NATIVE
    assert times.step_us > 0
    assert times.native_ratio == 1.0


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("algorithm", ["dqn", "td3", "sac"])
def test_peers_do_their_steps(name: str, algorithm: str) -> None:
    if name == "torch.compile":
        pytest.skip("compiles for half a minute; its eager twin runs the same lines")
    try:
        steps = PEERS[name](Workload(algorithm, 16, 8))
    except PeerMissing as missing:
        pytest.skip(str(missing))
    steps.run()
    assert steps.n_steps >= 2


def test_a_missing_peer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: str) -> Any:
        raise PeerMissing(f"{name} is left out: no such thing")

    monkeypatch.setattr(learner_peers, "library", library)
    said: list[str] = []
    times = measure(Workload("dqn", 16, 8), 1, 1, ["sbx"], said.append)
    assert [t.learner for t in times] == [NATIVE]
    assert said == ["sbx is left out: no such thing"]


def test_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--algorithms td3 --batches 4 8 --peers none --repeats 1 --json"
    assert command(arguments.split()) == 0
    report = json.loads(capsys.readouterr().out)
    assert [t["n_rows"] for t in report["off_policy"]] == [4, 8]
    assert report["learners"] == []


@pytest.mark.parametrize(
    ("field", "value"), [("algorithms", "a2c"), ("peers", "rllib"), ("batches", "0")]
)
def test_bad_options(field: str, value: str) -> None:
    options: dict[str, Any] = {field: (value,)}
    with pytest.raises(ConfigError, match=field):
        LearnerBenchOptions(**options)
