"""Train with a trainer of the user's own: its `get_action` acts, its `update_policy` learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from accel.interfaces import LearningStep
from flowrl.collector import EPISODE_COLUMNS
from flowrl.composer.torch_trainer import TorchTrainerLearner
from flowrl.config import RunConfig
from flowrl.envs.interface import Interface
from flowrl.envs.python import Env
from flowrl.evaluation import MOST_STEPS, Evaluation, Evaluator
from flowrl.learning import Learning
from flowrl.networks import NO_LAYERS, Layers, PolicyKind, Weights
from flowrl.off_policy import OffPolicyReport, make_report, plan_rows
from flowrl.placed import Placed, Primitives
from flowrl.plan import PlanRows
from flowrl.policies import PolicyArrays
from flowrl.registry import EnvironmentSource
from flowrl.replay import NStep
from flowrl.seeding import Stream, integer_seed
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import TrainingError, Unsaved
from flowrl.trajectory import Float32Array, Float64Array, Trajectory


@dataclass(frozen=True)
class UserAgent:
    """What there is to say of networks that only the trainer knows."""

    interface: Interface
    kind: PolicyKind = PolicyKind.TORCH
    actor: Layers = field(default_factory=NO_LAYERS.copy)
    critic: Layers = field(default_factory=NO_LAYERS.copy)
    observation_clip: float = float("inf")


class UserActors:
    """Environments stepped by a trainer's `get_action`, one step each in turn."""

    def __init__(
        self, source: EnvironmentSource, config: RunConfig, trainer: Any, shape: tuple[int, ...]
    ) -> None:
        """Make and reset the environments; observations reach the trainer in its shape."""
        self._trainer, self._shape = trainer, shape
        self._envs = [source.make_single() for _ in range(config.n_envs)]
        self._spaces = [env.observation_space for env in self._envs]
        self._observations = [
            self._flat(i, env.reset(seed=integer_seed(config.seed, Stream.ENVIRONMENT, i))[0])
            for i, env in enumerate(self._envs)
        ]
        self._returns, self._lengths = np.zeros(config.n_envs), np.zeros(config.n_envs)

    def _flat(self, i: int, observation: Any) -> Float32Array:
        return np.asarray(gymnasium.spaces.flatten(self._spaces[i], observation), np.float32)

    def step(self, trajectory: Trajectory, n_envs: int) -> Float64Array:
        """Fill one column with a step of the first n_envs; return the episodes that ended."""
        trajectory.lengths[:] = np.arange(len(self._envs)) < n_envs
        ended = [self._step_one(i, trajectory) for i in range(n_envs)]
        rows = [row for row in ended if row is not None]
        return np.array(rows, np.float64).reshape(-1, len(EPISODE_COLUMNS))

    def _step_one(self, i: int, trajectory: Trajectory) -> tuple[float, ...] | None:
        env, observation = self._envs[i], self._observations[i]
        action = self._trainer.get_action(observation.reshape(self._shape))
        following, reward, terminated, truncated, _ = env.step(action)
        trajectory.observations[i, 0] = observation
        trajectory.actions[i, 0] = np.asarray(action, np.float32).reshape(-1)
        trajectory.rewards[i, 0] = reward
        trajectory.next_observations[i, 0] = self._flat(i, following)
        trajectory.terminated[i, 0] = terminated
        trajectory.truncated[i, 0] = truncated and not terminated
        self._returns[i] += float(reward)
        self._lengths[i] += 1
        self._observations[i] = trajectory.next_observations[i, 0].copy()
        if not (terminated or truncated):
            return None
        episode = (i, self._returns[i], self._lengths[i], float(terminated))
        self._returns[i] = self._lengths[i] = 0.0
        self._observations[i] = self._flat(i, env.reset()[0])
        return episode

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


