"""Studies of devices: assembled and kept as they are, drawn with what tells numbers apart."""

from __future__ import annotations

import dataclasses
from math import inf, nan

import h5py
import numpy as np
import pytest
from PIL import Image

from flowrl import plot
from flowrl.bench import devices as bench
from flowrl.bench.__main__ import command
from flowrl.bench.device_cells import Cell, Patience, assemble, manager_only
from flowrl.composer.costs import DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.composer.figures import cell_text, draw_devices, latency, map_batches
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.placement import compose
from flowrl.composer.study import read_study, write_study
from flowrl.config import ConfigError
from flowrl.results import ResultError
from tests.flowrl.composer.machines import machine, workload
from tests.launch import module

FPGA = {"clock_hz": 1e8, "n_dsps": 500, "n_m20k_blocks": 7000, "memory_latency_s": 1e-8,
        "memory_bandwidth_bytes_per_s": 1e10}  # fmt: skip
SPEC = machine(
    ("cpu", "cpu", {}), ("gpu", "cuda", {}), ("fpga", "fpga", FPGA),
    links=(("cpu", "gpu", 1e-6, 1e9), ("cpu", "fpga", 1e-6, 1e9)),
)  # fmt: skip
ORIGINS = {"cpu": Origin.MEASURED, "gpu": Origin.GIVEN, "fpga": Origin.MODELLED}
HARDWARE = """
devices = [
    {{ name = "host", kind = "cpu", memory_bytes = 4e9 }},
    {{ name = "absent", kind = "sycl", memory_bytes = 4e9, backend_device = "of_nobody" }},
    {{ name = "board", kind = "fpga", memory_bytes = 4e9, {fpga} }},
]
links = [
    {{ between = ["host", "absent"], latency_s = 1e-6, bandwidth_bytes_per_s = 1e9 }},
    {{ between = ["host", "board"], latency_s = 1e-6, bandwidth_bytes_per_s = 1e9 }},
]
"""
QUICK = "--networks dqn --batch-sizes 8 16 --capacity 200 --iterations 4 --budget 0.1"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWRL_CACHE", str(tmp_path / "cache"))


def costs(scale):
    """Return costs of which the FPGA's are the least, then the processor's."""

    def of(name, factor):
        parts = (1e-3, 2e-3, 1e-3, 8e-3)
        return PrimitiveCosts(*(Seconds(factor * x, ORIGINS[name], 1e-4) for x in parts))

    factors = {"cpu": scale, "gpu": 4 * scale, "fpga": scale / 4}
    return {name: DeviceCosts(of(name, x), of(name, x)) for name, x in factors.items()}


def make_study(batch_sizes=(32, 512), unlearnt=(), networks=("DQN, 64 x 64", "SAC, 256 x 256")):
    """Return a study of a measured, a given and a modelled device."""

    def cell(size):
        here = HardwareSpec(SPEC.devices[:2], SPEC.links[:1])
        prices = costs(size / 32)
        both = [compose(spec, workload(size), prices) for spec in (SPEC, here)]
        return Cell(prices, {"cpu": 7, "gpu": 0, "fpga": 0}, *both, frozenset(unlearnt))

    cells = [[cell(size) for size in batch_sizes] for _ in networks]
    return assemble(SPEC, networks, batch_sizes, cells, {"mode": "strict", "insert_size": 8})


def test_cells_are_put_in_their_places():
    study = make_study()
    assert study.seconds["alone"].shape == (2, 2, 3, 4)
    assert study.seconds["alone"][1, 1, 0] == pytest.approx([0.016, 0.032, 0.016, 0.128])
    # strict: sample + max(train, insert) + update
    assert study.eps[0, 0, 0, 0] == pytest.approx(32 / 11e-3)
    assert study.eps[0, 0, 0, 1] == pytest.approx(32 / 35e-3)
    assert study.eps_origin[0, 0].tolist() == [
        ["measured", "given + measured", "measured + modelled"],
        ["given + measured", "given", "given + modelled"],
        ["measured + modelled", "given + modelled", "modelled"],
    ]
    assert study.choice[0, 0].tolist() == [2, 2]
    assert study.choice_here[0, 0].tolist() == [0, 0]
    assert study.n_iterations[0, 0].tolist() == [7, 0, 0]


def test_a_learner_that_was_left_out_is_not_known():
    study = make_study(unlearnt=["gpu"])
    assert np.isnan(study.eps[0, 0]).tolist() == [[False, True, False]] * 3
    assert np.isnan(study.seconds["alone"][0, 0, 1]).tolist() == [False] * 3 + [True]
    assert np.isnan(study.seconds["shared"][0, 0, 1]).all()


