"""Off-policy training: a replay buffer between those who act and the one who learns.

In one process, acting and learning take turns: `steps_per_collection` steps of every environment,
then as many updates as the governor allows. Equal seeds give equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from accel.interfaces import LearningStep
from flowrl.acting import Acting, make_schedule, set_policy
from flowrl.agents.off_policy import OffPolicyAgent, reported_exploration
from flowrl.collector import EPISODE_COLUMNS, Collector
from flowrl.comm import Communicator
from flowrl.config import RunConfig
from flowrl.learning import Learning
from flowrl.networks import Weights
from flowrl.placed import Placed, Primitives
from flowrl.plan import PlanRows
from flowrl.policies import PolicyArrays
from flowrl.quantities import OFF_POLICY_SHARES
from flowrl.registry import EnvironmentSource, build_agent
from flowrl.replay import NStep, row_bytes
from flowrl.state import State, prefixed, take_count, within
from flowrl.stopping import Wishes
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import check_progress, mean, restart_notes
from flowrl.trajectory import Float64Array, IntArray


@dataclass(frozen=True)
class OffPolicyReport:
    """What happened since the last report."""

    transitions: int
    update: int
    episodes: Float64Array  # (n, 4) by EPISODE_COLUMNS
    steps: tuple[LearningStep, ...]
    state: dict[str, float]  # of replay and exploration, as the iterations table names it
    spent: dict[str, float]  # by OFF_POLICY_SHARES [s]

    def iteration(self) -> dict[str, float]:
        """Return the row of the iterations table, but for the score."""
        applied = [step for step in self.steps if step.applied]
        names = ("critic_loss", "mean_value", "critic_gradient_norm")
        of_actor = ("actor_loss", "actor_gradient_norm", "entropy")
        return {
            **{name: _mean_of(applied, name) for name in (*names, *of_actor)},
            "td_error": mean([float(step.td_errors.mean()) for step in applied]),
            "temperature": applied[-1].temperature if applied else float("nan"),
            "transitions": self.transitions,
            "updates": self.update,
            **self.state,
        }

    def seconds(self) -> dict[str, float]:
        """Return the row of the seconds table, but for the whole."""
        return self.spent


def _mean_of(steps: list[LearningStep], name: str) -> float:
    """Return the mean over the steps that measured it: an actor does not learn in every one."""
    values = [float(getattr(step, name)) for step in steps]
    return mean([value for value in values if not np.isnan(value)])


class OffPolicyTrainer:
    """A run of DQN, DDPG, TD3 or SAC in one process."""

    def __init__(
        self,
        config: RunConfig,
        comm: Communicator,  # noqa: ARG002
        primitives: Primitives | None = None,
    ) -> None:
        """Make the environments and the networks, and the primitives unless they are given.

        Raises ConfigError for what cannot be trained.
        """
        self._config = config
        source = EnvironmentSource(config.env, config.env_args)
        self.interface = source.interface(config.n_envs)
        self.agent = cast(OffPolicyAgent, build_agent(config, self.interface))
        self.schedule = make_schedule(config, self.interface)
        self._watch = Stopwatch()
        made = primitives or Placed.find(config.placement).primitives(config, self.agent)
        self.learning = Learning(config, self.agent.interface, self._watch, made)
        self.acting = Acting(config, self.agent, source, 0, config.n_envs)
        own = config.off_policy
        self._n_step = NStep(config.n_envs, own.n_steps, own.gamma, own.reward_scale)
        self.n_reports = self._transitions = 0
        self.wishes = Wishes()
        self.can_be_saved = True

    @property
    def collector(self) -> Collector:
        """Return what unrolls the environments."""
        return self.acting.collector

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that acts."""
        return self.collector.policy

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""
        return self.collector.env_parameters

    def parameters(self) -> Weights:
        """Return the actor's weights, then the critics'."""
        return self.learning.learner.parameters()

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which observations are scaled."""
        return self.learning.mean, self.learning.std

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()

    def warm_up(self) -> None:
        """Compile all that the loop calls, or load it from numba's cache, without a side effect."""
        self.collector.compile()

    def plan(self) -> PlanRows:
        """Say how the run is spread over environments, updates and memory."""
        return [("environments", str(self._config.n_envs)), *plan_rows(self._config, self.learning)]

    def publish_policy(self) -> None:
        """Copy the learner's actor and the observations' normalisation into the policy."""
        learning = self.learning
        weights = learning.learner.actor_weights()
        set_policy(self.policy, weights, learning.mean, 1.0 / learning.std)

    def updates(self) -> Iterator[OffPolicyReport]:
        """Train to the end; yield a report every `report_interval` transitions and at the end."""
        interval, end = self._config.off_policy.report_interval, self._config.n_transitions
        transitions = self._transitions
        episodes: list[Float64Array] = []
        steps: list[LearningStep] = []
        self._watch.reset()
        for collection in self.schedule.collections(transitions):
            episodes.append(self._collect(collection.lengths, transitions))
            before, transitions = transitions, transitions + collection.n_transitions
            made = self.learning.catch_up(transitions)
            if made:
                self._follow()
                steps += made
            if transitions // interval > before // interval or transitions == end:
                self.n_reports, self._transitions = self.n_reports + 1, transitions
                self.wishes.agree(self.wishes.word())
                yield self._report(transitions, episodes, steps)
                episodes, steps = [], []
                self._watch.reset()

    def state(self) -> State:
        """Return all that it takes to go on later; rows of the replay buffer are views."""
        sizes = self.agent.interface.n_observations, self.agent.interface.n_actions
        return {
            "n_reports": np.array(self.n_reports),
            "n_transitions": np.array(self._transitions),
            **prefixed("learning", self.learning.saved()),
            **prefixed("acting", self.acting.state()),
            **prefixed("n_step", self._n_step.state(*sizes)),
        }

    def load_state(self, state: State, life: int) -> list[str]:
        """Go on from what `state` returned; say what is not as it was."""
        self.n_reports = take_count(state, "n_reports")
        self._transitions = take_count(state, "n_transitions")
        check_progress(self._transitions, self._config.n_transitions)
        has_rows = self.learning.load(within("learning", state), self._transitions)
        begins_anew = self.acting.load_state(within("acting", state), life)
        sizes = self.agent.interface.n_observations, self.agent.interface.n_actions
        self._n_step.load_state(within("n_step", state), *sizes, begins_anew)
        if self.learning.has_learnt:
            self._follow()
        return [*restart_notes(begins_anew), *replay_notes(self.learning, has_rows)]

    def _collect(self, lengths: IntArray, transitions: int) -> Float64Array:
        """Unroll the environments and store their rows; return the episodes that ended."""
        trajectory, episodes = self.acting.collect(lengths, transitions)
        rows = self._n_step.rows(trajectory)
        self._watch.lap("collect")
        self.learning.insert(rows)
        return episodes

    def _follow(self) -> None:
        """Act on what has just been learnt."""
        learning = self.learning
        weights = learning.learner.actor_weights()
        self.acting.follow(weights, learning.mean, 1.0 / learning.std)

    def _report(
        self, transitions: int, episodes: list[Float64Array], steps: list[LearningStep]
    ) -> OffPolicyReport:
        state = self.learning.state(transitions)
        state["exploration"] = reported_exploration(self._config, transitions)
        state["blow_ups"] = int(self.collector.n_blow_ups.sum())
        state["staleness"] = 0.0
        n_updates, seconds = self.learning.n_updates, self._watch.seconds
        return make_report(transitions, n_updates, episodes, steps, state, seconds)


