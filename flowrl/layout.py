"""Lay out a results file: what stands where, with unit and description."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowrl.config.names import suggestion
from flowrl.quantities import (
    COMMITTED,
    CONTROLS,
    EVALUATION,
    FORMAT,
    FORMAT_VERSION,
    POLICY,
    SLOT_NOTE,
    TABLE_NAMES,
    Columns,
    Quantity,
    Tables,
    known_quantity,
    tables_of,
)

ROWS_PER_CHUNK = {"iterations": 512, "seconds": 512, "episodes": 2048}

PolicyEntries = Mapping[str, NDArray[Any] | str]  # a text is stored as an attribute


def lay_out(file: Any, header: Mapping[str, Any], policy: PolicyEntries) -> None:
    """Write the attributes and the empty datasets."""
    texts = {name: value for name, value in header.items() if name != "parameters"}
    attributes = texts | {
        "versions": json.dumps(dict(header["versions"])),
        "environment_parameters": _parameters_text(header["parameters"]),
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "status": "running",
        "process": os.getpid(),
        "start_time": _now(),
        "end_time": "",
    }
    for name, value in attributes.items():
        file.attrs[name] = value
    quantities = tables_of(header["algo"])
    tables = [_lay_out_table(file.create_group(name), name, quantities) for name in TABLE_NAMES]
    file.flush()
    committed = file.create_dataset(COMMITTED.name, data=np.zeros(len(TABLE_NAMES), np.int64))
    _describe(committed, COMMITTED)
    # Behind the tables' chunks, so that the space they give back next stays inside the file.
    _lay_out_policy(file.create_group("policy"), policy)
    file.flush()
    # The first chunks exist now, on the disk too. Emptied, they are what the first updates fill:
    # until then no update makes the file grow, which is when a kill or a full disk could hurt it.
    for datasets in tables:
        for dataset in datasets:
            dataset.resize((0,))


def _parameters_text(parameters: Mapping[str, object]) -> str:
    """Return parameters as JSON: numbers, truth values, texts and lists of them; others as text."""
    return json.dumps({str(name): _plain(value) for name, value in parameters.items()})


def _plain(value: object) -> object:
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain_item(item) for item in value]
    return _plain_item(value)


def _plain_item(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def _lay_out_table(group: Any, table: str, tables: Tables) -> list[Any]:
    n_rows = ROWS_PER_CHUNK[table]
    datasets = []
    for quantity in tables[table]:
        empty = np.zeros(n_rows, quantity.dtype)
        dataset = group.create_dataset(
            quantity.name, data=empty, maxshape=(None,), chunks=(n_rows,)
        )
        _describe(dataset, quantity)
        datasets.append(dataset)
    return datasets


def _lay_out_policy(group: Any, policy: PolicyEntries) -> None:
    known = {quantity.name: quantity for quantity in POLICY}
    for name, values in policy.items():
        quantity = known_quantity("policy", name, known) if not isinstance(values, str) else None
        if quantity is None:
            group.attrs[name] = values
            continue
        array = np.asarray(values, quantity.dtype)
        data = np.stack([array, array]) if quantity.changes else array
        _describe(group.create_dataset(name, data=data), quantity)
    # The first slot is valid from the start: a run killed in its first update has a policy.
    _describe(group.create_dataset("updates", data=np.array([0, -1])), known["updates"])


def changing_datasets(group: Any) -> dict[str, Any]:
    """Return the policy datasets that training changes."""
    return {item.name: group[item.name] for item in POLICY if item.changes and item.name in group}


def mark_end(file: Any, status: str) -> None:
    """Write how and when a run ended."""
    file.attrs["status"] = status
    file.attrs["end_time"] = _now()
    file.flush()


def cut_back(file: Any, n_rows: Mapping[str, int], policy: Columns, update: int) -> None:
    """Drop the rows beyond n_rows, a policy of later updates, and an evaluation."""
    # First what says how much is whole: a kill in between leaves a file of fewer rows.
    file[COMMITTED.name][...] = [n_rows[table] for table in TABLE_NAMES]
    file.flush()
    for table in TABLE_NAMES:
        for dataset in file[table].values():
            dataset.resize((n_rows[table],))
    for name, values in policy.items():
        file["policy"][name][0] = values
    file["policy/updates"][...] = [update, -1]
    if "evaluation" in file:
        del file["evaluation"]


def mark_resumed(file: Any, header: Mapping[str, Any], update: int) -> None:
    """Write who goes on with a run, from where, and by which options."""
    changed = {name: header[name] for name in ("config", "n_ranks", "host")}
    attributes = changed | {
        "status": "running",
        "process": os.getpid(),
        "end_time": "",
        "n_resumes": int(file.attrs.get("n_resumes", 0)) + 1,
        "resumed_after_update": update,
        "resume_command": header["command"],
    }
    for name, value in attributes.items():
        file.attrs[name] = value


def write_evaluation(
    file: Any, returns: Columns, gain: float | None, notes: Mapping[str, float | str]
) -> None:
    """Write the held-out returns of each kind of control, in place of earlier ones."""
    for control in returns:
        if control not in CONTROLS:
            raise ValueError(
                f"evaluation.{control} must be one of {', '.join(CONTROLS)}"
                f"{suggestion(control, CONTROLS)}"
            )
    if "evaluation" in file:
        del file["evaluation"]
    group = file.create_group("evaluation")
    for name, note in notes.items():
        group.attrs[name] = note
    if gain is not None:
        group.attrs["gain"] = gain
    for control, values in returns.items():
        values = np.asarray(values, np.float64)
        member = group.create_group(control)
        member.attrs.update({"mean": values.mean(), "std": values.std(), "n": len(values)})
        _describe(member.create_dataset("returns", data=values), EVALUATION[0])


def _describe(dataset: Any, quantity: Quantity) -> None:
    dataset.attrs["unit"] = quantity.unit
    note = SLOT_NOTE if quantity.changes and quantity.name != "updates" else ""
    dataset.attrs["description"] = quantity.description + note


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