def test_latencies_are_sums_of_parts():
    study = make_study(unlearnt=["gpu"])
    seconds, spread = latency(study, 0, 0, slice(0, 3))
    assert seconds == pytest.approx([4e-3, 64e-3])
    assert spread == pytest.approx([3e-4, 3e-4])
    assert np.isnan(latency(study, 0, 1, slice(3, 4))[0]).all()
    study.seconds["alone"][0, 0, 2] = inf  # impossible there: no point
    assert np.isnan(latency(study, 0, 2, slice(3, 4))[0]).tolist() == [True, False]


def test_a_kept_study_is_the_same(tmp_path):
    path = tmp_path / "devices.h5"
    study = make_study(unlearnt=["gpu"])
    write_study(path, study)
    again = read_study(path)
    for item in dataclasses.fields(study):
        expected, found = getattr(study, item.name), getattr(again, item.name)
        if isinstance(expected, dict) and "alone" in expected:
            for share, values in expected.items():
                np.testing.assert_array_equal(found[share], values)
        elif isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(found, expected)
        else:
            assert found == expected
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["devices.h5"]


def test_every_dataset_has_unit_and_description(tmp_path):
    write_study(tmp_path / "devices.h5", make_study())
    found = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found.append(name)
            assert "unit" in item.attrs
            assert item.attrs["description"]

    with h5py.File(tmp_path / "devices.h5") as file:
        file.visititems(visit)
        assert file["alone/seconds"].attrs["unit"] == "s"
        assert file["assignments/eps"].attrs["unit"] == "samples/s"
    assert len(found) == 16


def drawn(tmp_path, study, name="devices.svg"):
    draw_devices(study, tmp_path / name)
    return (tmp_path / name).read_text() if name.endswith("svg") else tmp_path / name


def test_the_figure_says_what_is_measured_modelled_and_given(tmp_path):
    text = drawn(tmp_path, make_study())
    for part in ("cpu (measured)", "gpu (given)", "fpga (modelled)", "from measured times",
                 "from modelled times, in whole or in part", "from given times, in whole or in",
                 "composer's choice", "its choice without modelled devices", "batch size [rows]",
                 "time of an update [s]", "throughput [samples/s]", "(c) SAC, batch 512", "11.6k",
                 "half the interquartile range", "mode strict"):  # fmt: skip
        assert part in text, part
    assert "n/m" not in text
    assert text.count("<pattern") >= 2  # hatches of two kinds


def test_what_does_not_occur_is_not_explained(tmp_path):
    study = make_study(unlearnt=["gpu"])
    text = drawn(tmp_path, dataclasses.replace(study, choice_here=study.choice))
    assert "its choice without" not in text
    assert "n/m: not measured" in text


@pytest.mark.parametrize("n_networks", [1, 2, 3])
def test_any_number_of_networks_fits(tmp_path, n_networks):
    study = make_study(batch_sizes=(8, 16), networks=["TD3, 8 x 8"] * n_networks)
    with Image.open(drawn(tmp_path, study, "devices.png")) as image:
        assert image.size[0] == 2000
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels[::5, ::5].reshape(-1, 3), axis=0)) > 100
    for border in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert (border == 255).all()  # nothing is cut off


def test_maps_are_of_batch_32_and_512_or_of_the_ends():
    assert map_batches(make_study((16, 32, 64, 512, 1024))) == (32, 512)
    assert map_batches(make_study((32, 64))) == (32,)
    assert map_batches(make_study((8, 16, 64))) == (8, 64)
    assert map_batches(make_study((8,))) == (8,)


@pytest.mark.parametrize(
    ("value", "text"),
    [(nan, "n/m"), (0.0, "0"), (343.2, "343"), (5078.0, "5.08k"), (999_900.0, "1M"), (2e6, "2M")],
)
def test_numbers_in_cells_are_short(value, text):
    assert cell_text(value) == text


def test_devices_that_are_neither_here_nor_modelled_are_left_out(tmp_path):
    path = tmp_path / "h.toml"
    fpga = ", ".join(f"{name} = {value}" for name, value in FPGA.items())
    path.write_text(HARDWARE.format(fpga=fpga))
    spec, lines = bench.hardware_of(path, detect=False)
    assert spec.names == ("host", "board")
    assert [link.between for link in spec.links] == [("host", "board")]
    (line,) = lines
    assert line.startswith("absent is left out: it is not here")
    assert "\n" not in line


def test_own_devices_stand_after_the_host_which_is_the_own_one():
    own = machine(("me", "cpu", {"cores": 3}), ("gpu", "cuda", {}), ("emu", "sycl", {}),
                  links=(("me", "gpu", 1.0, 1.0), ("me", "emu", 2.0, 3.0)))  # fmt: skip
    spec = bench.with_own(SPEC, own)
    assert spec.names == ("cpu", "emu", "gpu", "fpga")
    assert spec.host.cores == 3
    assert (spec.route("cpu", "emu").latency_s, spec.route("cpu", "gpu").latency_s) == (2.0, 1e-6)


