"""Describe what one field of a configuration accepts: rule, range, conversion and help."""

from __future__ import annotations

import copy
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from flowrl.config.names import ConfigError, shown, suggestion


@dataclass(frozen=True)
class Option:
    """What a field means and accepts; the subclasses say which values."""

    doc: str
    metavar: str = "TEXT"
    positional: bool = False
    aliases: tuple[str, ...] = ()  # short options

    @property
    def rule(self) -> str:
        """Return what a value must be, to follow the words "must be"."""
        return "text"

    @property
    def range_help(self) -> str:
        """Return the range as the help shows it, or nothing."""
        return ""

    def parse(self, text: str) -> object:
        """Return the value that a word of the command line stands for, unchecked."""
        return text

    def convert(self, value: object) -> object:
        """Return the value in the field's own type, or raise ValueError for a value it refuses."""
        if not isinstance(value, str) or not _is_plain(value):
            raise ValueError
        return value

    def way_out(self, value: object, default: object) -> str:
        """Return what to do instead, to follow a value that was refused."""
        del value
        return "" if default in (None, ()) else f"; the default is {self.shown(default)}"

    def shown(self, value: object) -> str:
        """Return a value as the help shows it."""
        return str(value)


@dataclass(frozen=True)
class Whole(Option):
    """A whole number between two bounds."""

    low: int = 0
    high: int = 2**53

    @property
    def rule(self) -> str:
        """Return the bounds."""
        return f"a whole number {self.range_help}"

    @property
    def range_help(self) -> str:
        """Return the bounds, short."""
        return f"{self.low} to {_short(self.high)}"

    def parse(self, text: str) -> object:
        """Return the number, or the text itself where it is none."""
        try:
            return int(text)
        except ValueError:
            return text

    def convert(self, value: object) -> object:
        """Return a checked int; a truth value or a float is not one."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError
        number = int(cast(Any, value))
        if not self.low <= number <= self.high:
            raise ValueError
        return number


@dataclass(frozen=True)
class Real(Option):
    """A finite number between two bounds, either of which may be excluded."""

    low: float = 0.0
    high: float = math.inf
    above: bool = False  # low itself is excluded
    below: bool = False  # high itself is excluded

    @property
    def rule(self) -> str:
        """Return the bounds."""
        return f"a number {self.range_help}"

    @property
    def range_help(self) -> str:
        """Return the bounds, short."""
        low = f"above {_short(self.low)}" if self.above else _short(self.low)
        if math.isinf(self.high):
            return low if self.above else f"at least {low}"
        if not self.above and not self.below:
            return f"{low} to {_short(self.high)}"
        low = low if self.above else f"at least {low}"
        return f"{low} and {'below' if self.below else 'at most'} {_short(self.high)}"

    def parse(self, text: str) -> object:
        """Return the number, or the text itself where it is none."""
        try:
            return float(text)
        except ValueError:
            return text

    def convert(self, value: object) -> object:
        """Return a checked float; NaN and infinity are refused."""
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise ValueError
        try:
            number = float(cast(Any, value))
        except OverflowError:
            raise ValueError from None
        low = number > self.low if self.above else number >= self.low
        high = number < self.high if self.below else number <= self.high
        if not (math.isfinite(number) and low and high):
            raise ValueError
        return number


@dataclass(frozen=True)
class Choice(Option):
    """One of several words."""

    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """Return the words."""
        return f"one of {', '.join(self.choices)}"

    def convert(self, value: object) -> object:
        """Return the word."""
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError
        return value

    def way_out(self, value: object, default: object) -> str:
        """Return the nearest word."""
        if isinstance(value, str) and (close := suggestion(value, self.choices)):
            return close
        return super().way_out(value, default)


@dataclass(frozen=True)
class Switch(Option):
    """True or false; on the command line a flag and its `no-` twin."""

    @property
    def rule(self) -> str:
        """Return the two values."""
        return "true or false"

    def convert(self, value: object) -> object:
        """Return the truth value; numbers and words are none."""
        if not isinstance(value, bool):
            raise ValueError
        return value

    def shown(self, value: object) -> str:
        """Return the value as the files write it."""
        return str(value).lower()


@dataclass(frozen=True)
class Text(Option):
    """A text that is not empty."""

    @property
    def rule(self) -> str:
        """Return what is asked of the text."""
        return "a text that is not empty and has no control characters"


@dataclass(frozen=True)
class File(Option):
    """The path of a file; None where the field may be left open."""

    optional: bool = True

    @property
    def rule(self) -> str:
        """Return what is asked of the path."""
        return "the path of a file"

    def convert(self, value: object) -> object:
        """Return a Path."""
        if value is None and self.optional:
            return None
        if not isinstance(value, (str, Path)) or not _is_plain(str(value)) or value == Path():
            raise ValueError
        return Path(value)


@dataclass(frozen=True)
class Files(Option):
    """The paths of one file or more."""

    @property
    def rule(self) -> str:
        """Return what is asked of the paths."""
        return "the path of one file or more"

    def convert(self, value: object) -> object:
        """Return a tuple of Paths."""
        paths = value if isinstance(value, (list, tuple)) else ()
        if not paths or not all(
            isinstance(path, (str, Path)) and _is_plain(str(path)) for path in paths
        ):
            raise ValueError
        return tuple(Path(path) for path in paths)


@dataclass(frozen=True)
class Words(Option):
    """Any number of texts."""

    def convert(self, value: object) -> object:
        """Return a tuple of texts."""
        words = value if isinstance(value, (list, tuple)) else None
        if words is None or not all(isinstance(word, str) and _is_plain(word) for word in words):
            raise ValueError
        return tuple(words)


@dataclass(frozen=True)
class Pairs(Option):
    """Names with values: KEY=VALUE words on the command line, a table in TOML."""

    @property
    def rule(self) -> str:
        """Return what is asked of the pairs."""
        return "KEY=VALUE pairs of Python names with texts, numbers, truth values or lists of them"

    def convert(self, value: object) -> object:
        """Return a copy of the checked pairs."""
        if not isinstance(value, dict):
            raise ValueError
        for key, item in value.items():
            if not isinstance(key, str) or not key.isidentifier() or not _is_pair_value(item):
                raise ValueError
        return copy.deepcopy(value)

    def way_out(self, value: object, default: object) -> str:
        """Return an example."""
        del value, default
        return "; write for instance n_jets=5 preset=beacon"


def parse_pair(name: str, text: str) -> tuple[str, object]:
    """Return the key and value of KEY=VALUE, the value read as TOML and a bare word as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ConfigError(
            f"{name} must be given as KEY=VALUE with a Python name as KEY, got {shown(text)}"
            "; write for instance n_jets=5"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        if value[:1] in ('"', "'", "[", "{"):
            raise ConfigError(
                f"{name} {key} must be a TOML value, got {shown(value)}"
                '; write for instance 5, true, [1, 2] or "text"'
            ) from None
        return key, value
    # More than one key: the text smuggled in a second line. Not a pair value: a date, say.
    return key, parsed["value"] if len(parsed) == 1 and _is_pair_value(parsed["value"]) else value


def _is_pair_value(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_pair_value(item) for item in value)
    if isinstance(value, float):
        return not math.isnan(value)  # NaN is equal to nothing, itself included
    if isinstance(value, str):
        return value == "" or _is_plain(value)
    return isinstance(value, (bool, int)) and abs(value) < 2**63


def _is_plain(text: str) -> bool:
    """Tell whether a text can be stored in TOML, HDF5 and file names, and shown in one line."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return bool(text) and not re.search(r"[\x00-\x1f\x7f\u0085\u2028\u2029]", text)


def _short(number: float) -> str:
    """Return a bound the way people write it."""
    if number != int(number):
        return f"{number:g}"
    number = int(number)
    digits = str(number)
    if number == 2 ** number.bit_length() - 1 and number > 10**6:
        return f"2^{number.bit_length()} - 1"
    if len(digits) > 5 and digits.strip("0") == "1":
        return f"1e{len(digits) - 1}"
    return digits
