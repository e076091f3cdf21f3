"""Put together what one composition is about: trainer, workload, accelerators, threads."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flowrl.acting import Acting
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.accelerators import Accelerators, UserTrainer
from flowrl.composer.cpu_split import Split, most_learner_threads, split_threads
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.profile import train_seconds
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError, OffPolicyConfig, RunConfig
from flowrl.config.names import shown, suggestion
from flowrl.config.toml import from_mapping, to_mapping
from flowrl.envs.interface import Interface
from flowrl.networks import NO_LAYERS
from flowrl.registry import EnvironmentSource
from flowrl.trajectory import Trajectory

if TYPE_CHECKING:
    from flowrl.composer.modules import Spaces

_ACTOR_STEPS = 200  # steps of each environment that the actors are timed by


@dataclass(frozen=True)
class Actors:
    """What acts."""

    source: EnvironmentSource
    interface: Interface
    config: RunConfig  # environment, seed, and how much of them


@dataclass(frozen=True)
class Replay:
    """What is kept, and how it is drawn."""

    values: dict[str, Any]  # of a ReplayConfig
    insert_size: int  # new rows to an update


class Training:
    """What one composition is about, once everything has been set."""

    def __init__(
        self, actors: Actors, cls: type[Any], options: dict[str, Any], replay: Replay
    ) -> None:
        from flowrl.composer import modules  # torch is loaded where a trainer is read

        self._actors, self._class = actors, cls
        algo = modules.native_algorithm(modules.checked_class(cls))
        config, own = _configured(actors.config, cls, algo, options, replay)
        spaces = _spaces(actors.source, actors.config.n_envs)
        self.description = modules.read_trainer(cls, spaces, own, config)
        self.is_native = self.description.algo != "torch"
        self._make = partial(modules.make_trainer, cls, spaces, own, config)
        self._config = config
        self.agent = self._agent() if self.is_native else None
        self.interface = self.agent.interface if self.agent else actors.interface
        self.workload = self._workload(replay.insert_size)
        self.accelerators = self.with_threads(1)

    def _agent(self) -> OffPolicyAgent:
        agent = OffPolicyAgent.build(self._config, self._actors.interface)
        actor, critic = self.description.actor, self.description.critic
        if actor is None or critic is None:
            raise ValueError("a native algorithm has both tables")
        return replace(agent, actor=actor, critic=critic)

    def _workload(self, insert_size: int) -> Workload:
        actor, critic, replay = self.description.actor, self.description.critic, self._config.replay
        return Workload(
            self.description.algo,
            self.interface.n_observations,
            self.interface.n_actions,
            NO_LAYERS if actor is None else actor,
            NO_LAYERS if critic is None else critic,
            replay.batch_size,
            insert_size,
            replay.capacity,
            replay.fanout,
            replay.priorities == "prioritized",
        )

    def with_threads(self, n_threads: int) -> Accelerators:
        """Return what makes the primitives, the learner with so many threads."""
        own = replace(self._config.off_policy, threads=n_threads)
        config = replace(self._config, off_policy=own)
        user = None
        if not self.is_native:
            user = UserTrainer(self._class, self.description, self._make)
        return Accelerators(self.workload, self.interface, config, self.agent, user)

    def one_thread(self, spec: HardwareSpec) -> Split:
        """Split the CPU without measuring: one thread learns."""
        cores, workers = spec.host.cores or 1, self._config.parallel.workers
        return split_threads(cores, workers, self.workload.batch_size, 0.0, {1: 0.0})

    def split(self, spec: HardwareSpec) -> Split:
        """Split the CPU: the learner gets the fewest threads that keep up with the actors."""
        cores, workers = spec.host.cores or 1, self._config.parallel.workers
        most = most_learner_threads(cores, workers)
        if most == 1:
            return self.one_thread(spec)
        counts = sorted({*(2**k for k in range(most.bit_length()) if 2**k <= most), most})
        learning = train_seconds(self.accelerators, spec.host, counts)
        batch_size = self.workload.batch_size
        acting = batch_size * self._transition_seconds() / max(workers, 1)
        return split_threads(cores, workers, batch_size, acting, learning)

    def _transition_seconds(self) -> float:
        """Time one process's actors: seconds a transition."""
        if self.agent is None:
            return self._own_transition_seconds()
        n_envs = self._config.n_envs
        acting = Acting(self._config, self.agent, self._actors.source, 0, n_envs)
        try:
            acting.collect(np.full(n_envs, 10), 0)
            begin = time.perf_counter()
            acting.collect(np.full(n_envs, _ACTOR_STEPS), 0)
            return (time.perf_counter() - begin) / (_ACTOR_STEPS * n_envs)
        finally:
            acting.close()

    def _own_transition_seconds(self) -> float:
        from flowrl.composer.user_run import UserActors

        config, shape = replace(self._config, n_envs=1), self.description.input_shape
        sizes = self.interface.n_observations, self.interface.n_actions
        actors = UserActors(self._actors.source, config, self._make(), shape)
        trajectory = Trajectory.allocate(1, 1, *sizes)
        try:
            begin = time.perf_counter()
            for _ in range(_ACTOR_STEPS):
                actors.step(trajectory, 1)
            return (time.perf_counter() - begin) / _ACTOR_STEPS
        finally:
            actors.close()


def _configured(
    base: RunConfig, cls: type[Any], algo: str, options: dict[str, Any], replay: Replay
) -> tuple[RunConfig, dict[str, Any]]:
    """Return the training's configuration, and the options that the class itself gets.

    The project's trainers and what is derived from them read a configuration; other classes get
    their options as arguments.
    """
    values: dict[str, Any] = to_mapping(base)
    # One of the four stands for the schedule of a trainer of the user's own.
    name = algo if algo != "torch" else str(getattr(cls, "algo", "dqn"))
    values["algo"] = name if name in ("dqn", "ddpg", "td3", "sac") else "dqn"
    values["replay"] = values.get("replay", {}) | replay.values
    off_policy = dict(values.get("off_policy", {}))
    off_policy["updates_per_transition"] = 1.0 / replay.insert_size
    values["off_policy"] = off_policy
    own: dict[str, Any] = {}
    sections = {
        values["algo"]: _section(values["algo"]),
        "network": ["actor_width", "critic_width"],
    }
    sections["off_policy"] = [item.name for item in fields(OffPolicyConfig)]
    parameters = inspect.signature(cls).parameters
    for option, value in options.items():
        section = next((s for s, names in sections.items() if option in names), None)
        if "config" not in parameters or option in parameters:
            own[option] = value
        elif section is not None:
            values[section] = dict(values.get(section, {})) | {option: value}
        else:
            known = [n for names in sections.values() for n in names]
            close = suggestion(option, known, f"they are {', '.join(known)}")
            raise ConfigError(
                f"options of {cls.__name__} must be settings of {values['algo']}, got "
                f"{shown(option)}{close}"
            )
    return from_mapping(RunConfig, values), own


def _section(algo: str) -> list[str]:
    return [item.name for item in fields(getattr(RunConfig(), algo))]


def _spaces(source: EnvironmentSource, n_envs: int) -> Spaces:
    """Read the spaces of one agent."""
    from flowrl.composer.modules import Spaces

    compiled = source.make_playable(n_envs)
    if compiled is not None:
        try:
            return Spaces(compiled.single_observation_space, compiled.single_action_space)
        finally:
            compiled.close()
    env = source.make_single()
    try:
        return Spaces(env.observation_space, env.action_space)
    finally:
        env.close()
