"""Run one of the speed measurements: `python -m flowrl.bench NAME [options]`."""

from __future__ import annotations

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import importlib
import sys
from collections.abc import Sequence

from flowrl.config import ConfigError, run_command

PROGRAM = "flowrl.bench"
BENCHES = {
    "composer": "flowrl.bench.composer",
    "devices": "flowrl.bench.devices",
    "film": "flowrl.bench.film",
    "learner": "flowrl.bench.learner",
    "learning": "flowrl.bench.peer_learning",
    "offpolicy": "flowrl.bench.training",
    "replay": "flowrl.bench.replay",
}


def command(arguments: Sequence[str]) -> int:
    """Run the measurement that the first word names; return its exit code."""
    name = arguments[0] if arguments else "nothing"
    if name in ("-h", "--help"):
        sys.stdout.write(_HELP)
        return 0
    if name not in BENCHES:
        raise ConfigError(f"the first word must be one of {', '.join(BENCHES)}, got {name}")
    code: int = importlib.import_module(BENCHES[name]).command(arguments[1:])
    return code


_HELP = f"""usage: {PROGRAM} NAME [options]

Measure how fast one part is, on this machine.

names:
  composer   iterations on every device, as the composer predicts them and as they are
  devices    replay managers and learners on all devices, over batch sizes; for flowrl.plot devices
  film       the film on one core
  learner    gradient steps of every algorithm, native beside torch and other libraries
  learning   scores of Stable-Baselines3 trained with a configuration of ours, as JSON
  offpolicy  whole trainings of SAC or TD3, beside other libraries
  replay     the sum tree of prioritized replay on one core, beside other libraries

{PROGRAM} NAME --help lists the options of one.
"""


if __name__ == "__main__":
    sys.exit(run_command(command, PROGRAM))
