"""Generated programs: they run, train as `flowrl.train` does, and hold nothing but values."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from flowrl.composer import Composer, CompositionResult, HardwareSpec
from flowrl.composer.costs import (
    DeviceCosts,
    Origin,
    PrimitiveCosts,
    Seconds,
)
from flowrl.composer.detection import find_devices
from flowrl.composer.hardware import Device, Kind, Link
from flowrl.composer.source_code import dataclass_source, literal, plain
from flowrl.composer.trainers import DDPG, DQN, SAC, TD3
from flowrl.config import (
    ConfigError,
    NetworkConfig,
    ParallelConfig,
    ReplayConfig,
    RunConfig,
)
from flowrl.results import Run
from tests.flowrl.composer.trainer_of_a_user import AnyOptions, NeverFinite, TinyDqn
from tests.launch import ROOT, module, python

PRINTABLE = 'a"\'\\"""$x{y}%sé__import__(\'os\')'
NASTY = 'a"\'\\\n"""$x{y}%s\u2028é__import__(\'os\')'
SMALL = ["--evaluation.n-episodes", "2", "--overwrite"]


def spec(*names: str) -> HardwareSpec:
    """Return a host and SYCL devices of these names."""
    host = Device("cpu", Kind.CPU, 2**32, cores=2)
    kinds = {"sycl_cpu": Kind.SYCL, "fpga_emulator": Kind.FPGA}
    backend = {"sycl_cpu": "cpu", "fpga_emulator": "fpga_emulator"}
    others = [
        Device(n, kinds[n], 2**32, emulated=n == "fpga_emulator", backend_device=backend[n])
        for n in names
    ]
    return HardwareSpec((host, *others), tuple(Link(("cpu", n), 1e-6, 1e10) for n in names))


def costs(hardware: HardwareSpec, replay: str, learner: str) -> dict[str, DeviceCosts]:
    """Return costs by which these two devices are the best."""
    table = {}
    for name in hardware.names:
        of_tree, of_learner = 1e-6 if name == replay else 1.0, 1e-6 if name == learner else 1.0
        parts = [Seconds(value, Origin.GIVEN) for value in [of_tree] * 3 + [of_learner]]
        table[name] = DeviceCosts(PrimitiveCosts(*parts), PrimitiveCosts(*parts))
    return table


def composed(
    trainer: type = DQN,
    env: str = "CartPole-v1",
    replay: str = "cpu",
    learner: str = "cpu",
    mode: str = "strict",
    workers: int = 0,
    **options: object,
) -> CompositionResult:
    hardware = spec(*sorted({replay, learner} - {"cpu"}))
    composer = Composer(hardware, mode=mode)
    composer.set_actors(env, n_envs=3, n_transitions=1500, workers=workers)
    composer.set_train_function(trainer, **(options or {"actor_width": 16, "critic_width": 16}))
    composer.set_replay(capacity=1000, batch_size=16, fanout=8)
    return composer.run(costs(hardware, replay, learner))


def generated(tmp_path: Path, result: CompositionResult, **options: float) -> Path:
    path = tmp_path / "runtime.py"
    Composer().RuntimeGen(result, path, **options)
    return path


def trained(path: Path, *arguments: str) -> Run:
    completed = python([str(path), *SMALL, *arguments])
    assert completed.returncode == 0, completed.stderr
    return Run.open(path.with_suffix(".h5"))


def test_it_has_the_bits_of_flowrl_train(tmp_path):
    run = trained(generated(tmp_path, composed()), "--seed", "5")
    same = "--n-envs 3 --n-transitions 1500 --network.actor-width 16 --network.critic-width 16"
    replay = "--replay.priorities prioritized --replay.capacity 1000 --replay.batch-size 16"
    options = f"--algo dqn --env CartPole-v1 {same} {replay} --replay.fanout 8 --seed 5".split()
    out = tmp_path / "train.h5"
    assert module("flowrl.train", *options, *SMALL, "--out", str(out)).returncode == 0
    other = Run.open(out)
    np.testing.assert_array_equal(run.policy["weights"], other.policy["weights"])
    for name in ("score_mean", "critic_loss", "updates"):
        np.testing.assert_array_equal(run.iterations[name], other.iterations[name], err_msg=name)
    assert run.evaluation["trained"].mean == other.evaluation["trained"].mean


@pytest.mark.parametrize("mode", ["relaxed", "pipelined"])
def test_it_iterates_as_composed_with_actors_beside(tmp_path, mode):
    path = generated(tmp_path, composed(SAC, "Pendulum-v1", mode=mode))
    run = trained(path)
    assert run.config.parallel == ParallelConfig(workers=1, setting="relayed", iteration=mode)
    assert run.iterations["updates"][-1] == 500


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("trainer", "env", "replay", "learner"),
    [
        (DQN, "CartPole-v1", "fpga_emulator", "fpga_emulator"),
        (DDPG, "Pendulum-v1", "fpga_emulator", "cpu"),
        (TD3, "Pendulum-v1", "cpu", "fpga_emulator"),
        (SAC, "Pendulum-v1", "sycl_cpu", "fpga_emulator"),
    ],
)
def test_it_runs_on_sycl_devices(tmp_path, trainer, env, replay, learner):
    here = {device.name for device in find_devices()}
    if not {replay, learner} <= here:
        pytest.skip(f"no {replay} or {learner} here")
    run = trained(generated(tmp_path, composed(trainer, env, replay, learner)))
    assert f"replay={replay},learner={learner}" in run.config.placement
    assert run.iterations["updates"][-1] == 500
    assert np.isfinite(run.policy["weights"]).all()


