"""The PEARL composer: measure or model each primitive, place it, generate the program.

Meng, Kinsner, Singh, Iyer, Prasanna, "A Software-Hardware Co-Optimized Toolkit for Deep
Reinforcement Learning on Heterogeneous Platforms" (CF 2024, arXiv 2311.09445).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowrl.composer.composer import Composer, CompositionResult
    from flowrl.composer.hardware import HardwareSpec

__all__ = ["Composer", "CompositionResult", "HardwareSpec"]

_MODULES = {
    "Composer": "flowrl.composer.composer",
    "CompositionResult": "flowrl.composer.composer",
    "HardwareSpec": "flowrl.composer.hardware",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: modules of this package need no more than they name."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
