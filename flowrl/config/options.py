"""Declare the fields of a configuration: each with its meaning, unit, range and default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from flowrl.config.kinds import Choice, File, Files, Option, Pairs, Real, Switch, Text, Whole, Words
from flowrl.config.names import ConfigError, shown

_KEY = "option"  # under which a field's metadata holds its Option


def whole(default: int, doc: str, low: int = 0, high: int = 10**9, metavar: str = "N") -> int:
    """Declare a field holding a whole number."""
    return cast(int, _declare(Whole(doc, metavar, low=low, high=high), default))


def real(
    default: float,
    doc: str,
    low: float = 0.0,
    high: float = math.inf,
    above: bool = False,
    below: bool = False,
) -> float:
    """Declare a field holding a finite number; `above` and `below` exclude the bounds."""
    option = Real(doc, "X", low=low, high=high, above=above, below=below)
    return cast(float, _declare(option, default))


def choice(default: str, doc: str, choices: Sequence[str]) -> str:
    """Declare a field holding one of several words."""
    option = Choice(doc, "{" + ",".join(choices) + "}", choices=tuple(choices))
    return cast(str, _declare(option, default))


def switch(default: bool, doc: str) -> bool:
    """Declare a field that is true or false."""
    return cast(bool, _declare(Switch(doc), default))


def text(default: str, doc: str, metavar: str = "TEXT") -> str:
    """Declare a field holding a text."""
    return cast(str, _declare(Text(doc, metavar), default))


def file(doc: str, metavar: str = "FILE") -> Path | None:
    """Declare a field holding the path of a file, or None."""
    return cast("Path | None", _declare(File(doc, metavar), None))


def required_file(
    doc: str,
    metavar: str = "RUN.h5",
    positional: bool = True,
    aliases: tuple[str, ...] = (),
) -> Path:
    """Declare a field holding the path of a file, which must be given."""
    option = File(doc, metavar, positional=positional, aliases=aliases, optional=False)
    return cast(Path, _declare(option, None))


def required_files(doc: str, metavar: str = "RUN.h5 ...") -> tuple[Path, ...]:
    """Declare a positional field holding the paths of files, of which one must be given."""
    return cast("tuple[Path, ...]", _declare(Files(doc, metavar, positional=True), ()))


def words(doc: str, metavar: str) -> tuple[str, ...]:
    """Declare a field holding any number of texts."""
    return cast("tuple[str, ...]", _declare(Words(doc, metavar), ()))


def pairs(doc: str) -> dict[str, object]:
    """Declare a field holding names with values."""
    option = Pairs(doc, "KEY=VALUE ...")
    return cast("dict[str, object]", field(default_factory=dict, metadata={_KEY: option}))


def _declare(option: Option, default: object) -> object:
    return field(default=default, metadata={_KEY: option})


def options_of(owner: Any) -> Iterator[tuple[dataclasses.Field[Any], Option]]:
    """Yield the fields of a dataclass that hold an option (the others are sections)."""
    for item in dataclasses.fields(owner):
        if _KEY in item.metadata:
            yield item, item.metadata[_KEY]


def sections_of(owner: Any) -> Iterator[tuple[dataclasses.Field[Any], type[Any]]]:
    """Yield the fields of a dataclass that are sections, with the class of each."""
    for item in dataclasses.fields(owner):
        if _KEY not in item.metadata:
            yield item, cast("type[Any]", item.default_factory)


def default_of(item: dataclasses.Field[Any]) -> object:
    """Return a field's default."""
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


def shown_name(prefix: str, field_name: str) -> str:
    """Return an option's dotted name as the command line writes it."""
    return f"--{prefix}{field_name}".replace("_", "-")


def _field_name(prefix: str, item: dataclasses.Field[Any], option: Option) -> str:
    return item.name if option.positional else shown_name(prefix, item.name)


def check_fields(owner: Any, prefix: str = "") -> None:
    """Check every option of a frozen dataclass and put each into its own type."""
    for item, option in options_of(owner):
        value = getattr(owner, item.name)
        try:
            object.__setattr__(owner, item.name, option.convert(value))
        except (ValueError, TypeError):
            got = f"got {'nothing' if value in (None, ()) else shown(value)}"
            raise ConfigError(
                f"{_field_name(prefix, item, option)} must be {option.rule}, {got}"
                f"{option.way_out(value, default_of(item))}"
            ) from None
    for item, section in sections_of(owner):
        if not isinstance(getattr(owner, item.name), section):
            raise ConfigError(
                f"{shown_name(prefix, item.name)} must be a {section.__name__}"
                f", got {shown(getattr(owner, item.name))}"
            )
