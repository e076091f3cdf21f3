"""Machines: read, refused in one line, detected, and the ways between their devices."""

from math import inf
from pathlib import Path

import pytest
import tomli_w

from flowrl.composer.costs import Origin
from flowrl.composer.hardware import HardwareSpec, Kind
from flowrl.composer.links import fit
from flowrl.config import ConfigError
from tests.flowrl.composer.machines import machine
from tests.launch import ROOT

CPU = '[[devices]]\nname = "cpu"\nkind = "cpu"\nmemory_bytes = 16e9\n'
GPU = '[[devices]]\nname = "gpu0"\nkind = "cuda"\nmemory_bytes = 8_000_000\n'
LINK = '[[links]]\nbetween = ["cpu", "gpu0"]\nlatency_s = 1e-5\nbandwidth_bytes_per_s = 1e9\n'


@pytest.mark.parametrize(
    "path", sorted((ROOT / "runs/hardware").glob("*.toml")), ids=lambda p: p.stem
)
def test_the_example_files_are_read(path):
    spec = HardwareSpec.load(path)
    assert spec.host.name == "cpu"
    assert "_".join(name.rstrip("0") for name in spec.names) == path.stem
    assert path.read_text().startswith("# ")
    assert all(device.busy_power_w for device in spec.devices)


def test_tables_by_name_are_the_same_as_a_list(tmp_path):
    as_list, by_name = tmp_path / "list.toml", tmp_path / "names.toml"
    as_list.write_text(CPU + GPU + LINK)
    by_name.write_text(
        '[devices.cpu]\nkind = "cpu"\nmemory_bytes = 16000000000\n'
        '[devices.gpu0]\nkind = "gpu"\nmemory_bytes = 8e6\n' + LINK
    )
    spec = HardwareSpec.load(as_list)
    assert spec == HardwareSpec.load(by_name)
    assert spec.names == ("cpu", "gpu0")
    assert spec.device("gpu0").kind is Kind.CUDA
    assert spec.links[0].origin is Origin.GIVEN


