"""What only CUDA has: code for each device, arrays that stay there, streams, recorded steps.

The shared tests run the rest on the device, and its kernels' bodies on the host.
"""

import importlib
import importlib.util
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel import portable
from accel.backends import BackendError, load
from accel.interfaces import Batch
from tests.accel.off_policy_cases import ALGORITHMS, make_case
from tests.accel.test_off_policy import assert_equal_states, assert_same_step

CUBIN = 2  # kind of an entry in the table of device code
TABLE = struct.pack("<I", 0xBA55ED50)


def extension() -> Path:
    spec = importlib.util.find_spec("accel._cuda")
    if spec is None or spec.origin is None:
        pytest.skip("accel._cuda was not built: no nvcc where accel was installed")
    return Path(spec.origin)


def architectures(content: bytes) -> Iterator[int]:
    """Read for which devices a file holds machine code."""
    at = content.find(TABLE)
    while at >= 0:
        n_header, size = struct.unpack_from("<HQ", content, at + 6)
        entry, end = at + n_header, at + n_header + size
        while entry < end:
            kind, _, n_bytes = struct.unpack_from("<HHI", content, entry)
            if kind == CUBIN:
                yield struct.unpack_from("<I", content, entry + 28)[0]
            entry += n_bytes + struct.unpack_from("<Q", content, entry + 8)[0]
        at = content.find(TABLE, end)


def test_has_code_for_each_device() -> None:
    assert {80, 90} <= set(architectures(extension().read_bytes()))


def test_loads_without_a_device() -> None:
    extension()
    compiled = importlib.import_module("accel._cuda")
    if names := compiled.device_names():
        assert compiled.why_no_device() == ""
        assert all(isinstance(name, str) for name in names)
        return
    assert "no device" in compiled.why_no_device()
    with pytest.raises(BackendError, match="no device"):
        load("cuda")
    with pytest.raises(RuntimeError, match="no device"):
        compiled.SumTree(10)
    case = make_case("dqn")
    with pytest.raises(RuntimeError, match="no device"):
        compiled.OffPolicyLearner(case.options, case.actor, case.critic)


@pytest.fixture
def cuda() -> Any:
    """The backend, or a skip with its reason."""
    try:
        return load("cuda")
    except BackendError as error:
        pytest.skip(str(error))


@pytest.fixture
def torch(cuda: Any) -> Any:  # noqa: ARG001
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return module


