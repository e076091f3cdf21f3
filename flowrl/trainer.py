"""What every training loop offers to the command line, to the results file and to the screen."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np

from flowrl.agents.interface import Agent
from flowrl.envs.interface import Interface
from flowrl.networks import Weights
from flowrl.plan import PlanRows
from flowrl.policies import PolicyArrays
from flowrl.trajectory import Float64Array


class TrainingError(RuntimeError):
    """Training cannot go on, and why."""


class Report(Protocol):
    """What happened since the last report."""

    @property
    def transitions(self) -> int:
        """Count the transitions since the start of the run."""

    @property
    def update(self) -> int:
        """Count the updates since the start of the run."""

    @property
    def episodes(self) -> Float64Array:
        """Return the episodes that ended, by `flowrl.collector.EPISODE_COLUMNS`: (n, 4)."""

    def iteration(self) -> dict[str, float]:
        """Return the row of the iterations table, but for the score."""

    def seconds(self) -> dict[str, float]:
        """Return the row of the seconds table, but for the whole."""


class Trainer(Protocol):
    """One rank's part of a run."""

    @property
    def interface(self) -> Interface:
        """Return the interface of the environments."""

    @property
    def agent(self) -> Agent:
        """Return the networks."""

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that acts; `publish_policy` makes it the newest one."""

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""

    def plan(self) -> PlanRows:
        """Say how the work is spread, line by line."""

    def warm_up(self) -> None:
        """Compile all that the loop calls, or load it, without a side effect."""

    def updates(self) -> Iterator[Report | None]:
        """Train to the end; yield reports on root and None elsewhere."""

    def publish_policy(self) -> None:
        """Copy the learner's actor and the observations' normalisation into the policy."""

    def parameters(self) -> Weights:
        """Return the actor's weights, then the critics'."""

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which observations are scaled."""

    def close(self) -> None:
        """Close the environments and end what runs beside."""


def mean(values: Collection[float]) -> float:
    """Return the mean, NaN where there is nothing."""
    return float(np.mean(list(values))) if len(values) else float("nan")