def test_routes_through_the_host_add_up():
    spec = machine(
        ("a", "cuda", {}), ("cpu", "cpu", {}), ("b", "fpga", {}), ("c", "sycl", {}),
        links=[("cpu", "a", 1e-5, 1e9), ("b", "cpu", 2e-5, 3e9), ("cpu", "c", 0.0, 1e9),
               ("a", "c", 5e-6, 2e9)],
    )  # fmt: skip
    assert spec.host.name == "cpu"
    for pair in (("a", "b"), ("b", "a")):
        assert spec.transfer_seconds(3e9, *pair) == pytest.approx(3e-5 + 3.0 + 1.0)
    assert spec.transfer_seconds(2e9, "c", "a") == pytest.approx(1.0 + 5e-6)  # the direct one
    assert spec.transfer_seconds(1e9, "b", "b") == 0.0
    assert spec.route("b", "b").bandwidth_bytes_per_s == inf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "devices must be one .* got nothing"),
        ("devices = 3", "devices must be one .* got 3"),
        ("devices = [3]", r"devices\[0\] must be a table, got 3"),
        ("[devices]\ncpu = 3", "devices.cpu must be a table, got 3"),
        ("[[devices]\n", "not valid TOML"),
        ("x = 1\n" + CPU, "must have only devices, links, got 'x'"),
        (CPU.replace('name = "cpu"\n', ""), r"devices\[0\].name must be .* got nothing; add name"),
        (CPU.replace('"cpu"\nmem', '"cqu"\nmem'), "devices.cpu.kind must be one of cpu.*'cqu'"),
        (CPU.replace("16e9", "-1"), "devices.cpu.memory_bytes must be a whole number .* got -1"),
        (CPU.replace("16e9", "1.5"), "memory_bytes must be a whole number .* got 1.5"),
        (CPU.replace("16e9", "nan"), "memory_bytes must be a whole number .* got nan"),
        (CPU.replace("16e9", "inf"), "memory_bytes must be a whole number .* got inf"),
        (CPU.replace("16e9", "true"), "memory_bytes must be a whole number .* got True"),
        (CPU.replace("16e9", "'1'"), "memory_bytes must be a whole number .* got '1'"),
        (CPU + "memory = 3\n", "got 'memory'; did you mean memory_bytes"),
        (CPU + "emulated = 1\n", "devices.cpu.emulated must be true or false, got 1"),
        (CPU + "idle_power_w = 1\n", "devices.cpu.busy_power_w must be given with the other"),
        (CPU + "idle_power_w = 9\nbusy_power_w = 1\n", "busy_power_w must be at least idle"),
        (CPU + "idle_power_w = -9\nbusy_power_w = 1\n", "idle_power_w must be .* got -9"),
        (CPU + CPU, "devices must have names of their own, got 'cpu' 2 times"),
        (GPU, "devices must include a CPU, .* got 'gpu0'"),
        (CPU + GPU, "links must join 'gpu0' to the host 'cpu', got none"),
        ("links = 3\n" + CPU, "links must be .* got 3"),
        (CPU + GPU + LINK + LINK, r"links\[1\].between must be .* a second link"),
        (CPU + GPU + LINK.replace("gpu0", "cpu"), "between must be .* same device twice"),
        (CPU + GPU + LINK.replace("gpu0", "gpu"), "between must name devices, got 'gpu'; did you"),
        (CPU + GPU + LINK.replace('["cpu", "gpu0"]', '"cpu"'), "between must be the names .*cpu"),
        (CPU + GPU + LINK.replace('["cpu", "gpu0"]', "[1, 2]"), "between must be the names"),
        (CPU + GPU + LINK.replace("between", "betwen"), "between must be .* got nothing"),
        (CPU + GPU + LINK.replace("1e-5", "-1e-5"), "latency_s must be .* got -1e-05"),
        (CPU + GPU + LINK.replace("1e-5", "nan"), "latency_s must be .* got nan"),
        (CPU + GPU + LINK.replace("1e9", "0"), "bandwidth_bytes_per_s must be .* got 0"),
        (CPU + GPU + LINK.replace("1e9", "inf"), "bandwidth_bytes_per_s must be .* got inf"),
        (CPU + GPU + LINK.replace("bandwidth_bytes_per_s", "bandwidth"), "got 'bandwidth'; did"),
        (CPU + GPU + LINK.replace("1e-5", "1e308"), "latency_s must be .* got 1e.308"),
        (CPU + GPU + LINK.replace("1e9", "5e-324"), "bandwidth_bytes_per_s must be .* got 5e-324"),
        (CPU + "idle_power_w = 0\nbusy_power_w = 5e-324\n", "busy_power_w must be .* got 5e-324"),
        (CPU + GPU + LINK + 'origin = "felt"\n', "origin must be one of .* got 'felt'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_line(tmp_path, text, message):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        HardwareSpec.load(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--hardware must be a readable TOML file"):
        HardwareSpec.load(tmp_path / "none.toml")
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        HardwareSpec.load(path)


def test_this_machine_is_found_and_can_be_written(tmp_path):
    spec = HardwareSpec.detect()
    assert spec.host.name == "cpu"
    assert spec.host.cores >= 1
    assert {link.origin for link in spec.links} <= {Origin.MEASURED}
    assert all(link.bandwidth_bytes_per_s > 1e6 for link in spec.links)
    path = Path(tmp_path / "found.toml")
    path.write_text(tomli_w.dumps(spec.to_tables()))
    assert HardwareSpec.load(path) == spec


def test_latency_and_bandwidth_are_fitted():
    sizes = [64 * 4**k for k in range(10)]
    latency, bandwidth = fit(sizes, [2e-6 + n / 5e9 for n in sizes])
    assert (latency, bandwidth) == pytest.approx((2e-6, 5e9))
    latency, bandwidth = fit(sizes, [1e-6] * len(sizes))  # noise may leave no slope at all
    assert latency > 0
    assert bandwidth > 0
