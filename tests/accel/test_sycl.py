"""What only SYCL has: the wheels it is loaded from, its cache of compiled code, pipelines."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.backends import BackendError, load
from accel.interfaces import Dqn
from accel.sycl import compiler, runtime
from tests.accel.cases import table
from tests.accel.off_policy_cases import make_case

pytestmark = pytest.mark.sycl


@pytest.fixture(scope="module")
def sycl() -> Any:
    try:
        return load("sycl")
    except BackendError as error:
        pytest.skip(str(error))


@pytest.fixture
def emulator(sycl: Any) -> Any:
    if "fpga_emulator" not in sycl.devices():
        pytest.skip("no FPGA emulator was found")
    return sycl


PROGRAM = """
import numpy as np
from accel.sycl import SumTree, compiler

made, kept = [], compiler.kept
compiler.kept = lambda directory, kind, parts, make: kept(
    directory, kind, parts, lambda: made.append(kind) or make()
)
tree = SumTree(100, 4, device="cpu")
tree.set(np.arange(100), np.arange(100.0))
print(int(tree.total()), made.count("spirv"))
"""


def start(directory: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "ACCEL_CACHE": str(directory)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, int]:
    total, n_compiled = process.communicate(timeout=600)[0].split()
    assert process.returncode == 0
    return int(total), int(n_compiled)


@pytest.mark.usefixtures("sycl")
def test_eight_processes_compile_once(tmp_path: Path) -> None:
    """All begin with an empty cache; a ninth finds it filled, whatever was torn is made again."""
    found = [finish(process) for process in [start(tmp_path) for _ in range(8)]]
    assert [total for total, _ in found] == [4950] * 8
    assert sum(n_compiled for _, n_compiled in found) == 1
    assert finish(start(tmp_path)) == (4950, 0)
    for path in tmp_path.glob("*.cpu"):
        path.write_bytes(path.read_bytes()[:-100])
    assert finish(start(tmp_path)) == (4950, 0)  # from the SPIR-V that is still whole
    for path in tmp_path.iterdir():
        path.write_bytes(b"torn")
    assert finish(start(tmp_path)) == (4950, 1)


def counted(made: list[bytes]) -> Callable[[], bytes]:
    def make() -> bytes:
        made.append(b"code")
        return b"code"

    return make


def test_code_is_kept_by_all_it_depends_on(tmp_path: Path) -> None:
    made: list[bytes] = []
    for parts in (("a", "1"), ("a", "1"), ("a", "2"), ("b", "1"), ("a", "2")):
        assert compiler.kept(tmp_path, "cpu", parts, counted(made)) == b"code"
    assert len(made) == 3


def test_without_a_place_to_write_it_is_made_each_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    made: list[bytes] = []
    for _ in range(2):
        assert compiler.kept(blocked / "cache", "cpu", ("a",), counted(made)) == b"code"
    assert len(made) == 2


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run as users that the system does not know."""

    def no_home(path: str) -> str:
        return path

    for name in ("ACCEL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", no_home)
    made: list[bytes] = []
    for _ in range(2):
        code = compiler.kept(compiler.cache_directory(), "cpu", ("a",), counted(made))
        assert code == b"code"
    assert len(made) == 2


def test_missing_wheel_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(distribution: str) -> None:
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(importlib.metadata, "files", files)
    with pytest.raises(ImportError, match=r"intel-sycl-rt is not installed: .* \[sycl\]") as caught:
        runtime.find("intel-sycl-rt", "libsycl.so.8")
    assert "\n" not in str(caught.value)


def test_missing_library_is_a_reason() -> None:
    with pytest.raises(ImportError, match=r"libnone\.so is not among the files of numpy"):
        runtime.find("numpy", "libnone.so")


@pytest.mark.usefixtures("sycl")
def test_user_keeps_own_drivers() -> None:
    added = runtime.environment({"OCL_ICD_FILENAMES": "own.so", "DPCPP_CPU_NUM_CUS": "3"})
    assert added["OCL_ICD_FILENAMES"].startswith("own.so:")
    assert added["DPCPP_CPU_NUM_CUS"] == "3"
    again = runtime.environment(added)
    assert again == added