def replay_notes(learning: Learning, has_rows: bool) -> list[str]:
    """Say that a replay buffer was not kept."""
    if has_rows:
        return []
    return [
        "the replay buffer is empty (--checkpoint.replay none): learning begins again after "
        f"{learning.governor.first} transitions"
    ]


def make_report(
    transitions: int,
    n_updates: int,
    episodes: Sequence[Float64Array],
    steps: Sequence[LearningStep],
    state: dict[str, float],
    seconds: Mapping[str, float],
) -> OffPolicyReport:
    """Put a report together from its pieces; of the seconds, only the known shares count."""
    ended = np.concatenate([np.empty((0, len(EPISODE_COLUMNS))), *episodes])
    spent = {name: seconds.get(name, 0.0) for name in OFF_POLICY_SHARES}
    return OffPolicyReport(transitions, n_updates, ended, tuple(steps), state, spent)


def plan_rows(config: RunConfig, learning: Learning) -> PlanRows:
    """Say how a run is spread over transitions, updates and memory, whoever acts."""
    n_rows, interface = learning.storage.capacity, learning.interface
    gib = n_rows * row_bytes(interface.n_observations, interface.n_actions) / 2**30
    n_updates = learning.governor.allowed(config.n_transitions)
    return [
        ("transitions", f"{config.n_transitions:,}"),
        ("random transitions at first", f"{learning.governor.first:,}"),
        ("updates", f"{n_updates:,} of {config.replay.batch_size} rows"),
        ("replay buffer", f"{n_rows:,} rows, {gib:.3f} GiB, {config.replay.priorities}"),
        ("learner", config.learner),
        ("placement", str(learning.places)),
    ]
