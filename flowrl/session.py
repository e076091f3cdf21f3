"""Root's side of a run: its results file and its screen. The other ranks have none."""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from flowrl.checkpoint import Checkpoint, CheckpointError, Header
from flowrl.collector import EPISODE_COLUMNS
from flowrl.comm import Communicator
from flowrl.config import ConfigError, RunConfig, to_toml
from flowrl.evaluation import Evaluation, Evaluator
from flowrl.progress import make_progress
from flowrl.recorder import Recorder, RecorderError, RunHeader
from flowrl.resuming import LATEST, Resumption
from flowrl.shelf import Shelf
from flowrl.state import State
from flowrl.trainer import Report, Trainer, mean
from flowrl.trajectory import Float64Array

# Episodes over which the score of the moment is taken, where fewer environments run.
_LEAST_LATEST = 8

Evaluate = Callable[[int], Evaluation]


class Session:
    """Writes each update to the results file and shows it; writes checkpoints."""

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        recorder: Recorder,
        shelf: Shelf,
        header: Header,
        evaluate: Evaluate | None = None,
    ) -> None:
        """Go on from what the header says; it is as of no update in a run that begins.

        At the end `evaluate` scores so many episodes, by default those of the trainer's policy.
        """
        self._evaluated = evaluate or self._evaluate_policy
        self._config, self._trainer = config, trainer
        self._recorder, self._shelf, self._header = recorder, shelf, header
        self._progress = make_progress(config.progress, config.n_transitions, header.transitions)
        self._latest: deque[float] = deque(maxlen=max(_LEAST_LATEST, config.n_envs))
        self._last = time.perf_counter()
        self._complained = False
        self._is_stopped = False

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
        if self._is_stopped:
            self._recorder.finish("interrupted")
            return
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
        self._header = replace(self._header, update=report.update, transitions=report.transitions)
        self._progress.update({**iteration, **seconds})

    def save(self, state: State) -> bool:
        """Write a checkpoint; tell whether it could be: if not, training goes on."""
        try:
            self._recorder.sync()  # what the checkpoint counts on
            header = replace(self._header, n_rows=self._recorder.n_rows)
            latest = np.array(self._latest, np.float64)
            self._shelf.save(Checkpoint(header, {**state, LATEST: latest}))
        except (RecorderError, CheckpointError) as error:
            self._complain(error)
            return False
        return True

    def go_on(self, latest: Float64Array) -> None:
        """Take up the latest returns of a run that is resumed."""
        self._latest.extend(latest.tolist())

    def stop(self) -> None:
        """End the run here, to be resumed later."""
        self._is_stopped = True
        n, n_all = self._header.transitions, self._config.n_transitions
        path = shlex.quote(str(self._config.output))
        self._progress.note(
            f"stopped after {n} of {n_all} transitions; go on with: "
            f"python -m flowrl.train --resume {path}"
        )

    @property
    def score(self) -> float:
        """Return the mean return of the latest episodes, NaN before the first has ended."""
        return mean(self._latest)

    def _seconds(self, report: Report) -> dict[str, float]:
        now = time.perf_counter()
        total, self._last = now - self._last, now
        return {**report.seconds(), "total": total}

    def _complain(self, error: RecorderError | CheckpointError) -> None:
        if not self._complained:
            sys.stderr.write(f"flowrl.train: warning: {error}; training goes on\n")
            self._complained = True

    def _evaluate(self) -> None:
        """Score the final policy on held-out starts and write the scores down."""
        n_episodes = self._config.evaluation.n_episodes
        self._progress.note(f"evaluating: {n_episodes} held-out episodes of each control")
        evaluation = self._evaluated(n_episodes)
        try:
            self._recorder.record_evaluation(
                evaluation.returns, evaluation.gain, {"constant_action": evaluation.constant}
            )
        except RecorderError as error:
            self._complain(error)
        self._progress.show_evaluation(evaluation.returns, evaluation.gain)

    def _evaluate_policy(self, n_episodes: int) -> Evaluation:
        evaluator = Evaluator(self._config, n_episodes)
        self._trainer.publish_policy()
        return evaluator.evaluate(self._trainer.policy)


def open_session(
    config: RunConfig,
    trainer: Trainer,
    comm: Communicator,
    arguments: Sequence[str],
    resumption: Resumption | None = None,
    evaluate: Evaluate | None = None,
    program: Sequence[str] = ("-m", "flowrl.train"),
) -> Session | None:
    """Create the results file and the display on root, None on the other ranks.

    Of a run that is resumed the file is opened and cut back. Raises ConfigError where that can't
    be done.
    """
    if comm.rank != 0:
        return None
    if config.resume is not None and resumption is None:
        raise ConfigError(
            f"--resume is for python -m flowrl.train --resume {config.resume}, which goes on with "
            "any run of an algorithm of flowrl; a trainer class of your own can't be resumed"
        )
    shelf = Shelf(config.output, config.checkpoint.keep)
    command = shlex.join(["python", *program, *arguments])
    run = _run_header(config, trainer, comm.size, command)
    if resumption is not None:
        return _resumed(config, trainer, shelf, run, resumption)
    return _begun(config, trainer, shelf, run, evaluate)


def _run_header(config: RunConfig, trainer: Trainer, n_ranks: int, command: str) -> RunHeader:
    return RunHeader(
        config=to_toml(replace(config, resume=None)),
        command=command,
        algo=config.algo,
        env=config.env,
        seed=config.seed,
        n_ranks=n_ranks,
        parameters=trainer.environment_parameters,
    )


def _begun(
    config: RunConfig, trainer: Trainer, shelf: Shelf, run: RunHeader, evaluate: Evaluate | None
) -> Session:
    if shelf.paths() and not config.overwrite:
        raise ConfigError(
            f"--out {shelf.directory}: holds checkpoints of an earlier run; give another --out, "
            "--resume to continue that run, or --overwrite to remove them"
        )
    policy = policy_columns(trainer) | policy_structure(trainer)
    try:
        recorder = Recorder.create(config.output, run, policy, config.overwrite)
    except RecorderError as error:
        raise ConfigError(f"--out {error}") from error
    shelf.clear()
    header = Header(run.run_id, 0, 0, run.n_ranks, 0, {})
    return Session(config, trainer, recorder, shelf, header, evaluate)


def _resumed(
    config: RunConfig, trainer: Trainer, shelf: Shelf, run: RunHeader, resumption: Resumption
) -> Session:
    header = resumption.header
    policy = policy_columns(trainer)
    try:
        recorder = Recorder.resume(config.output, run, header.n_rows, policy, header.update)
    except RecorderError as error:
        raise ConfigError(f"--resume {error}") from error
    # They would be newer than those that the run is going to make, but of no rows any more.
    shelf.drop_newer(header.transitions)
    resumed = replace(header, n_ranks=run.n_ranks, n_resumes=header.n_resumes + 1)
    session = Session(config, trainer, recorder, shelf, resumed)
    session.go_on(resumption.latest)
    return session


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