class UserRun(Unsaved):
    """A run whose networks only torch and the user's class know, in one process."""

    # Such a class has state that nobody else can put back.
    why_not = "of an algorithm of flowrl, not of a trainer of your own"

    def __init__(
        self,
        config: RunConfig,
        learner: TorchTrainerLearner,
        shape: tuple[int, ...],
        primitives: Primitives,
    ) -> None:
        """Make the environments; the primitives are those on their devices."""
        super().__init__()
        self._config, self._learner, self._shape = config, learner, shape
        self._source = EnvironmentSource(config.env, config.env_args)
        self.interface = self._source.interface(config.n_envs)
        self.agent = UserAgent(self.interface)
        self._watch = Stopwatch()
        self.learning = Learning(config, self.interface, self._watch, primitives)
        self._actors = UserActors(self._source, config, learner.trainer, shape)
        own = config.off_policy
        self._n_step = NStep(config.n_envs, own.n_steps, own.gamma, own.reward_scale)

    @property
    def policy(self) -> PolicyArrays:
        """Refuse: the trainer acts itself."""
        raise TrainingError("a trainer of your own has no policy but its get_action")

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return nothing: such environments are made by name."""
        return {}

    def plan(self) -> PlanRows:
        """Say how the run is spread over environments, updates and memory."""
        return [("environments", str(self._config.n_envs)), *plan_rows(self._config, self.learning)]

    def warm_up(self) -> None:
        """Do nothing: nothing is compiled."""

    def updates(self) -> Iterator[OffPolicyReport]:
        """Train to the end; yield a report every `report_interval` transitions and at the end."""
        config, interval = self._config, self._config.off_policy.report_interval
        sizes = self.interface.n_observations, self.interface.n_actions
        trajectory = Trajectory.allocate(config.n_envs, 1, *sizes)
        transitions = 0
        episodes: list[Float64Array] = []
        steps: list[LearningStep] = []
        self._watch.reset()
        while transitions < config.n_transitions:
            n = min(config.n_envs, config.n_transitions - transitions)
            episodes.append(self._actors.step(trajectory, n))
            rows = self._n_step.rows(trajectory)
            self._watch.lap("collect")
            self.learning.insert(rows)
            before, transitions = transitions, transitions + n
            steps += self.learning.catch_up(transitions)
            if transitions // interval > before // interval or transitions == config.n_transitions:
                yield self._report(transitions, episodes, steps)
                episodes, steps = [], []
                self._watch.reset()

    def _report(
        self, transitions: int, episodes: list[Float64Array], steps: list[LearningStep]
    ) -> OffPolicyReport:
        state = self.learning.state(transitions)
        state |= {"exploration": float("nan"), "blow_ups": 0, "staleness": 0.0}
        n_updates, seconds = self.learning.n_updates, self._watch.seconds
        return make_report(transitions, n_updates, episodes, steps, state, seconds)

    def evaluate(self, n_episodes: int) -> Evaluation:
        """Score `get_action` as it is on held-out starts, beside no control and the like."""
        evaluator = Evaluator(self._config, n_episodes)
        env = evaluator.source.make_single()
        try:
            trained = [self._episode(env, seed) for seed in evaluator.seeds]
        finally:
            env.close()
        return evaluator.beside_baselines(np.array(trained))

    def _episode(self, env: Env, seed: int) -> float:
        observation, total = env.reset(seed=seed)[0], 0.0
        for _ in range(MOST_STEPS):
            flat = gymnasium.spaces.flatten(env.observation_space, observation)
            shaped = np.asarray(flat, np.float32).reshape(self._shape)
            observation, reward, terminated, truncated, _ = env.step(
                self._learner.trainer.get_action(shaped)
            )
            total += float(reward)
            if terminated or truncated:
                break
        return total

    def parameters(self) -> Weights:
        """Return the parameters of all the trainer's networks."""
        return self._learner.parameters()

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return no change: the trainer sees observations as they are."""
        n = self.interface.n_observations
        return np.zeros(n), np.ones(n)

    def publish_policy(self) -> None:
        """Do nothing: the trainer acts itself."""

    def close(self) -> None:
        """Close the environments."""
        self._actors.close()


def user_primitives(
    config: RunConfig, trainer: Any, shape: tuple[int, ...], acting: tuple[str, ...]
) -> tuple[TorchTrainerLearner, Primitives]:
    """Put the trainer, the replay manager and the rows on the devices of `--placement`."""
    interface = EnvironmentSource(config.env, config.env_args).interface(config.n_envs)
    places = Placed.find(config.placement)
    learner = TorchTrainerLearner(
        trainer,
        shape,
        acting,
        not interface.is_box,
        config.replay.priorities == "prioritized",
        places.torch_device,
        config.off_policy.threads,
    )
    storage = places.storage(config, interface)
    manager = places.replay_manager(config.replay, storage)
    return learner, Primitives(places, storage, manager, learner)
