"""Cost files: read, refused in one line, written and read again."""

from math import inf

import pytest

from flowrl.composer.cost_file import costs_toml, load_costs
from flowrl.composer.costs import PRIMITIVES, DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.config import ConfigError
from tests.flowrl.composer.machines import device_costs, machine

SPEC = machine(("cpu", "cpu", {}), ("gpu 0", "cuda", {}), links=[("cpu", "gpu 0", 0, 1e9)])
CPU = "[costs.cpu]\nsample = 1e-6\nupdate = 2e-6\ninsert = 3e-6\ntrain = 4e-6\n"
SHARED = CPU.replace("cpu", "cpu.shared").replace("4e-6", "inf")
TEXT = CPU + SHARED + (CPU + SHARED).replace("cpu", '"gpu 0"')


def written(tmp_path, text):
    path = tmp_path / "costs.toml"
    path.write_text(text)
    return path


def test_costs_are_read_in_the_order_of_the_hardware(tmp_path):
    text = (CPU + SHARED).replace("cpu", '"gpu 0"') + CPU + SHARED
    costs = load_costs(written(tmp_path, text), SPEC)
    assert list(costs) == ["cpu", "gpu 0"]
    expected = device_costs((1e-6, 2e-6, 3e-6, 4e-6), (1e-6, 2e-6, 3e-6, inf))
    assert costs == {"cpu": expected, "gpu 0": expected}


def test_what_is_written_is_a_cost_file(tmp_path):
    numbers = [Seconds(1.25e-7 * (i + 1), Origin.MEASURED, 1e-9 * i) for i in range(4)]
    never = [Seconds(inf, Origin.MODELLED)] * 4
    costs = dict.fromkeys(SPEC.names, DeviceCosts(PrimitiveCosts(*numbers), PrimitiveCosts(*never)))
    text = costs_toml(costs)
    assert "sample = 1.25e-07 # measured\n" in text
    assert "update = 2.5e-07 # measured, interquartile range 1e-09\n" in text
    assert "train = inf # modelled\n" in text
    again = load_costs(written(tmp_path, text), SPEC)
    for name in SPEC.names:
        for share in ("alone", "shared"):
            old, new = getattr(costs[name], share), getattr(again[name], share)
            for primitive in PRIMITIVES:
                assert getattr(new, primitive) == Seconds(
                    getattr(old, primitive).value, Origin.GIVEN
                )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "costs.cpu must hold the seconds of sample, update, insert, train, got nothing"),
        ("costs = 3", "costs must be a table, got 3"),
        ("[costs]\ncpu = 3", "costs.cpu must be a table, got 3"),
        ("x = 1\n" + TEXT, "must have only costs, got 'x'"),
        (TEXT + CPU.replace("cpu", "fpga"), "costs must have only cpu, gpu 0, got 'fpga'"),
        (CPU + SHARED, r'costs.gpu 0 must hold .* add \[costs."gpu 0"\], or remove'),
        (TEXT.replace(SHARED, "", 1), r"costs.cpu.shared must hold .* add \[costs.cpu.shared\]"),
        (CPU + "shared = 3", "costs.cpu.shared must be a table, got 3"),
        (TEXT.replace("update = 2e-6\n", "", 1), "costs.cpu.update must be .* got nothing"),
        (TEXT.replace("2e-6", "-2e-6", 1), "costs.cpu.update must be .* or inf, got -2e-06"),
        (TEXT.replace("2e-6", "nan", 1), "costs.cpu.update must be .* got nan"),
        (TEXT.replace("2e-6", "5e-324", 1), "costs.cpu.update must be .* got 5e-324"),
        (TEXT.replace("2e-6", "1e308", 1), "costs.cpu.update must be .* got 1e.308"),
        (TEXT.replace("2e-6", "-inf", 1), "costs.cpu.update must be .* got -inf"),
        (TEXT.replace("2e-6", "true", 1), "costs.cpu.update must be .* got True"),
        (TEXT.replace("2e-6", '"1"', 1), "costs.cpu.update must be .* got '1'; write inf where"),
        (TEXT.replace("inf", "[]", 1), r"costs.cpu.shared.train must be .* got \[\]"),
        (TEXT.replace("update", "updat", 1), "got 'updat'; did you mean update"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as raised:
        load_costs(path, SPEC)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)
