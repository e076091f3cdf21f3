"""Score a trained policy on held-out starts: `python -m flowrl.evaluate run.h5`."""

from __future__ import annotations

import flowrl.threads  # isort: skip  # noqa: F401  (one thread, before NumPy loads)

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from flowrl.agents.ppo import PpoAgent
from flowrl.config import ConfigError, parse_options, run_command
from flowrl.config.options import check_fields, file, switch, whole
from flowrl.evaluation import Evaluation, Evaluator
from flowrl.policies import PolicyArrays
from flowrl.recorder import RecorderError, record_evaluation
from flowrl.results import Run

PROGRAM = "flowrl.evaluate"


@dataclass(frozen=True)
class EvaluateOptions:
    """Score a trained policy, no control, random and constant actions on held-out starts."""

    run: Path = file(None, "results file of the run", "RUN.h5", positional=True, optional=False)
    n_episodes: int = whole(64, "episodes of each kind of control", 1, 10**6)
    seed: int = whole(0, "seed of the held-out starts; the same for all runs to compare", 0, 2**31)
    write: bool = switch(True, "write the evaluation into the results file")
    json: bool = switch(False, "print one JSON object instead of a table")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)
