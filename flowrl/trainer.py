"""What every training loop offers to the command line, to the results file and to the screen."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np

from flowrl.agents.interface import Networks
from flowrl.envs.interface import Interface
from flowrl.networks import Weights
from flowrl.plan import PlanRows
from flowrl.policies import PolicyArrays
from flowrl.state import State, StateError
from flowrl.stopping import Wishes
from flowrl.trajectory import BoolArray, Float64Array


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
    def agent(self) -> Networks:
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

    @property
    def wishes(self) -> Wishes:
        """Return what the ranks agree upon while they train."""

    @property
    def n_reports(self) -> int:
        """Count the reports since the start of the run."""

    @property
    def can_be_saved(self) -> bool:
        """Tell whether `state` holds all, between two reports; all ranks see the same."""

    def state(self) -> State | None:
        """Return on root all that it takes to go on later, None elsewhere; every rank calls it.

        Large arrays are views, which training changes.
        """

    def load_state(self, state: State, life: int) -> list[str]:
        """Go on from what `state` returned on root, {} elsewhere; every rank calls it.

        Environments whose state was not kept begin anew, in this life. Returns, a line each, what
        is not as it was. Raises StateError, on any rank.
        """

    def publish_policy(self) -> None:
        """Copy the learner's actor and the observations' normalisation into the policy."""

    def parameters(self) -> Weights:
        """Return the actor's weights, then the critics'."""

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which observations are scaled."""

    def close(self) -> None:
        """Close the environments and end what runs beside."""


class Unsaved:
    """The part of a trainer whose state no checkpoint keeps: it says why when it is resumed."""

    can_be_saved, n_reports = False, 0
    why_not = ""  # to follow "--resume must be"

    def __init__(self) -> None:
        self.wishes = Wishes()

    def state(self) -> State | None:
        """Return nothing."""
        return None

    def load_state(self, state: State, life: int) -> list[str]:  # noqa: ARG002
        """Refuse."""
        raise StateError(f"--resume must be {self.why_not}")


def mean(values: Collection[float]) -> float:
    """Return the mean, NaN where there is nothing."""
    return float(np.mean(list(values))) if len(values) else float("nan")


def check_progress(transitions: int, n_transitions: int) -> None:
    """Raise StateError where a saved state is beyond the end of the run."""
    if transitions > n_transitions:
        raise StateError(
            f"saved state's transitions must be at most the {n_transitions} of the run, got "
            f"{transitions}: it is damaged"
        )


def restart_notes(begins_anew: BoolArray) -> list[str]:
    """Say which environments of a rank could not be kept."""
    n = np.count_nonzero(begins_anew)
    if not n:
        return []
    which = "all environments" if n == len(begins_anew) else f"{n} of {len(begins_anew)}"
    return [
        f"{which} begin new episodes: they have no get_state and set_state, or a wrapper without"
    ]