FORK = """
import os
import sys

import numpy as np

from accel.sycl import SumTree

tree = SumTree(100, 4, device=sys.argv[1])
calls = (tree.total, lambda: tree.set(np.zeros(1, np.int64), np.ones(1)),
         lambda: SumTree(100, 4, device=sys.argv[1]))
child = os.fork()
if child == 0:
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
calls[1]()
print(tree.total())
"""


def test_forked_processes_are_refused(sycl: Any) -> None:
    """The emulator would wait forever for threads that are not there."""
    for device in sycl.devices():
        done = subprocess.run(
            [sys.executable, "-c", FORK, device], capture_output=True, text=True, timeout=120
        )
        *refused, total = done.stdout.splitlines()
        assert total == "1.0", done.stderr
        assert len(refused) == 3
        assert all("start processes by spawn" in line for line in refused)


def test_importing_accel_leaves_sycl_alone() -> None:
    program = "import sys, accel, accel.backends; print('accel.sycl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def work(tree: Any, rng: np.random.Generator) -> list[Any]:
    """Call everything; return all that came back."""
    capacity, found = tree.capacity, []
    for _ in range(3):
        indices = rng.integers(0, capacity, 900)
        tree.set(indices, rng.random(900) ** 8 * (rng.random(900) < 0.8))
        tree.insert(int(rng.integers(capacity)), capacity // 3, float(rng.random()))
        rows = np.unique(rng.integers(0, capacity, 50))
        tree.update(rows, rng.random(len(rows)))
        found += [tree.total(), tree.largest(), tree.priorities(), tree.retrieve(indices)]
        found += [*tree.sample(rng.random(700) * tree.total())]
        found += [*tree.sample_stratified(rng.random(5000), 0.7)]
    return found


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("capacity", [1, 300, 6000])
def test_pipeline_is_the_batched_tree(emulator: Any, capacity: int, concurrent: bool) -> None:
    """Equal to the bit, whether the levels take turns or run at the same time."""
    batched = work(emulator.SumTree(capacity, 16), np.random.default_rng(capacity))
    tree = emulator.SumTree(
        capacity, 16, device="fpga_emulator", form="pipeline", concurrent=concurrent
    )
    piped = work(tree, np.random.default_rng(capacity))
    for found, expected in zip(piped, batched, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', got 'float16'"),
        ({"form": "wide"}, "form must be 'batched' or 'pipeline', got 'wide'"),
        ({"device": "cpu", "form": "pipeline"}, "device must be 'fpga_emulator' for form"),
        ({"device": "gpu"}, "device must be one of .*, got 'gpu'"),
        ({"fanout": 12}, "fanout must be a power of two from 2 to 64, got 12"),
        ({"capacity": 0}, "capacity must be 1 to 2.30 rows, got 0"),
    ],
)
def test_bad_options(sycl: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sycl.SumTree(**{"capacity": 10, **options})


@pytest.mark.parametrize("options", [{"capacity": 10.0}, {"fanout": 16.0}, {"fanout": "16"}])
def test_sizes_are_whole_numbers(emulator: Any, options: dict[str, Any]) -> None:
    """Before anything is compiled."""
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        emulator.SumTree(**{"capacity": 10, "form": "pipeline", **options})


def test_float64_keeps_what_float32_rounds(sycl: Any) -> None:
    tree = sycl.SumTree(10, 2, device="cpu", dtype="float64")
    tree.set(np.arange(10), np.full(10, 1 + 2.0**-40))
    assert tree.total() == 10 * (1 + 2.0**-40)


def test_emulator_has_no_float64_trees(emulator: Any) -> None:
    with pytest.raises(ValueError, match="dtype must be float32 on fpga_emulator: no 64-bit"):
        emulator.SumTree(10, 2, device="fpga_emulator", dtype="float64")


@pytest.mark.parametrize("algorithm", ["double-dqn", "td3-each-step", "sac"])
def test_devices_learn_alike(emulator: Any, algorithm: str) -> None:
    """Two compilers of the same bodies: close, and each to the reference."""
    case = make_case(algorithm)
    expected = case.reference()
    for _ in range(3):
        expected.learn(case.batch)
    for device in emulator.devices():
        learner = case.learner("sycl", device=device)
        for _ in range(3):
            assert learner.learn(case.batch).applied
        np.testing.assert_allclose(
            learner.parameters(), expected.parameters(), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("n_pipelines", [1, 2])
def test_pipeline_learns_as_the_reference(
    emulator: Any, n_pipelines: int, concurrent: bool
) -> None:
    """Gradients, then whole steps, with rows that do not divide by the pipelines."""
    assert emulator
    own = {"form": "pipeline", "n_pipelines": n_pipelines, "concurrent": concurrent}
    case = make_case("double-dqn", n_rows=9, widths=(8, 6))
    learner, expected = case.learner("sycl", device="fpga_emulator", **own), case.reference()
    gradient = expected.critic_gradient(case.batch)
    found = learner.critic_gradient(case.batch)
    np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())
    learner.apply_critic(found)
    expected.apply_critic(gradient)
    learner.apply_actor(learner.actor_gradient())
    expected.apply_actor(expected.actor_gradient())
    for _ in range(6):  # the targets move twice
        step, wanted = learner.learn(case.batch), expected.learn(case.batch)
        assert step.applied
        np.testing.assert_allclose(step.td_errors, wanted.td_errors, rtol=1e-3, atol=1e-4)
        assert step.critic_loss == pytest.approx(wanted.critic_loss, rel=1e-3)
        assert step.mean_value == pytest.approx(wanted.mean_value, rel=1e-3, abs=1e-5)
        norm = wanted.critic_gradient_norm
        assert step.critic_gradient_norm == pytest.approx(norm, rel=1e-3)
    for key in ("parameters", "targets", "counters"):
        np.testing.assert_allclose(
            learner.state()[key], expected.state()[key], rtol=1e-3, atol=1e-4, err_msg=key
        )


def test_pipeline_skips_what_is_not_finite(emulator: Any) -> None:
    assert emulator
    case = make_case("double-dqn", n_rows=9, widths=(8, 6))
    learner = case.learner("sycl", device="fpga_emulator", form="pipeline")
    rewards = case.batch.rewards.copy()
    rewards[4] = np.inf
    before = learner.parameters()
    assert not learner.learn(case.with_batch(rewards=rewards).batch).applied
    np.testing.assert_array_equal(learner.parameters(), before)
    assert learner.learn(case.batch).applied


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        ("sac", {}, "actor_layers must be None for form 'pipeline'"),
        ("dqn", {"device": "cpu"}, "device must be 'fpga_emulator' for form 'pipeline'"),
        ("dqn", {"n_pipelines": 5}, "n_pipelines must be 1 to 4 for form 'pipeline', got 5"),
        ("dqn", {"form": "wide"}, "form must be 'batched' or 'pipeline', got 'wide'"),
    ],
)
def test_bad_learners(emulator: Any, algorithm: str, options: dict[str, Any], message: str) -> None:
    assert emulator
    own = {"device": "fpga_emulator", "form": "pipeline", **options}
    with pytest.raises(ValueError, match=message):
        make_case(algorithm).learner("sycl", **own)


