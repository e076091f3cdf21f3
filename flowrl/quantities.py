"""Name every quantity that a results file holds, once: unit, description and type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowrl.config.names import suggestion

Row = Mapping[str, float]
Columns = Mapping[str, NDArray[Any]]

RATIO = "-"
TRANSITIONS = "transitions"


@dataclass(frozen=True)
class Quantity:
    """One named array of a results file."""

    name: str
    unit: str
    description: str
    dtype: str = "float64"
    changes: bool = False  # a policy array that training changes: stored in two slots

    @property
    def is_count(self) -> bool:
        """Tell whether a missing value cannot be marked by NaN."""
        return self.dtype != "float64"


def _count(name: str, unit: str, description: str) -> Quantity:
    return Quantity(name, unit, description, "int64")


_PROGRESS = (
    _count("transitions", TRANSITIONS, "transitions made up to and including this row"),
    _count("updates", "updates", "updates made up to and including this row"),
    _count("n_episodes", "episodes", "episodes that ended while collecting for this row"),
    Quantity("score_mean", "return", "mean return of the latest episodes, undiscounted"),
    Quantity("score_std", "return", "standard deviation of the return of the latest episodes"),
)
_BLOW_UPS = _count("blow_ups", "episodes", "episodes ended by a solver that blew up")

ON_POLICY_ITERATIONS = (
    *_PROGRESS,
    Quantity("policy_loss", RATIO, "clipped surrogate loss, mean over all gradient steps"),
    Quantity("value_loss", "return^2", "half the squared error of the value, mean over all steps"),
    Quantity("entropy", "nat", "entropy of the policy, mean over all gradient steps"),
    Quantity("approximate_kl", "nat", "(ratio - 1) - log ratio, mean over the last minibatch"),
    Quantity("clip_fraction", RATIO, "share of rows with a clipped ratio, mean over all steps"),
    Quantity(
        "first_approximate_kl",
        "nat",
        "as approximate_kl, of the first minibatch: 0 where all "
        "its ratios are one, as they are in an on-policy update",
    ),
    Quantity("actor_gradient_norm", RATIO, "norm of the actor's gradient before clipping, mean"),
    Quantity("critic_gradient_norm", RATIO, "norm of the critic's gradient before clipping, mean"),
    Quantity("explained_variance", RATIO, "1 - var(target - value) / var(target); 1 is perfect"),
    Quantity("value_mean", "return", "mean value of the collected observations"),
    _count("skipped_gradients", "steps", "gradient steps skipped because not finite"),
    _BLOW_UPS,
)

OFF_POLICY_ITERATIONS = (
    *_PROGRESS,
    Quantity("critic_loss", "return^2", "loss of the critics, mean over the updates of this row"),
    Quantity("actor_loss", "return", "loss of the actor, mean over its updates of this row"),
    Quantity("mean_value", "return", "value of the learnt actions, mean over the updates"),
    Quantity("td_error", "return", "magnitude of the temporal differences, mean over the updates"),
    Quantity("entropy", "nat", "entropy of the policy, mean over the updates (SAC)"),
    Quantity("temperature", "return/nat", "weight of the entropy at the last update (SAC)"),
    Quantity("actor_gradient_norm", RATIO, "norm of the actor's gradient before clipping, mean"),
    Quantity("critic_gradient_norm", RATIO, "norm of the critics' gradient before clipping, mean"),
    Quantity("exploration", RATIO, "epsilon (DQN) or standard deviation of the noise added"),
    Quantity("weight_exponent", RATIO, "exponent of the importance weights; 0: uniform replay"),
    Quantity("update_ratio", RATIO, "updates for each transition after the first random ones"),
    Quantity("staleness", "updates", "updates that were due and the acting policies lacked, mean"),
    _count("replay_size", "rows", "rows in the replay buffer"),
    _count("dropped_priorities", "rows", "priorities that came after their row was overwritten"),
    _count("skipped_gradients", "steps", "updates skipped because not finite"),
    _BLOW_UPS,
)

_RECORD = Quantity("record", "s", "writing this file after the previous row")
_TOTAL = Quantity("total", "s", "wall time from the end of the previous row to the end of this one")
ON_POLICY_SECONDS = (
    Quantity("collect", "s", "acting and stepping the environments, root rank"),
    Quantity("slowest_collect", "s", "acting and stepping the environments, slowest rank"),
    Quantity("reduce", "s", "all-reduces and waiting for other ranks"),
    Quantity("learn", "s", "gradients and optimiser steps"),
    _RECORD,
    _TOTAL,
)
OFF_POLICY_SECONDS = (
    Quantity("collect", "s", "acting and stepping the environments, or waiting for those who do"),
    Quantity("insert", "s", "storing transitions and their first priorities"),
    Quantity("sample", "s", "drawing the rows of batches"),
    Quantity("learn", "s", "gradients, optimiser steps and targets"),
    Quantity("update", "s", "changing the priorities of learnt rows"),
    _RECORD,
    _TOTAL,
)
# Of the seconds, what every rank reports of itself, and those of all algorithms together.
ON_POLICY_SHARES = ("collect", "reduce", "learn")
OFF_POLICY_SHARES = ("collect", "insert", "sample", "learn", "update")
SHARES = ("collect", "reduce", "insert", "sample", "learn", "update")

EPISODES = (
    Quantity("return", "return", "undiscounted sum of the rewards of the episode"),
    _count("length", "steps", "actions of the episode"),
    _count("env", "index", "global index of the environment"),
    Quantity("terminated", "bool", "true where the episode ended by itself, not by time", "bool"),
    _count("transitions", TRANSITIONS, "transitions of the run when the episode had ended"),
    _count("update", "updates", "update whose transitions hold the episode's end"),
)

POLICY = (
    Quantity(
        "actor_layers",
        "index",
        "dense layers of the actor: source, begin, n_in, n_out, activation, output",
        "int32",
    ),
    Quantity("critic_layers", "index", "dense layers of the critic, as in actor_layers", "int32"),
    Quantity(
        "weights",
        RATIO,
        "weights (n_in, n_out) and biases layer by layer, the actor's, then the critic's",
        "float32",
        changes=True,
    ),
    Quantity("observation_mean", "observation", "running mean of the observations", changes=True),
    Quantity("observation_std", "observation", "their running standard deviation", changes=True),
    Quantity("action_low", "action", "lower bound of the actions", "float32"),
    Quantity("action_high", "action", "upper bound of the actions", "float32"),
    Quantity("updates", "updates", "updates before each slot was written", "int64", changes=True),
)
COMMITTED = _count(
    "committed",
    "rows",
    "rows of iterations, seconds, episodes that are whole, also after a kill",
)
SLOT_NOTE = "; two slots, valid is the one with the larger policy/updates"

EVALUATION = (
    Quantity("returns", "return", "undiscounted sum of the rewards of each held-out episode"),
)

CONTROLS = ("trained", "uncontrolled", "random", "constant")
STATUSES = ("running", "finished", "failed", "interrupted")

FORMAT = "flowrl-run"
FORMAT_VERSION = 1

Tables = Mapping[str, tuple[Quantity, ...]]
ON_POLICY: Tables = {
    "iterations": ON_POLICY_ITERATIONS,
    "seconds": ON_POLICY_SECONDS,
    "episodes": EPISODES,
}
OFF_POLICY: Tables = {
    "iterations": OFF_POLICY_ITERATIONS,
    "seconds": OFF_POLICY_SECONDS,
    "episodes": EPISODES,
}
TABLE_NAMES = tuple(ON_POLICY)


def tables_of(algo: str) -> Tables:
    """Return the tables of an algorithm's runs."""
    return ON_POLICY if algo == "ppo" else OFF_POLICY


