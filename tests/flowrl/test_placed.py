"""Placements: how they are written, which devices there are, and that parts run there."""

import numpy as np
import pytest

from flowrl.composer import automatic
from flowrl.composer.costs import DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.composer.detection import find_devices
from flowrl.composer.hardware import Device, HardwareSpec, Kind, Link
from flowrl.composer.placement import compose
from flowrl.composer.profile import Profile
from flowrl.composer.runnable import runnable_places
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError, RunConfig
from flowrl.config.placement import Places, read_placement
from flowrl.networks import NO_LAYERS
from flowrl.placed import Placed
from tests.flowrl.parallel_runs import config, run
from tests.launch import module

PRIORITIZED = {"priorities": "prioritized", "n_transitions": 203}


def require(*names):
    here = {device.name for device in find_devices()}
    for name in names:
        if name not in here:
            pytest.skip(f"no {name} here")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("cpu", ("cpu", "cpu", "cpu")),
        ("gpu0", ("gpu0", "gpu0", "gpu0")),
        ("learner=gpu0", ("cpu", "gpu0", "cpu")),
        ("storage=a, replay = b,learner=c", ("b", "c", "a")),
    ],
)
def test_placements_are_read(text, places):
    assert read_placement(text) == Places(*places)
    assert read_placement(str(Places(*places))) == Places(*places)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not empty"),
        ("replay=", "auto, DEVICE"),
        ("replay=cpu,", "must name replay"),
        ("repaly=cpu", "did you mean replay"),
        ("replay=cpu,replay=gpu0", "once"),
        ("replay=cpu=gpu", "auto, DEVICE"),
    ],
)
def test_what_is_no_placement_is_refused(text, part):
    with pytest.raises(ConfigError, match=part):
        RunConfig(algo="dqn", placement=text)


def test_a_device_that_is_not_here_is_named_with_those_that_are():
    with pytest.raises(ConfigError, match=r"learner=gpu7 must be one of cpu.*"):
        Placed.find("learner=gpu7")


def test_ppo_has_nothing_to_place():
    with pytest.raises(ConfigError, match="for PPO"):
        RunConfig(placement="learner=gpu0")


@pytest.mark.sycl
@pytest.mark.parametrize("device", ["sycl_cpu", "fpga_emulator"])
def test_each_part_runs_where_it_is_placed(device):
    require(device)
    at_home = run(config(**PRIORITIZED))
    for placement in (f"replay={device}", f"learner={device}", device):
        found = []
        outcome = run(
            config(**PRIORITIZED, placement=placement),
            lambda trainer, found=found: found.append(trainer.learning),
        )
        learning, places = found[-1], read_placement(placement)
        tree, learner = learning.replay._tree, learning.learner._learner
        assert (tree.backend == "sycl") == (places.replay == device)
        assert (learner.backend == "sycl") == (places.learner == device)
        assert outcome.last["updates"] == at_home.last["updates"]
        # Float32 sums add up in another order there.
        np.testing.assert_allclose(outcome.parameters, at_home.parameters, atol=0.05)


@pytest.mark.sycl
def test_parts_on_two_devices_are_relayed():
    require("fpga_emulator")
    settings = {**PRIORITIZED, "workers": 1}
    setting = []
    run(config(**settings), lambda trainer: setting.append(trainer.setting))
    run(
        config(**settings, placement="replay=fpga_emulator"),
        lambda trainer: setting.append(trainer.setting),
    )
    assert (setting[0], setting[-1]) == ("joined", "relayed")


def test_auto_takes_the_cheapest_device_for_each_part(monkeypatch):
    def profiled(spec, accelerators, mode):  # noqa: ARG001
        parts = [Seconds(1e-3, Origin.MEASURED)] * 4
        dear = [Seconds(1.0, Origin.MEASURED)] * 4
        costs = {
            name: DeviceCosts(*[PrimitiveCosts(*(dear if i else parts))] * 2)
            for i, name in enumerate(spec.names)
        }
        return Profile(costs, {}, frozenset())

    monkeypatch.setattr(automatic, "profile", profiled)
    placed, line = automatic.place(
        RunConfig(algo="sac", env="Pendulum-v1", placement="auto"), False
    )
    assert placed.placement == "replay=cpu,learner=cpu,storage=cpu"
    assert "placement: replay=cpu" in line


def test_auto_measures_the_native_learner_only():
    config = RunConfig(algo="sac", env="Pendulum-v1", placement="auto", learner="torch")
    with pytest.raises(ConfigError, match="--placement"):
        automatic.place(config, True)


def test_a_run_says_where_it_is_placed():
    options = ["--algo", "sac", "--env", "Pendulum-v1", "--placement", "learner=nowhere"]
    completed = module("flowrl.train", *options, "--dry-run")
    assert completed.returncode == 2
    assert "learner=nowhere must be one of cpu" in completed.stderr
    completed = module("flowrl.train", *options[:-2], "--dry-run")
    assert "replay=cpu,learner=cpu,storage=cpu" in completed.stdout


def test_rows_composed_for_a_gpu_stay_with_the_host():
    host, gpu = Device("cpu", Kind.CPU, 2**30), Device("gpu0", Kind.CUDA, 2**34)
    spec = HardwareSpec((host, gpu), (Link(("cpu", "gpu0"), 1e-6, 1e10),))
    dear, cheap = (PrimitiveCosts(*[Seconds(t, Origin.GIVEN)] * 4) for t in (1.0, 1e-3))
    costs = {"cpu": DeviceCosts(dear, dear), "gpu0": DeviceCosts(cheap, cheap)}
    workload = Workload("dqn", 4, 1, NO_LAYERS, NO_LAYERS, 32, 1, 1000, 16)
    placement = compose(spec, workload, costs)
    assert placement.storage == "gpu0"
    assert runnable_places(placement, spec, True) == Places("gpu0", "gpu0", "cpu")
    assert runnable_places(placement, spec, False) == Places("cpu", "gpu0", "cpu")


def test_rows_that_a_gpu_copies_from():
    torch = pytest.importorskip("torch")
    settings = config(n_transitions=203, storage="pinned")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match=r"pinned needs torch and a CUDA device.*use memory"):
            run(settings)
        return
    np.testing.assert_array_equal(
        run(settings).parameters, run(config(n_transitions=203)).parameters
    )