def test_it_stops_at_the_target(tmp_path):
    run = trained(generated(tmp_path, composed(), target_score=1.0))
    assert run.iterations["transitions"].tolist() == [1002]  # the first report


def test_a_users_own_trainer_runs_as_it_is(tmp_path):
    path = generated(tmp_path, composed(TinyDqn, width=12))
    run = trained(path)
    assert run.iterations["updates"][-1] == 500
    assert run.policy["weights"].shape == (2 * (4 * 12 + 12 + 12 * 2 + 2),)
    again = module("flowrl.evaluate", str(path.with_suffix(".h5")))
    assert again.returncode == 2
    assert "trainer class" in again.stderr


def test_it_says_how_a_run_is_resumed(tmp_path):
    path = generated(tmp_path, composed())
    completed = python([str(path), "--resume", "run.h5"])
    assert completed.returncode == 2
    assert "python -m flowrl.train --resume run.h5" in completed.stderr


def test_options_of_the_command_line_come_first(tmp_path):
    path = generated(tmp_path, composed())
    completed = python([str(path), "--n-transition", "3"])
    assert completed.returncode == 2
    assert "did you mean --n-transitions" in completed.stderr
    assert not path.with_suffix(".h5").exists()


@pytest.mark.parametrize("value", [NASTY, "", "${x}", b"".decode(), 1, -2.5, True, None,
                                   [NASTY, [1]], {NASTY: (1,)}])  # fmt: skip
def test_a_literal_is_nothing_but_its_value(value):
    source = literal(value)
    assert ast.literal_eval(source) == value
    assert source.isascii()
    assert "\n" not in source


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, 1j, b"x", print])
def test_what_is_no_plain_value_is_refused(value):
    with pytest.raises(ConfigError, match="a program can hold"):
        literal(value)


def test_a_configuration_is_written_as_the_calls_that_make_it():
    config = RunConfig(
        algo="sac",
        env=PRINTABLE,
        env_args={"name": PRINTABLE, "n": 3},
        out=Path(PRINTABLE),
        network=NetworkConfig(8, 9),
        replay=ReplayConfig(priorities="prioritized", priority_exponent=0.75),
    )
    names = {
        "RunConfig": RunConfig,
        "NetworkConfig": NetworkConfig,
        "ReplayConfig": ReplayConfig,
        "Path": Path,
    }
    source = dataclass_source(config)
    tree = ast.parse(source, mode="eval")
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert called == set(names)
    assert eval(compile(tree, "", "eval"), {"__builtins__": {}}, names) == config


