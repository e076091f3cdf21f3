"""Times that can be read, whatever their size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from flowrl.composer.costs import DeviceCosts, Origin, PrimitiveCosts, Seconds
from flowrl.composer.placement import compose
from flowrl.composer.report import as_json, as_tables, readable_time
from tests.flowrl.composer.machines import device_costs, machine, primitives, workload

SPEC = machine(("cpu", "cpu", {}))


@pytest.mark.parametrize(
    ("seconds", "spread", "text"),
    [
        (169.4e-6, 1.7e-3, "169 ± 1700 us"),
        (1.694e-6, 0.0, "1.69 us"),
        (12.345e-6, 0.7e-6, "12.3 ± 0.700 us"),
        (0.0123456, 0.0005, "12.3 ± 0.500 ms"),
        (2.5, 0.25, "2.50 ± 0.250 s"),
        (0.0, 0.0, "0 us"),
        (4e-11, 0.0, "0 us"),
        (999.4e-6, 0.0, "999 us"),
        (999.6e-6, 0.0, "1.00 ms"),
        (12345.6, 0.0, "12300 s"),
    ],
)
def test_three_digits_in_the_unit_that_suits(seconds, spread, text):
    assert readable_time(seconds, spread) == text


def shown(costs):
    console = Console(width=150)
    with console.capture() as capture:
        console.print(as_tables(compose(SPEC, workload(), costs), costs))
    return capture.get()


def measured(n):
    return PrimitiveCosts(*(Seconds(2e-3, Origin.MEASURED, 3e-4, n),) * 4)


def test_the_matrix_says_in_how_many_iterations_was_measured():
    costs = {"cpu": DeviceCosts(measured(1000), measured(50))}
    text = shown(costs)
    assert "2.00 ± 0.300 ms m" in text
    assert "50 to 1000 iterations" in text
    assert "of 50 iterations" in shown({"cpu": DeviceCosts(measured(50), measured(50))})
    cell = as_json(compose(SPEC, workload(), costs), costs)["matrix"]["cpu"]["shared"]["train"]
    assert cell == {"seconds": 2e-3, "origin": "measured", "spread_s": 3e-4, "iterations": 50}


def test_given_costs_are_not_said_to_be_measured():
    text = shown({"cpu": device_costs((1e-6, 1e-6, 1e-6, 2.0))})
    assert "2.00 s g" in text
    assert "iterations" not in text


def test_an_iteration_in_turn_is_the_sum_of_all():
    alone = primitives(1.0, 2.0, 4.0, 8.0)
    costs = {"cpu": DeviceCosts(alone, alone)}
    assert [
        compose(SPEC, workload(), costs, mode=mode).t_itr_s
        for mode in ("strict", "relaxed", "pipelined")
    ] == [11.0, 9.0, 8.0]
    in_turn = {"cpu": replace(costs["cpu"], in_turn=True)}
    assert compose(SPEC, workload(), in_turn, mode="pipelined").t_itr_s == 15.0
