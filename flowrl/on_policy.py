"""Synchronous, strictly on-policy PPO over ranks.

Every rank does the same thing on its own share: it unrolls its environments on its own copy of
the policy, values its own transitions, and takes its part of every gradient step. Ranks exchange
one row of sums per environment and update, and the gradients of each step; no trajectory, no
weights and nothing pickled crosses the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flowrl.advantage import gae
from flowrl.agents.interface import make_policy
from flowrl.agents.ppo import PpoAgent
from flowrl.assessment import N_SUMS, Assessment, Moments, assess, normalised_advantages
from flowrl.collector import EPISODE_COLUMNS, Collector
from flowrl.comm import Communicator
from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import Interface
from flowrl.envs.moments import RunningMoments, env_moments
from flowrl.exploration import own_noise
from flowrl.learners import Learner, Step, StepReport
from flowrl.minibatches import CHUNK_ROWS, MOST_CHUNKS, Minibatch, Shuffler
from flowrl.networks import Weights
from flowrl.plan import PlanRows, plan_rows
from flowrl.policies import PolicyArrays
from flowrl.quantities import ON_POLICY_SHARES as SHARES
from flowrl.registry import LEARNERS, EnvironmentSource, load_learner
from flowrl.schedule import Collection, Schedule, share
from flowrl.seeding import Stream, integer_seed
from flowrl.shares import deal, gather_rows, share_rows
from flowrl.state import State, StateError, prefixed, take_count, take_like, within
from flowrl.stopping import Wishes
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import TrainingError, check_progress, mean, restart_notes
from flowrl.trajectory import Float64Array, IntArray, Trajectory

# Of a run's counts, those that a checkpoint keeps.
_COUNTS = ("n_updates", "n_transitions", "n_skipped", "n_skipped_in_a_row")


@dataclass(frozen=True)
class UpdateReport:
    """One update as root reports it."""

    update: int  # from one
    transitions: int  # since the start of the run
    moments: Moments
    steps: tuple[StepReport, ...]  # all gradient steps, in order
    skipped: int  # gradient steps skipped since the start of the run
    blow_ups: int  # since the start of the run
    episodes: Float64Array  # (n_episodes, 4) the episodes that ended, by EPISODE_COLUMNS
    rank_seconds: Float64Array  # (n_ranks, 3) by SHARES [s]

    def iteration(self) -> dict[str, float]:
        """Return the row of the iterations table, but for the score."""
        applied = [step for step in self.steps if step.step is Step.APPLIED]
        names = ("policy_loss", "value_loss", "entropy", "clip_fraction")
        norms = ("actor_gradient_norm", "critic_gradient_norm")
        divergences = [step.approximate_kl for step in self.steps] or [float("nan")]
        return {
            **{name: mean([getattr(step, name) for step in applied]) for name in (*names, *norms)},
            "transitions": self.transitions,
            "updates": self.update,
            "approximate_kl": divergences[-1],
            "first_approximate_kl": divergences[0],
            "explained_variance": self.moments.explained_variance,
            "value_mean": self.moments.value_mean,
            "skipped_gradients": self.skipped,
            "blow_ups": self.blow_ups,
        }

    def seconds(self) -> dict[str, float]:
        """Return the row of the seconds table, but for the whole."""
        root = dict(zip(SHARES, map(float, self.rank_seconds[0]), strict=True))
        return {**root, "slowest_collect": float(self.rank_seconds[:, 0].max())}


class OnPolicyTrainer:
    """One rank's part of a PPO run."""

    def __init__(self, config: RunConfig, comm: Communicator) -> None:
        """Make this rank's environments, networks and learner.

        Raises ScheduleError or UnsupportedEnvironment for what cannot be trained.
        """
        self._config, self._comm = config, comm
        source = EnvironmentSource(config.env, config.env_args)
        self.interface = source.interface(config.n_envs)
        self.schedule = _schedule(config, self.interface)
        _check_chunks(config, self.schedule)
        self.shares = share(config.n_envs, comm.size, self.interface.agents_per_group)
        self._stop = int(self.shares[: comm.rank + 1].sum())
        self._first = self._stop - int(self.shares[comm.rank])
        self.agent = PpoAgent.build(config, self.interface)
        self.learner = self._make_learner()
        self.moments = RunningMoments(self.interface.n_observations)
        self.collector = self._make_collector(source)
        self._watch = Stopwatch()
        self._shuffle_seed = integer_seed(config.seed, Stream.PERMUTATION)
        self._number = self._transitions = 0  # updates and transitions made
        self._skipped = self._skipped_in_a_row = 0
        self._rate_factor = 1.0
        self.wishes = Wishes()
        self.can_be_saved = True
        # The last one carries what ranks wish of each other: no message of its own.
        self._summed = np.zeros(self.learner.n_accumulators + 1, np.int64)
        self._accumulators = self._summed[:-1]

    def _make_learner(self) -> Learner:
        make = load_learner(LEARNERS, self._config.learner)
        learner: Learner = make(self.agent, self._config.ppo)
        learner.load_parameters(self.agent.initial_parameters(self._config.seed))
        return learner

    def _make_collector(self, source: EnvironmentSource) -> Collector:
        seed = self._config.seed
        seeds = [
            integer_seed(seed, Stream.ENVIRONMENT, env) for env in range(self._first, self._stop)
        ]
        environments = source.make(seeds, self.interface)
        noise = own_noise(self.agent.kind)
        return Collector(environments, make_policy(self.agent), noise, seed, self._first)

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that this rank acts with."""
        return self.collector.policy

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""
        return self.collector.env_parameters

    def parameters(self) -> Weights:
        """Return the actor's weights, then the critic's."""
        return self.learner.parameters()

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()

    def plan(self) -> PlanRows:
        """Say how the work is spread over updates and ranks."""
        return plan_rows(self.schedule, self.shares, self._config.n_transitions)

    def warm_up(self) -> None:
        """Compile all that the loop calls, or load it from numba's cache, without a side effect."""
        self.collector.compile()
        empty, flags = np.zeros((1, 1)), np.zeros((1, 1), np.bool_)
        gae(empty, empty, empty, flags, flags, np.ones(1, np.int64), 1.0, 1.0)
        Shuffler(0, 0, np.ones(1, np.int64), 0, 1, 1).epoch(0)

    def updates(self) -> Iterator[UpdateReport | None]:
        """Train to the end; yield after each update its report on root and None elsewhere."""
        for collection in self.schedule.collections(self._transitions):
            self._watch.reset()
            self.publish_policy()
            trajectory = self.collector.collect(collection.lengths[self._first : self._stop])
            assessments = [self._assess(trajectory, envs) for envs in collection.updates]
            rows = self._exchange(trajectory, collection, assessments)
            for envs, assessment in zip(collection.updates, assessments, strict=True):
                self._number += 1
                progress = self._transitions / self._config.n_transitions
                self._rate_factor = 1.0 - progress * (1.0 - self._config.ppo.final_learning_rate)
                self._transitions += int(collection.lengths[envs].sum())
                moments = Moments.of(rows[envs, :N_SUMS])
                steps = self._learn(collection.lengths[envs], envs, assessment, moments)
                # Later updates of a collection need its trajectory, which nobody keeps.
                self.can_be_saved = envs is collection.updates[-1]
                yield self._report(trajectory, envs, moments, steps, int(rows[:, -1].sum()))

    def _report(
        self,
        trajectory: Trajectory,
        envs: IntArray,
        moments: Moments,
        steps: tuple[StepReport, ...],
        blow_ups: int,
    ) -> UpdateReport | None:
        """Return on root what there is to say of the last update, None elsewhere."""
        gathered = self._gather(trajectory, envs)
        if gathered is None:
            return None
        seconds, episodes = gathered
        return UpdateReport(
            self._number, self._transitions, moments, steps, self._skipped, blow_ups, episodes,
            seconds,
        )  # fmt: skip

    @property
    def n_reports(self) -> int:
        """Count the reports since the start of the run: one an update."""
        return self._number

    def state(self) -> State | None:
        """Return on root all that it takes to go on later, None elsewhere; every rank calls it."""
        rows = gather_rows(self._comm, self.collector.state())
        if rows is None:
            return None
        counts = (self._number, self._transitions, self._skipped, self._skipped_in_a_row)
        return {
            **{name: np.array(count) for name, count in zip(_COUNTS, counts, strict=True)},
            **prefixed("learner", self.learner.state()),
            **prefixed("moments", self.moments.state()),
            **prefixed("collector", rows),
        }

    def load_state(self, state: State, life: int) -> list[str]:
        """Go on from what `state` returned on root, {} elsewhere; every rank calls it."""
        parts = None
        try:
            parts = self._parts(state) if self._comm.rank == 0 else None
        finally:
            own = deal(self._comm, parts)  # others wait for it, whatever root has found
        counts = [take_count(own, name) for name in _COUNTS]
        self._number, self._transitions, self._skipped, self._skipped_in_a_row = counts
        check_progress(self._transitions, self._config.n_transitions)
        try:
            self.learner.load_state(take_like(within("learner", own), self.learner.state()))
        except ValueError as error:
            raise StateError(f"the learner refuses its saved state: {error}") from error
        self.moments.load_state(within("moments", own))
        begins_anew = self.collector.load_state(within("collector", own), life)
        return restart_notes(begins_anew)

    def _parts(self, state: State) -> list[State]:
        """Split a state into what each rank needs."""
        rows = share_rows(within("collector", state), self.shares)
        shared = {name: a for name, a in state.items() if not name.startswith("collector/")}
        return [shared | prefixed("collector", part) for part in rows]

    def publish_policy(self) -> None:
        """Copy the learner's actor and the observation moments into the rollout's policy."""
        policy = self.collector.policy
        policy.weights[:] = self.learner.parameters()[: len(policy.weights)]
        mean, std = self.normalisation()
        policy.observation_mean[:] = mean
        policy.observation_scale[:] = 1.0 / std

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which the policy scales its observations."""
        if self._config.ppo.normalise_observations:
            return self.moments.mean, self.moments.std
        return np.zeros_like(self.moments.mean), np.ones_like(self.moments.mean)

    def _local(self, envs: IntArray) -> IntArray:
        """Return the local indices of those of `envs` that this rank owns."""
        return envs[(envs >= self._first) & (envs < self._stop)] - self._first

    def _assess(self, trajectory: Trajectory, envs: IntArray) -> Assessment:
        """Value this rank's part of the trajectories that feed one update."""
        ppo = self._config.ppo
        return assess(
            trajectory.of(self._local(envs)),
            self.learner,
            self.collector.policy,
            self._config.bootstrap,
            ppo.gamma,
            ppo.gae_lambda,
        )

    def _exchange(
        self, trajectory: Trajectory, collection: Collection, assessments: list[Assessment]
    ) -> Float64Array:
        """Share one row of sums per environment, and merge the observation moments.

        Returns the rows of all environments in global order: the sums of the assessments, the
        observation moments, the count of blow-ups.
        """
        sums = np.zeros((self.collector.n_envs, N_SUMS))
        for envs, assessment in zip(collection.updates, assessments, strict=True):
            sums[self._local(envs)] = assessment.sums
        blow_ups = self.collector.n_blow_ups[:, None].astype(np.float64)
        rows = np.concatenate([sums, env_moments(trajectory), blow_ups], axis=1)
        self._watch.lap("collect")
        rows = self._comm.all_gather(rows, self.shares)
        self._watch.lap("reduce")
        n = self.interface.n_observations
        for row in rows[:, N_SUMS:-1]:
            self.moments.merge(row[0], row[1 : n + 1], row[n + 1 :])
        return rows

    def _learn(
        self,
        lengths: IntArray,
        envs: IntArray,
        assessment: Assessment,
        moments: Moments,
    ) -> tuple[StepReport, ...]:
        """Make the update at hand: all epochs of minibatches over the transitions of `envs`."""
        ppo = self._config.ppo
        batch = assessment.batch
        if ppo.normalise_advantages:
            batch = normalised_advantages(batch, moments)
        self.learner.load_batch(batch)
        first, stop = np.searchsorted(envs, (self._first, self._stop))
        shuffler = Shuffler(
            self._shuffle_seed, self._number, lengths, int(first), int(stop), ppo.n_minibatches
        )
        steps = tuple(
            self._step(minibatch)
            for epoch in range(ppo.n_epochs)
            for minibatch in shuffler.epoch(epoch)
        )
        self._watch.lap("learn")
        return steps

    def _step(self, minibatch: Minibatch) -> StepReport:
        """Take one gradient step together with all other ranks."""
        while True:
            self.learner.gradient(minibatch, self._accumulators)
            self._watch.lap("learn")
            self._summed[-1] = self.wishes.word()
            self._comm.sum_integers(self._summed)
            self.wishes.agree(int(self._summed[-1]))
            self._watch.lap("reduce")
            report = self.learner.apply(self._accumulators, self._rate_factor)
            if report.step is not Step.RESCALED:
                break
        self._count_skips(report)
        return report

    def _count_skips(self, report: StepReport) -> None:
        """Count steps skipped for a non-finite gradient; too many in a row end the run."""
        skipped = report.step is Step.SKIPPED
        self._skipped += skipped
        self._skipped_in_a_row = self._skipped_in_a_row + 1 if skipped else 0
        limit = self._config.ppo.max_skipped_gradients
        if self._skipped_in_a_row >= limit:
            raise TrainingError(
                f"{limit} gradients in a row were not finite; the parameters are those before "
                "them. Look at the environment's rewards and observations, or lower the "
                "learning rates (--ppo.actor-learning-rate, --ppo.critic-learning-rate)"
            )

    def _gather(
        self, trajectory: Trajectory, envs: IntArray
    ) -> tuple[Float64Array, Float64Array] | None:
        """Return on root every rank's seconds and the episodes that ended in `envs`.

        One message: the first row of each rank holds its seconds, the others an episode each.
        """
        seconds = np.zeros((1, len(EPISODE_COLUMNS)))
        seconds[0, : len(SHARES)] = [self._watch.seconds.get(name, 0.0) for name in SHARES]
        seconds[0, -1] = -1.0  # marks the row: an episode has zero or one here
        self._watch.reset()
        episodes = self.collector.finished_episodes(trajectory, self._local(envs))
        rows = self._comm.gather(np.concatenate([seconds, episodes]))
        if rows is None:
            return None
        is_seconds = rows[:, -1] < 0.0
        return rows[is_seconds, : len(SHARES)], rows[~is_seconds]


def _schedule(config: RunConfig, interface: Interface) -> Schedule:
    return Schedule(
        config.n_envs,
        config.n_transitions,
        config.ppo.n_transitions_per_update,
        config.bootstrap,
        interface.episode_steps,
        interface.agents_per_group,
    )


def _check_chunks(config: RunConfig, schedule: Schedule) -> None:
    """Refuse more chunks of gradients in one minibatch than fit one exact sum."""
    first = next(schedule.collections())
    for envs in first.updates:
        lengths = first.lengths[envs]
        of_each = -(-lengths // (config.ppo.n_minibatches * CHUNK_ROWS))
        # No more chunks than rows, where an environment has less than one row a minibatch.
        n_chunks = min(int(of_each.sum()), -(-int(lengths.sum()) // config.ppo.n_minibatches))
        if n_chunks > MOST_CHUNKS:
            raise ConfigError(
                f"--n-envs must leave at most {MOST_CHUNKS} chunks of {CHUNK_ROWS} rows of one "
                f"environment in a minibatch, got {n_chunks}; use fewer environments, or more "
                "--ppo.n-minibatches"
            )