@pytest.mark.gpu
@pytest.mark.parametrize("fanout", [2, 16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tree_has_the_bits_of_the_portable_bodies(cuda: Any, dtype: str, fanout: int) -> None:
    rng = np.random.default_rng(fanout)
    trees = [backend.SumTree(3000, fanout, dtype=dtype) for backend in (cuda, portable)]
    for n in (20, 500, 5000):
        rows, values, uniforms = rng.integers(0, 3000, n), rng.exponential(size=n), rng.random(n)
        for tree in trees:
            tree.set(rows, values)
            tree.update(rows, values)
        assert trees[0].total() == trees[1].total()
        for got, expected in zip(*(t.sample(uniforms * t.total()) for t in trees), strict=True):
            np.testing.assert_array_equal(got, expected)
        found = [tree.sample_stratified(uniforms, 0.5) for tree in trees]
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tree_takes_and_gives_tensors(cuda: Any, torch: Any, dtype: str) -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    there, here = (cuda.SumTree(1000, 16, dtype=dtype) for _ in range(2))
    of_tree = getattr(torch, dtype)
    for n in (7, 2000):
        rows = torch.randint(0, 1000, (n,), device="cuda", generator=generator)
        values = torch.rand(n, device="cuda", dtype=of_tree, generator=generator)
        there.set_device(rows, values)
        here.set(rows.cpu().numpy(), values.cpu().numpy().astype(np.float64))
        uniforms = torch.rand(n, device="cuda", dtype=of_tree, generator=generator)
        found = [torch.from_dlpack(a) for a in there.sample_stratified_device(uniforms, 0.4)]
        expected = here.sample_stratified(uniforms.cpu().numpy().astype(np.float64), 0.4)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got.cpu().numpy(), wanted)
        priorities = torch.from_dlpack(there.retrieve_device(found[0])).cpu().numpy()
        np.testing.assert_array_equal(priorities, here.retrieve(expected[0]))
    there.check_device()


@pytest.mark.gpu
def test_tensors_are_ordered_by_streams(cuda: Any, torch: Any) -> None:
    """Work of ours waits for what the caller's stream has started, and the other way round."""
    tree, n = cuda.SumTree(4096), 4096
    rows = torch.arange(n, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(20):
            values = torch.ones(n, device="cuda")
            torch.cuda._sleep(2_000_000)  # the values come late
            values.mul_(i + 1)
            tree.set_device(rows, values, stream=stream.cuda_stream)
            values.fill_(-1.0)  # and go early
            found = torch.from_dlpack(tree.retrieve_device(rows, stream=stream.cuda_stream))
            assert (found == i + 1).all()
    tree.check_device()


@pytest.mark.gpu
def test_bad_arrays_change_nothing(cuda: Any, torch: Any) -> None:
    tree = cuda.SumTree(10)
    rows = torch.arange(3, device="cuda")
    empty = torch.from_dlpack(tree.sample_device(torch.ones(2, device="cuda"))[0])
    assert (empty == -1).all()
    with pytest.raises(ValueError, match="positive priority"):
        tree.check_device()
    tree.set_device(rows, torch.ones(3, device="cuda"))
    tree.set_device(rows + 9, torch.ones(3, device="cuda"))
    tree.set_device(rows, -torch.ones(3, device="cuda"))
    with pytest.raises(ValueError, match="indices"):
        tree.check_device()
    assert tree.total() == 3.0
    for bad, message in (
        (torch.ones(3), "CUDA device"),
        (torch.ones(3, device="cuda", dtype=torch.float64), "float32"),
        (torch.ones(6, device="cuda")[::2], "contiguous"),
        (torch.ones(2, device="cuda"), "priorities"),
        ([1.0, 2.0, 3.0], "__dlpack__"),
    ):
        with pytest.raises(ValueError, match=message):
            tree.set_device(rows, bad)
    assert tree.total() == 3.0


def to_device(torch: Any, batch: Batch) -> Batch:
    return Batch(*(torch.from_numpy(field).cuda() for field in batch))


@pytest.mark.gpu
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learner_takes_tensors(torch: Any, algorithm: str) -> None:
    case = make_case(algorithm, n_rows=64)
    there, here = case.learner("cuda"), case.learner("cuda")
    rows = torch.randint(0, 64, (40,), device="cuda")
    batch = to_device(torch, case.batch)._replace(weights=torch.ones(40, device="cuda"))
    weights = np.ones(40, np.float32)
    for _ in range(4):
        errors = torch.from_dlpack(there.learn_device(batch, rows))  # type: ignore[attr-defined]
        step = here.learn(case.batch._replace(weights=weights), rows.cpu().numpy())
        np.testing.assert_array_equal(errors.cpu().numpy(), step.td_errors)
        assert_same_step(there.last_step(), step)  # type: ignore[attr-defined]
    assert_equal_states(there.state(), here.state())


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_recorded_steps_have_equal_bits(algorithm: str) -> None:
    case = make_case(algorithm, n_rows=48)
    recorded, launched = (case.learner("cuda", graphs=kept) for kept in (True, False))
    for n in (48, 20, 48, 48):
        batch = Batch(*(field[:n] for field in case.batch))
        assert_same_step(recorded.learn(batch), launched.learn(batch))
    assert_equal_states(recorded.state(), launched.state())


@pytest.mark.gpu
def test_too_little_memory_leaves_all_usable(cuda: Any) -> None:
    with pytest.raises(RuntimeError, match=r"cudaMalloc.*out of memory"):
        make_case("dqn", widths=(4000, 4000)).learner("cuda", n_pipelines=4096)
    tree = cuda.SumTree(10)
    tree.insert(0, 10)
    assert tree.total() == 10.0