def test_concurrent_kernels_have_a_thread_each(
    emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer they would wait for each other forever."""
    monkeypatch.setenv("DPCPP_CPU_NUM_CUS", "5")
    with pytest.raises(ValueError, match="concurrent must be False for 6 kernels on 5 threads"):
        emulator.SumTree(10, 16, device="fpga_emulator", form="pipeline", concurrent=True)
    case = make_case("double-dqn", n_rows=9, widths=(8, 6))
    with pytest.raises(ValueError, match="concurrent must be False for 11 kernels on 5 threads"):
        case.learner("sycl", device="fpga_emulator", form="pipeline", concurrent=True)


def test_pipeline_wants_a_chain(emulator: Any) -> None:
    layers = table((-1, 0, 4, 8, 1, -1), (-1, 0, 4, 8, 1, -1), (1, 0, 8, 2, 0, 0))
    with pytest.raises(ValueError, match=r"critic_layers\[1\] must be the next of a chain"):
        emulator.OffPolicyLearner(Dqn(), None, layers, device="fpga_emulator", form="pipeline")


def test_pipeline_wants_a_known_activation(emulator: Any) -> None:
    layers = table((-1, 0, 4, 8, 7, -1), (0, 0, 8, 2, 0, 0))
    with pytest.raises(ValueError, match=r"critic_layers\[0\]: activation must be 0 to 3, got 7"):
        emulator.OffPolicyLearner(Dqn(), None, layers, device="fpga_emulator", form="pipeline")