def test_slow_learners_are_foreseen():
    cpu, gpu, fpga = SPEC.devices
    patience = Patience(longest=1.0)
    assert not patience.expects_too_long(gpu, 32)  # nothing is known yet
    for device in (cpu, gpu, fpga):
        patience.remember(device, 32, 0.4)
    assert [patience.expects_too_long(gpu, n) for n in (64, 128)] == [False, True]
    assert not patience.expects_too_long(cpu, 1024)
    assert not patience.expects_too_long(fpga, 1024)
    patience.remember(gpu, 64, inf)
    assert patience.expects_too_long(gpu, 128)


def test_where_only_managers_are_measured_the_host_learns():
    options = bench.DevicesOptions(out="x.h5", networks=("dqn",))
    accelerators = bench.accelerators_of(options, "dqn", 32)
    only = manager_only(accelerators)
    assert accelerators.can_learn_on(SPEC.device("gpu"))
    assert [only.can_learn_on(device) for device in SPEC.devices] == [True, False, False]
    assert only.workload == accelerators.workload
    assert only.workload.actor[0, 2:4].tolist() == [4, 64]


def test_a_quick_study_is_measured_and_drawn(tmp_path, capsys):
    hardware, out = tmp_path / "h.toml", tmp_path / "devices.h5"
    fpga = ", ".join(f"{name} = {value}" for name, value in FPGA.items())
    hardware.write_text(HARDWARE.format(fpga=fpga))
    arguments = ["devices", "--hardware", str(hardware), "--out", str(out), *QUICK.split()]
    assert command(arguments) == 0
    shown = capsys.readouterr().out
    assert "absent is left out" in shown
    assert "dqn, batch 16: " in shown
    study = read_study(out)
    assert study.devices == ("host", "board")
    assert (study.eps > 0).all()
    assert set(study.origin["alone"][0, 0, 0]) == {"measured"}
    assert set(study.origin["shared"][0, 0, 1]) == {"modelled"}
    assert study.n_iterations[0, 0, 0] >= 1
    assert study.attributes["left_out"].startswith("absent")
    assert plot.command(["devices", str(out), "-o", str(tmp_path / "x.png")]) == 0
    with pytest.raises(ConfigError, match="which exists; name another, or use --overwrite"):
        command(arguments)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("", "--out must be the path of a file, got nothing"),
        ("--out x.png", "--out must end in .h5"),
        ("--out nowhere/x.h5", "--out must be in a folder that can be written"),
        ("--out x.h5 --networks ppo", "--networks must be of dqn, ddpg, td3, sac, got 'ppo'"),
        ("--out x.h5 --batch-sizes 32 many", "--batch-sizes must be whole numbers"),
        ("--out x.h5 --batch-sizes 0", "--batch-sizes must be whole numbers"),
        ("--out x.h5 --capacity 1000", "--capacity must be at least"),
        ("--out x.h5 --hardware nowhere.toml", "nowhere.toml"),
    ],
)
def test_the_study_refuses_in_one_line(arguments, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        command(["devices", *arguments.split()])
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def damage(file, how):
    """Spoil a study."""
    if how == "no name":
        del file.attrs["study"]
    elif how == "no times":
        del file["alone/seconds"]
    elif how == "shape":
        del file["assignments/eps"]
        file["assignments/eps"] = np.ones(3)
    elif how == "origin":
        file["alone/origin"][0, 0, 0, 0] = "guessed"
    elif how == "sign":
        file["assignments/eps"][0, 0, 0, 0] = -1.0
    elif how == "choice":
        file["assignments/choice"][0, 0, 0] = 9


@pytest.mark.parametrize("how", ["no name", "no times", "shape", "origin", "sign", "choice"])
def test_a_spoilt_study_is_refused_in_one_line(tmp_path, how):
    path = tmp_path / "devices.h5"
    write_study(path, make_study())
    with h5py.File(path, "a") as file:
        damage(file, how)
    with pytest.raises(ResultError, match=r"devices\.h5: ") as caught:
        plot.command(["devices", str(path), "-o", str(tmp_path / "x.png")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "x.png").exists()


def test_what_is_no_study_ends_with_two(tmp_path):
    (tmp_path / "text.h5").write_text("no HDF5")
    for name in ("text.h5", "none.h5"):
        done = module("flowrl.plot", "devices", str(tmp_path / name), "-o", "x.png")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"flowrl.plot: error: {tmp_path / name}: ")
        assert done.stderr.count("\n") == 1
    with pytest.raises(ConfigError, match=r"--out must end in \.png"):
        plot.command(["devices", "x.h5", "-o", "x.gif"])
