"""Say what is wrong with an input in one line, with the nearest name that would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """Report an input that a user can put right: field, rule, value and way out, in one line."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None where nothing is close."""
    candidates = list(known)
    lowered = {candidate.lower(): candidate for candidate in candidates}
    if name.lower() in lowered:
        return lowered[name.lower()]
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return lowered[close[0]] if close else None


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return "; did you mean X?", or the other way out where nothing is close."""
    close = nearest(name, known)
    if close is not None:
        return f"; did you mean {close}?"
    return f"; {otherwise}" if otherwise else ""


def shown(value: object, limit: int = 60) -> str:
    """Return a value as one short printable line for an error message."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # A foreign object whose repr fails, or an integer too long to print.
        text = f"a {type(value).__name__}"
    text = repr(text) if isinstance(value, str) else text
    text = text.encode("ascii", "backslashreplace").decode().replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
