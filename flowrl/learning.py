"""The learning half of off-policy training: stored rows, draws, updates, and their exact ratio."""

from __future__ import annotations

import numpy as np

from accel.interfaces import LearningStep
from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import Interface
from flowrl.placed import Primitives
from flowrl.replay import Governor, Rows, Sample
from flowrl.seeding import Stream, generator
from flowrl.state import (
    N_WORDS,
    State,
    StateError,
    generator_words,
    prefixed,
    set_generator,
    take,
    take_count,
    take_like,
    within,
)
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import TrainingError
from flowrl.trajectory import Float32Array

# What a checkpoint keeps of the counts of updates.
_COUNTS = ("n_updates", "n_skipped", "_skipped_in_a_row", "_filled_at", "_n_forgone")
# Least standard deviation by which an observation is divided.
_LEAST_STD = 1e-6


class Learning:
    """Replay manager, data storage and learner on one process, whoever acts."""

    def __init__(
        self,
        config: RunConfig,
        interface: Interface,
        watch: Stopwatch,
        primitives: Primitives,
    ) -> None:
        """Take the primitives; raise ConfigError for numbers that no update can be made with."""
        own, replay = config.off_policy, config.replay
        self._config, self.interface, self._watch = config, interface, watch
        self.governor = Governor(own.updates_per_transition, own.learning_starts, replay.batch_size)
        _check(config, self.governor)
        self.places, self.storage = primitives.places, primitives.storage
        self.replay, self.learner = primitives.replay_manager, primitives.learner
        self._rng = generator(config.seed, Stream.REPLAY)
        n_observations = interface.n_observations
        self.mean, self.std = np.zeros(n_observations), np.ones(n_observations)
        self.n_updates = self.n_skipped = 0
        self._skipped_in_a_row = 0
        self._has_begun = False
        # Of a run that goes on with an empty buffer: until when it fills, and what that cost.
        self._filled_at = self._n_forgone = 0

    def insert(self, rows: Rows) -> None:
        """Store rows as the policies saw them."""
        if not self._has_begun or not self._config.off_policy.normalise_observations:
            self.replay.insert(rows)
        else:
            self.replay.insert(
                Rows(
                    self._normalised(rows.observations),
                    rows.actions,
                    rows.rewards,
                    self._normalised(rows.next_observations),
                    rows.discounts,
                )
            )
        self._watch.lap("insert")

    def catch_up(self, transitions: int) -> list[LearningStep]:
        """Make all updates that so many transitions allow."""
        return [self.update(transitions) for _ in range(self.n_due(transitions))]

    def n_due(self, transitions: int) -> int:
        """Count the updates that so many transitions allow and that have not been made."""
        n_due = self.governor.allowed(transitions) - self.n_updates
        if transitions < self._filled_at:
            self._n_forgone = n_due
        return n_due - self._n_forgone

    def update(self, transitions: int) -> LearningStep:
        """Make one update; the weights of its rows are those after so many transitions."""
        sample = self.draw(transitions)
        step = self.learner.learn(
            self.storage.rows, sample.indices, sample.weights, sample.actor_observations
        )
        self._watch.lap("learn")
        self.settle(sample, step)
        return step

    def draw(self, transitions: int) -> Sample:
        """Draw the rows of one update."""
        if not self._has_begun:
            self._begin()
        beta = self.weight_exponent(transitions)
        sample = self.replay.sample(self._rng, self._config.replay.batch_size, beta)
        self._watch.lap("sample")
        return sample

    def settle(self, sample: Sample, step: LearningStep) -> None:
        """Take in what an update made of its rows."""
        self.n_updates += 1
        if step.applied:
            self.replay.update_priorities(sample, step.td_errors)
            self._watch.lap("update")
        self._count_skips(step)

    def weight_exponent(self, transitions: int) -> float:
        """Return the exponent of the importance weights; it ends at 1."""
        if not self.replay.is_prioritized:
            return 0.0
        first = self._config.replay.weight_exponent
        return first + (1.0 - first) * min(transitions / self._config.n_transitions, 1.0)

    def state(self, transitions: int) -> dict[str, float]:
        """Return what the iterations table says of the replay."""
        return {
            "weight_exponent": self.weight_exponent(transitions),
            "update_ratio": self.governor.measured(transitions, self.n_updates),
            "replay_size": self.storage.size,
            "dropped_priorities": self.replay.n_dropped,
            "skipped_gradients": self.n_skipped,
        }

    @property
    def has_learnt(self) -> bool:
        """Tell whether any update has been made."""
        return self.n_updates > 0

    def saved(self) -> State:
        """Return what a checkpoint keeps; rows are views."""
        with_rows = self._config.checkpoint.replay == "whole"
        counts = {name: np.array(getattr(self, name)) for name in _COUNTS}
        return {
            **counts,
            "has_begun": np.array(self._has_begun),
            "generator": generator_words(self._rng),
            "mean": self.mean,
            "std": self.std,
            **prefixed("learner", self.learner.state()),
            **prefixed("replay", self.replay.state(with_rows)),
        }

    def load(self, state: State, transitions: int) -> bool:
        """Go on from what `saved` returned after so many transitions; tell whether rows came.

        Without rows no update is made before as many new transitions have come as were needed at
        first. The updates that would have been due meanwhile are left out, not made up for.
        """
        for name in _COUNTS:
            setattr(self, name, take_count(state, name))
        self._has_begun = bool(take(state, "has_begun", np.bool_, ()))
        set_generator(self._rng, take(state, "generator", np.uint64, (N_WORDS,)))
        n_observations = self.interface.n_observations
        self.mean = take(state, "mean", np.float64, (n_observations,))
        self.std = take(state, "std", np.float64, (n_observations,))
        given = take_like(within("learner", state), self.learner.state())
        try:
            self.learner.load_state(given)
        except ValueError as error:
            raise StateError(f"the learner refuses its saved state: {error}") from error
        has_rows = self.replay.load_state(within("replay", state))
        if not has_rows:
            self._filled_at = transitions + self.governor.first
        return has_rows

    def _begin(self) -> None:
        """Fix the normalisation by the rows of the random actions, and apply it to them."""
        self._has_begun = True
        if not self._config.off_policy.normalise_observations:
            return
        held = slice(self.storage.size)
        rows = self.storage.rows
        self.mean = rows.observations[held].mean(axis=0, dtype=np.float64)
        self.std = np.maximum(rows.observations[held].std(axis=0, dtype=np.float64), _LEAST_STD)
        for observations in (rows.observations, rows.next_observations):
            observations[held] = self._normalised(observations[held])

    def _normalised(self, observations: Float32Array) -> Float32Array:
        clip = np.float32(self._config.off_policy.observation_clip)
        mean, scale = self.mean.astype(np.float32), (1.0 / self.std).astype(np.float32)
        normalised: Float32Array = np.clip((observations - mean) * scale, -clip, clip)
        return normalised

    def _count_skips(self, step: LearningStep) -> None:
        """Count updates skipped for a non-finite gradient; too many in a row end the run."""
        self.n_skipped += not step.applied
        self._skipped_in_a_row = 0 if step.applied else self._skipped_in_a_row + 1
        limit = self._config.off_policy.max_skipped_gradients
        if self._skipped_in_a_row >= limit:
            raise TrainingError(
                f"{limit} updates in a row were not finite; the parameters are those before them. "
                "Look at the environment's rewards and observations, or lower the learning rates"
            )


def _check(config: RunConfig, governor: Governor) -> None:
    if governor.first >= config.n_transitions:
        raise ConfigError(
            f"--n-transitions must be more than the {governor.first} before the first update "
            f"(--off-policy.learning-starts {config.off_policy.learning_starts}, "
            f"--replay.batch-size {config.replay.batch_size}), got {config.n_transitions}"
        )