def test_words_of_a_user_can_not_leave_a_comment():
    assert set(plain(NASTY)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


def test_devices_with_evil_names_stay_names(tmp_path):
    evil = 'gpu"""\nimport os; os._exit(7)\n"""'
    hardware = HardwareSpec(
        (Device("cpu", Kind.CPU, 2**32), Device(evil, Kind.CUDA, 2**32)),
        (Link(("cpu", evil), 1e-6, 1e10),),
    )
    composer = Composer(hardware)
    composer.set_actors("CartPole-v1", n_transitions=1500)
    composer.set_train_function(DQN)
    composer.set_replay(capacity=1000, batch_size=16)
    path = tmp_path / "runtime.py"
    with pytest.raises(ConfigError, match="--placement"):
        composer.RuntimeGen(composer.run(costs(hardware, evil, evil)), path)
    assert not path.exists()


class Inside:
    class Trainer(TinyDqn):
        """A class that no program can import by its name."""


def test_a_class_that_can_not_be_imported_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="top of a module"):
        generated(tmp_path, composed(Inside.Trainer, width=12))


@pytest.mark.parametrize("target", ["500", True, float("nan"), 10**400])
def test_targets_are_numbers(tmp_path, target):
    with pytest.raises(ConfigError, match="target_score"):
        generated(tmp_path, composed(), target_score=target)


def test_a_training_that_fails_says_so_in_one_line(tmp_path):
    path = generated(tmp_path, composed(NeverFinite, width=12))
    completed = python([str(path), *SMALL, "--progress.display", "none"])
    assert completed.returncode == 1
    assert completed.stderr.startswith("runtime.py: error: 10 updates in a row were not finite")
    assert completed.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["a=__import__('os').abort(), b", "class"])
def test_names_of_options_can_not_become_code(tmp_path, name):
    with pytest.raises(ConfigError, match="options of AnyOptions must have Python names"):
        generated(tmp_path, composed(AnyOptions, **{name: 1}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "qualified", "found"),
    [('x"""\nimport os\n"""', "TinyDqn", False), ("Größe", "Größe", True)],
)
def test_the_name_of_a_class_is_a_name(tmp_path, name, qualified, found):
    trainer = type("Trainer", (TinyDqn,), {"__module__": TinyDqn.__module__})
    trainer.__name__, trainer.__qualname__ = name, qualified
    text = generated(tmp_path, composed(trainer, width=12)).read_text(encoding="utf-8")
    assert (name in text) is found
    assert "import os\n" not in text


@pytest.mark.parametrize("path", ["a\0b.py", 5, None, b"x.py"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ConfigError, match="the program must be a"):
        Composer().RuntimeGen(composed(), path)


def test_a_program_is_a_python_file(tmp_path):
    with pytest.raises(ConfigError, match=r"\.py"):
        Composer().RuntimeGen(composed(), tmp_path / "runtime.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't be written"):
        Composer().RuntimeGen(composed(), tmp_path / "file" / "runtime.py")


def test_the_example_of_an_own_trainer_runs_to_the_end(tmp_path):
    example = ROOT / "runs" / "examples" / "own_trainer.py"
    program = tmp_path / "runtime_own.py"
    completed = python([str(example), str(program), "--quick"], FLOWRL_CACHE=str(tmp_path))
    assert completed.returncode == 0, completed.stderr
    run = trained(program, "--n-transitions", "1500")
    assert run.iterations["updates"][-1] == 500


def test_the_example_runs_to_the_end(tmp_path):
    example = ROOT / "runs" / "examples" / "compose_cartpole.py"
    program = tmp_path / "runtime_cartpole.py"
    completed = python([str(example), str(program), "--quick"], FLOWRL_CACHE=str(tmp_path))
    assert completed.returncode == 0, completed.stderr
    run = trained(program, "--n-transitions", "1500")
    assert run.config.algo == "dqn"
    assert run.iterations["transitions"][-1] == 1500
    assert "cpu" not in example.read_text().replace("--", "")  # it names no device
    assert sys.executable not in program.read_text()
