"""Where the primitives of off-policy training run, as `--placement` says it."""

from __future__ import annotations

from typing import NamedTuple

from flowrl.config.names import ConfigError, suggestion

AUTO = "auto"
_FIELDS = ("replay", "learner", "storage")


class Places(NamedTuple):
    """Names of devices."""

    replay: str  # of the replay manager: its sum tree
    learner: str
    storage: str  # of the rows

    def __str__(self) -> str:
        """Return what `read_placement` reads."""
        return ",".join(f"{name}={device}" for name, device in zip(_FIELDS, self, strict=True))


def read_placement(text: str) -> Places | None:
    """Read "DEVICE" or "replay=DEVICE,learner=DEVICE,storage=DEVICE"; None for "auto".

    Raises ConfigError. What is not named stays on the processor.
    """
    if text == AUTO:
        return None
    if "=" not in text:
        return Places(*[_device(text, text)] * 3)
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, device = (piece.strip() for piece in part.partition("="))
        if name not in _FIELDS:
            raise ConfigError(
                f"--placement must name {', '.join(_FIELDS)}, got {name!r}"
                f"{suggestion(name, list(_FIELDS))}"
            )
        if name in found:
            raise ConfigError(f"--placement must name {name} once, got {text!r}; drop one")
        found[name] = _device(device, text)
    return Places(*(found.get(name, "cpu") for name in _FIELDS))


def _device(name: str, text: str) -> str:
    if not name or set(name) & set("=, \t"):
        raise ConfigError(
            "--placement must be auto, DEVICE or replay=DEVICE,learner=DEVICE,storage=DEVICE, "
            f"got {text!r}"
        )
    return name
