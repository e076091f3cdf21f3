"""Small off-policy runs for the tests of the parallel system, in this process or beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowrl.comm import SerialCommunicator
from flowrl.config import (
    DdpgConfig,
    NetworkConfig,
    OffPolicyConfig,
    ParallelConfig,
    ReplayConfig,
    RunConfig,
    Td3Config,
)
from flowrl.parallel.trainer import make_trainer

COUNTING = "tests.flowrl.counting:make"


def config(env: str = COUNTING, n_transitions: int = 403, **options: Any) -> RunConfig:
    """Return a run of five small environments; options go to whatever section knows them."""
    own = {
        "learning_starts": 60,
        "report_interval": 100,
        "n_envs": 5,
        "batch_size": 16,
        "capacity": 5000,
        **options,
    }
    sections = {
        "off_policy": OffPolicyConfig,
        "replay": ReplayConfig,
        "parallel": ParallelConfig,
        "ddpg": DdpgConfig,
        "td3": Td3Config,
    }
    made = {}
    for name, section in sections.items():
        known = set(section.__dataclass_fields__) & set(own)
        made[name] = section(**{key: own.pop(key) for key in known})
    own = {"algo": "td3", **own}
    network = NetworkConfig(16, 16)
    return RunConfig(env=env, n_transitions=n_transitions, network=network, **made, **own)


@dataclass
class Outcome:
    """What a run left."""

    reports: list[Any]
    parameters: np.ndarray
    rows: dict[str, np.ndarray]  # stored, in order
    episodes: np.ndarray

    @property
    def last(self) -> dict[str, float]:
        """Return the last row of results."""
        return self.reports[-1].iteration()


def run(settings: RunConfig, at_report: Any = None) -> Outcome:
    """Run to the end; `at_report` is called with the trainer at each report."""
    trainer = make_trainer(settings, SerialCommunicator())
    reports = []
    try:
        trainer.warm_up()
        for report in trainer.updates():
            reports.append(report)
            if at_report is not None:
                at_report(trainer)
        storage = trainer.learning.storage
        rows = {name: array[: storage.size].copy() for name, array in vars(storage.rows).items()}
        episodes = np.concatenate([report.episodes for report in reports])
        return Outcome(reports, trainer.parameters().copy(), rows, episodes)
    finally:
        trainer.close()


def assert_same_bits(one: Outcome, other: Outcome) -> None:
    """Compare two runs in everything but the time they took."""
    np.testing.assert_array_equal(one.parameters, other.parameters)
    np.testing.assert_array_equal(one.episodes, other.episodes)
    assert len(one.reports) == len(other.reports)
    for first, second in zip(one.reports, other.reports, strict=True):
        np.testing.assert_equal(first.iteration(), second.iteration())
    for name, array in one.rows.items():
        np.testing.assert_array_equal(array, other.rows[name], err_msg=name)
