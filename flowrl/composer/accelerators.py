"""Make the primitives of one training on any device, as measured and as run."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.backends import BackendError
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.agent_workload import agent_workload
from flowrl.composer.description import TrainerDescription
from flowrl.composer.hardware import Device, Kind
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError, RunConfig
from flowrl.envs.interface import Interface
from flowrl.learners.off_policy import OffPolicyLearner
from flowrl.placed import make_learner, torch_device
from flowrl.registry import EnvironmentSource
from flowrl.replay import ReplayManager, Rows, RowStorage


@dataclass(frozen=True)
class UserTrainer:
    """A trainer of the user's own, which only torch can run."""

    trainer_class: type[Any]
    description: TrainerDescription
    make: Callable[[], Any]

    @property
    def identity(self) -> str:
        """Return a digest that changes with the class."""
        name = f"{self.trainer_class.__module__}.{self.trainer_class.__qualname__}"
        try:
            source = inspect.getsource(self.trainer_class)
        except (OSError, TypeError):
            source = ""
        shapes = repr(self.description.networks)
        return hashlib.sha256(f"{name}{source}{shapes}".encode()).hexdigest()


@dataclass(frozen=True)
class Accelerators:
    """Makes the replay manager, its storage and the learner of one training."""

    workload: Workload
    interface: Interface  # of the policy
    config: RunConfig
    agent: OffPolicyAgent | None  # None: `user` learns
    user: UserTrainer | None = None

    def make_storage(self) -> RowStorage:
        """Allocate the rows."""
        w = self.workload
        return RowStorage(w.capacity, w.n_observations, w.n_actions, self.config.replay.file)

    def make_replay_manager(self, device: Device, storage: RowStorage) -> ReplayManager:
        """Make a replay manager; its tree is on the device."""
        with _Reported(device):
            return ReplayManager(self.config.replay, storage, device.backend, device.backend_device)

    def can_learn_on(self, device: Device) -> bool:
        """Tell whether there is a form of the learner for a kind of device."""
        return self.user is None or device.kind in (Kind.CPU, Kind.CUDA)

    def make_learner(self, device: Device) -> OffPolicyLearner:
        """Make a learner with its first parameters."""
        with _Reported(device):
            return self._learner(device)

    def _learner(self, device: Device) -> OffPolicyLearner:
        if not self.can_learn_on(device):
            raise ConfigError(
                f"the learner's device must be a CPU or a CUDA device for a trainer of your own, "
                f"got {device.name} ({device.kind}); choose another"
            )
        if self.user is not None or self.agent is None:
            return self._user_learner(device)
        return make_learner(device, self.config, self.agent)

    def _user_learner(self, device: Device) -> OffPolicyLearner:
        from flowrl.composer.torch_trainer import TorchTrainerLearner

        if self.user is None:
            raise ValueError("a workload of algo torch needs a trainer")
        description = self.user.description
        return TorchTrainerLearner(
            self.user.make(),
            description.input_shape,
            description.acting_names,
            not self.interface.is_box,
            self.workload.is_prioritized,
            torch_device(device),
            self.config.off_policy.threads,
        )

    def synthetic_rows(self, n: int, rng: np.random.Generator) -> Rows:
        """Draw transitions like those of an environment with these spaces."""
        w = self.workload
        observations, following = rng.standard_normal((2, n, w.n_observations), np.float32)
        if self.interface.is_discrete:
            actions = rng.integers(0, self.interface.n_choices, (n, 1)).astype(np.float32)
        else:
            actions = rng.uniform(-1.0, 1.0, (n, w.n_actions)).astype(np.float32)
        if self.user is not None and self.interface.is_box:
            actions = self.interface.action_offset + self.interface.action_scale * actions
        rewards = rng.standard_normal(n, np.float32)
        discounts = np.where(rng.random(n) < 0.05, 0.0, 0.99).astype(np.float32)
        return Rows(observations, actions, rewards, following, discounts)


class _Reported:
    """Turns what a backend says into one line for the user."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BackendError):
            raise ConfigError(
                f"device {self._device.name} ({self._device.kind}) must be one that runs here, "
                f"got: {error}; give its costs (--costs FILE.toml), or leave it out"
            ) from error


def configured_accelerators(config: RunConfig, insert_size: int) -> Accelerators:
    """Return what makes the primitives of a configured training, so many new rows to an update."""
    interface = EnvironmentSource(config.env, config.env_args).interface(config.n_envs)
    agent = OffPolicyAgent.build(config, interface)
    workload = agent_workload(config, agent, insert_size)
    return Accelerators(workload, agent.interface, config, agent)