def row(tables: Tables, table: str, values: Row) -> Columns:
    """Return one row of a table as columns of length one; what is missing becomes NaN."""
    known = {quantity.name: quantity for quantity in tables[table]}
    for name in values:
        known_quantity(table, name, known)
    filled: dict[str, NDArray[Any]] = {}
    for name, quantity in known.items():
        if quantity.is_count and name not in values:
            raise ValueError(f"{table}.{name} must be given, a count has no mark for missing")
        filled[name] = np.array([values.get(name, np.nan)], quantity.dtype)
    return filled


def columns(tables: Tables, table: str, values: Columns) -> Columns:
    """Return the columns of a table in its types, all present and all of one length."""
    known = {quantity.name: quantity for quantity in tables[table]}
    for name in values:
        known_quantity(table, name, known)
    missing = [name for name in known if name not in values]
    if missing:
        raise ValueError(f"{table}.{missing[0]} must be given")
    typed = {name: np.atleast_1d(np.array(values[name], known[name].dtype)) for name in known}
    lengths = {len(column) for column in typed.values()}
    if len(lengths) != 1:
        raise ValueError(f"{table} must have columns of one length, got {sorted(lengths)}")
    return typed


def known_quantity(table: str, name: str, known: Mapping[str, Quantity]) -> Quantity:
    """Return the quantity of that name, or raise ValueError with the nearest one."""
    if name not in known:
        raise ValueError(f"{table}.{name} is not a known quantity{suggestion(name, known)}")
    return known[name]
