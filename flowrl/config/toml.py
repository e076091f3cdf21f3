"""Read and write configurations as TOML, refusing what is not known."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from flowrl.config.kinds import Pairs
from flowrl.config.names import ConfigError, shown, suggestion
from flowrl.config.options import options_of, sections_of
from flowrl.config.run import RunConfig

ConfigT = TypeVar("ConfigT")

_MAX_BYTES = 1_000_000  # a configuration file larger than this is something else


def to_mapping(config: Any) -> dict[str, Any]:
    """Return a configuration as nested dicts of TOML values; what is None is left out."""
    values: dict[str, Any] = {}
    for item, _ in options_of(config):
        value = getattr(config, item.name)
        if value is not None:
            values[item.name] = str(value) if isinstance(value, Path) else value
    for item, _ in sections_of(config):
        values[item.name] = to_mapping(getattr(config, item.name))
    return values


def from_mapping(cls: type[ConfigT], values: Mapping[str, Any], prefix: str = "") -> ConfigT:
    """Return the configuration that nested dicts describe, refusing unknown names."""
    sections = {item.name: section for item, section in sections_of(cls)}
    tables = {item.name for item, option in options_of(cls) if isinstance(option, Pairs)}
    known = [item.name for item in dataclasses.fields(cast(Any, cls))]
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(_unknown(name, known, prefix))
        if name in sections or name in tables:
            _require_table(prefix + name, value)
        if name in sections:
            value = from_mapping(sections[name], value, f"{prefix}{name}.")
        arguments[name] = value
    return cls(**arguments)


def _unknown(name: str, known: list[str], prefix: str) -> str:
    # A key of a section written at the top level, or in another section, is the likeliest slip.
    elsewhere = [
        f"{item.name}.{inner.name}"
        for item, section in sections_of(RunConfig)
        for inner in dataclasses.fields(section)
        if inner.name == name
    ]
    if elsewhere:
        return f"{shown(prefix + name)} is not a setting; did you mean {elsewhere[0]}?"
    known = [prefix + other for other in known]
    close = suggestion(prefix + name, known, f"the settings here are {', '.join(known)}")
    return f"{shown(prefix + name)} is not a setting{close}"


def _require_table(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a table, got {shown(value)}; write it as [{name}]")


def to_toml(config: RunConfig) -> str:
    """Return a configuration as TOML text, from which `from_toml` makes an equal one."""
    import tomli_w

    return tomli_w.dumps(to_mapping(config))


def from_toml(text: str, source: str = "") -> RunConfig:
    """Return the configuration of a TOML text; `source` names it in error messages."""
    where = f"{source}: " if source else ""
    try:
        return from_mapping(RunConfig, tomllib.loads(text))
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{where}not valid TOML: {str(error) or 'nested too deeply'}") from None


def flat_toml(text: str) -> dict[str, Any]:
    """Return the values of any TOML text under their dotted names, whether known or not."""
    try:
        return _flat(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        raise ConfigError("not valid TOML") from None


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        is_table = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name}.") if is_table else {prefix + name: value}
    return flat


def load_toml(path: Path) -> RunConfig:
    """Return the configuration in a TOML file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"--config must be a readable TOML file, got {shown(str(path))}: {error.strerror}"
        ) from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{path}: not a configuration: larger than {_MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid TOML: not UTF-8 text") from None
    return from_toml(text, str(path))
