"""Root's side of a run: its results file and its screen. The other ranks have none."""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from flowrl.collector import EPISODE_COLUMNS
from flowrl.comm import Communicator
from flowrl.config import ConfigError, RunConfig, to_toml
from flowrl.evaluation import Evaluator
from flowrl.progress import Progress, make_progress
from flowrl.recorder import Recorder, RecorderError, RunHeader
from flowrl.trainer import Report, Trainer, mean

# Episodes over which the score of the moment is taken, where fewer environments run.
_LEAST_LATEST = 8


class Session:
    """Writes each update to the results file and shows it."""

    def __init__(
        self, config: RunConfig, trainer: Trainer, recorder: Recorder, progress: Progress
    ) -> None:
        self._config, self._trainer = config, trainer
        self._recorder, self._progress = recorder, progress
        self._latest: deque[float] = deque(maxlen=max(_LEAST_LATEST, config.n_envs))
        self._last = time.perf_counter()
        self._complained = False

    def __enter__(self) -> Self:
        """Start the clock and the display."""
        self._last = time.perf_counter()
        self._progress.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Evaluate a run that came to its end, and close the file."""
        self._progress.__exit__(kind, error, trace)
        try:
            if kind is None and self._config.evaluation.at_end:
                self._evaluate()
        finally:
            self._recorder.__exit__(kind, error, trace)

    def add(self, report: Report) -> None:
        """Write and show one update; a file that cannot be written does not end the training."""
        self._latest.extend(report.episodes[:, EPISODE_COLUMNS.index("return")])
        iteration = _iteration(report, self._latest)
        seconds = self._seconds(report)
        is_last = report.transitions == self._config.n_transitions
        due = is_last or report.update % self._config.record.policy_interval == 0
        policy = policy_columns(self._trainer) if due else None
        try:
            self._recorder.append(iteration, seconds, _episodes(report), policy)
        except RecorderError as error:
            self._complain(error)
        self._progress.update({**iteration, **seconds})

    def _seconds(self, report: Report) -> dict[str, float]:
        now = time.perf_counter()
        total, self._last = now - self._last, now
        return {**report.seconds(), "total": total}

    def _complain(self, error: RecorderError) -> None:
        if not self._complained:
            sys.stderr.write(f"flowrl.train: warning: {error}; training goes on\n")
            self._complained = True

    def _evaluate(self) -> None:
        """Score the final policy on held-out starts and write the scores down."""
        n_episodes = self._config.evaluation.n_episodes
        self._progress.note(f"evaluating: {n_episodes} held-out episodes of each control")
        evaluator = Evaluator(self._config, n_episodes)
        self._trainer.publish_policy()
        evaluation = evaluator.evaluate(self._trainer.policy)
        try:
            self._recorder.record_evaluation(
                evaluation.returns, evaluation.gain, {"constant_action": evaluation.constant}
            )
        except RecorderError as error:
            self._complain(error)
        self._progress.show_evaluation(evaluation.returns, evaluation.gain)


def open_session(
    config: RunConfig, trainer: Trainer, comm: Communicator, arguments: Sequence[str]
) -> Session | None:
    """Create the results file and the display on root, None on the other ranks.

    Raises ConfigError where the file cannot be created.
    """
    if comm.rank != 0:
        return None
    header = RunHeader(
        config=to_toml(config),
        command=shlex.join(["python", "-m", "flowrl.train", *arguments]),
        algo=config.algo,
        env=config.env,
        seed=config.seed,
        n_ranks=comm.size,
        parameters=trainer.environment_parameters,
    )
    policy = policy_columns(trainer) | policy_structure(trainer)
    try:
        recorder = Recorder.create(config.output, header, policy, config.overwrite)
    except RecorderError as error:
        raise ConfigError(f"--out {error}") from error
    progress = make_progress(config.progress, config.n_transitions)
    return Session(config, trainer, recorder, progress)


def policy_structure(trainer: Trainer) -> dict[str, Any]:
    """Return what of a policy does not change while it is trained."""
    interface = trainer.agent.interface
    return {
        "kind": str(trainer.agent.kind),
        "actor_layers": trainer.agent.actor,
        "critic_layers": trainer.agent.critic,
        "action_low": interface.action_offset - interface.action_scale,
        "action_high": interface.action_offset + interface.action_scale,
    }


def policy_columns(trainer: Trainer) -> dict[str, Any]:
    """Return the policy as it is now."""
    mean, std = trainer.normalisation()
    return {
        "weights": trainer.parameters(),
        "observation_mean": mean,
        "observation_std": std,
    }


def _iteration(report: Report, latest: deque[float]) -> dict[str, float]:
    """Return one row of the iterations table."""
    return {
        **report.iteration(),
        "n_episodes": len(report.episodes),
        "score_mean": mean(latest),
        "score_std": float(np.std(latest)) if latest else float("nan"),
    }


def _episodes(report: Report) -> Mapping[str, Any]:
    columns = dict(zip(EPISODE_COLUMNS, report.episodes.T, strict=True))
    n = len(report.episodes)
    ends = {"transitions": np.full(n, report.transitions), "update": np.full(n, report.update)}
    return {**columns, **ends}
