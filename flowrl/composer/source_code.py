"""Write values as Python source: whatever a user gave is quoted, so it can't become code."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flowrl.config import ConfigError
from flowrl.config.names import shown

_INDENT = 4
_LINE = 88


def literal(value: object) -> str:
    """Return the source of a plain value; raise ConfigError for one that has none.

    Plain are None, bool, int, finite float, str, Path, and lists, tuples and dicts of those.
    """
    if value is None or type(value) in (bool, int, str):
        return _text(value) if isinstance(value, str) else repr(value)
    if type(value) is float and value - value == 0.0:
        return repr(value)
    if isinstance(value, Path):
        return f"Path({_text(str(value))})"
    if isinstance(value, Mapping):
        items = [f"{literal(key)}: {literal(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        items = [literal(item) for item in value]
        end = "," if isinstance(value, tuple) and len(items) == 1 else ""
        pair = "()" if isinstance(value, tuple) else "[]"
        return pair[0] + ", ".join(items) + end + pair[1]
    raise ConfigError(
        f"a program can hold numbers, words, lists and dicts only, got {shown(value)}; give one of "
        "those, or make it inside a function of yours"
    )


def _text(value: str) -> str:
    """Return a quoted string, in plain ASCII, with double quotes where there are none in it."""
    quoted = ascii(value)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def call(name: str, arguments: Mapping[str, str], indent: int = 0) -> str:
    """Return a call with keyword arguments whose values are source; over lines if it is long."""
    pieces = [f"{key}={value}" for key, value in arguments.items()]
    line = f"{name}({', '.join(pieces)})"
    if "\n" not in line and indent + len(line) <= _LINE:
        return line
    margin = " " * (indent + _INDENT)
    return f"{name}(\n" + "".join(f"{margin}{piece},\n" for piece in pieces) + " " * indent + ")"


def dataclass_source(value: Any, indent: int = 0) -> str:
    """Return the call that makes a dataclass, without the fields that have their defaults."""
    arguments: dict[str, str] = {}
    for item in changed_fields(value):
        given = getattr(value, item.name)
        is_section = dataclasses.is_dataclass(given)
        inner = indent + _INDENT
        arguments[item.name] = dataclass_source(given, inner) if is_section else literal(given)
    return call(type(value).__name__, arguments, indent)


def dataclass_names(value: Any) -> set[str]:
    """Return the names of the classes that `dataclass_source` calls."""
    names = {type(value).__name__}
    for item in changed_fields(value):
        given = getattr(value, item.name)
        if dataclasses.is_dataclass(given):
            names |= dataclass_names(given)
    return names


def changed_fields(value: Any) -> Iterator[dataclasses.Field[Any]]:
    """Yield the fields that differ from those of a dataclass made without arguments."""
    for item in dataclasses.fields(value):
        factory = item.default_factory
        default = item.default if factory is dataclasses.MISSING else factory()
        if getattr(value, item.name) != default:
            yield item


def plain(text: str) -> str:
    """Return a user's text for a comment: whatever could end one is left out."""
    return re.sub(r"[^A-Za-z0-9_.:/+-]", "_", text)[:80]
