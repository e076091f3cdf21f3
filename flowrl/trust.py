"""Ask before what a results file names is imported and called."""

from __future__ import annotations

from collections.abc import Sequence

from flowrl.config import ConfigError
from flowrl.config.names import shown
from flowrl.registry import OWN_ENVIRONMENTS


def require_trust(env: str, given: Sequence[str]) -> None:
    """Raise ConfigError unless a module that a file names with its environment was given, too.

    "os:system" would be called, "pty:X-v0" be imported; a Gymnasium id makes what is registered.
    """
    if ":" in env and env not in OWN_ENVIRONMENTS and env not in given:
        raise ConfigError(
            f"--env {shown(env)} must be given, as the run's file names code to be run; give it if "
            "you trust the file"
        )
