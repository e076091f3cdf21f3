"""Read the tables of TOML files, refusing in one line what is unknown, missing or out of range."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from flowrl.config import ConfigError
from flowrl.config.kinds import Option
from flowrl.config.names import shown, suggestion

_MAX_BYTES = 1_000_000  # a hardware or cost file larger than this is something else


def read_tables(path: Path, option: str) -> dict[str, Any]:
    """Return the values of the TOML file that `option` of the command line names."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{option} must be a readable TOML file, got {shown(str(path))}: {reason}"
        ) from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES} bytes; name another file")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def table(where: str, value: object) -> dict[str, Any]:
    """Return a value that must be a table; `where` names file and field."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table, got {shown(value)}; write [section] headers")
    return value


def check_names(where: str, names: Collection[str], known: Collection[str]) -> None:
    """Raise ConfigError for the first name that is not known."""
    for name in names:
        if name not in known:
            close = suggestion(name, known, "remove it")
            raise ConfigError(
                f"{where} must have only {', '.join(known)}, got {shown(name)}{close}"
            )


def checked(
    where: str, values: Mapping[str, Any], options: Mapping[str, Option], required: Collection[str]
) -> dict[str, Any]:
    """Return the values of one table, each converted by its option.

    `where` begins the message, as in "hardware.toml: devices.gpu0".
    """
    check_names(where, values, options)
    for name in required:
        if name not in values:
            raise ConfigError(
                f"{where}.{name} must be {options[name].rule}, got nothing; add {name} = ..."
            )
    return {name: _converted(f"{where}.{name}", value, options[name]) for name, value in
            values.items()}  # fmt: skip


def _converted(where: str, value: object, option: Option) -> object:
    try:
        return option.convert(value)
    except (ValueError, TypeError):
        raise ConfigError(
            f"{where} must be {option.rule}, got {shown(value)}"
            f"{option.way_out(value, None) or f'; give the {option.doc}'}"
        ) from None
