"""Runs made up for the tests: what update i holds can be told from i."""

import dataclasses
import math
import sys
from pathlib import Path
from types import MappingProxyType

import numpy as np

from flowrl.config import RunConfig, to_toml
from flowrl.recorder import Recorder, RunHeader

N_WEIGHTS = 20_000
PARAMETERS = MappingProxyType({
    "delta": np.float64(0.1), "n_jets": 5, "positions": np.array([150.0, 160.0]),
    "limit": math.inf, "start": Path("a.h5"), "noise": None,
})  # fmt: skip


def header(config=None):
    config = (config or RunConfig()).resolved()
    return RunHeader(to_toml(config), "python -m flowrl.train", config.algo, config.env,
                     config.seed, n_ranks=1, parameters=PARAMETERS, git_commit="",
                     versions={"numpy": "2"})  # fmt: skip


def policy(n_weights=N_WEIGHTS):
    return {"kind": "gaussian", "actor_layers": np.zeros((4, 6)), "weights": np.zeros(n_weights),
            "observation_mean": np.zeros(10), "observation_std": np.ones(10)}  # fmt: skip


def create(path, overwrite=False, config=None, n_weights=N_WEIGHTS):
    return Recorder.create(Path(path), header(config), policy(n_weights), overwrite)


def n_episodes(update):
    return 1 + update % 4


def append(recorder, update, score=None, n_weights=N_WEIGHTS):
    n = n_episodes(update)
    episodes = dict.fromkeys(("length", "transitions", "update"), np.full(n, update))
    episodes |= {"return": np.full(n, float(update)), "env": np.arange(n),
                 "terminated": np.arange(n) % 2 == 0}  # fmt: skip
    counts = dict.fromkeys(("skipped_gradients", "blow_ups"), 0)
    row = {"transitions": 100 * update, "updates": update, "n_episodes": n, **counts,
           "score_mean": float(update) if score is None else score, "score_std": 0.1}  # fmt: skip
    recorder.append(row, {"total": 0.5, "collect": 0.25, "learn": 0.125}, episodes,
                    {"weights": np.full(n_weights, update)})  # fmt: skip


def make_run(path, scores, config=None, evaluation=None, status="finished"):
    """Write a whole run whose scores are given."""
    recorder = create(path, config=config, n_weights=100)
    for update, score in enumerate(scores, start=1):
        append(recorder, update, score, n_weights=100)
    if evaluation is not None:
        recorder.record_evaluation(evaluation, 0.5, {"seed": 0.0})
    recorder.finish(status)
    return Path(path)


def config(**changes):
    return dataclasses.replace(RunConfig(), **changes)


if __name__ == "__main__":  # A writer to kill: says after each update that it is complete.
    RECORDER, UPDATE = create(sys.argv[1]), 0
    while True:
        UPDATE += 1
        append(RECORDER, UPDATE)
        sys.stdout.write(f"{UPDATE}\n")
        sys.stdout.flush()
