"""Replay manager, data storage and learner on the devices that a placement names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from accel.backends import BackendError
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.composer.detection import find_devices, find_host
from flowrl.composer.hardware import Device, Kind
from flowrl.config import ConfigError, ReplayConfig, RunConfig
from flowrl.config.names import suggestion
from flowrl.config.placement import Places, read_placement
from flowrl.envs.interface import Interface
from flowrl.learners.off_policy import OffPolicyLearner
from flowrl.registry import OFF_POLICY_LEARNERS, PINNED_MEMORY, load, load_learner
from flowrl.replay import ReplayManager, RowStorage
from flowrl.replay.storage import zeros
from flowrl.seeding import Stream, integer_seed
from flowrl.trajectory import Float32Array

T = TypeVar("T")


@dataclass(frozen=True)
class Primitives:
    """Data storage, replay manager and learner of a run, and where they are."""

    places: Placed
    storage: RowStorage
    replay_manager: ReplayManager
    learner: OffPolicyLearner


@dataclass(frozen=True)
class Placed:
    """The devices of the three, found on this machine."""

    replay_device: Device
    learner_device: Device
    storage_device: Device

    @classmethod
    def find(cls, placement: str) -> Placed:
        """Find the devices of `--placement`; raise ConfigError for one that is not here."""
        places = read_placement(placement)
        if places is None:
            raise ConfigError("--placement auto must be composed before a run begins")
        devices = {device.name: device for device in _devices(places)}
        for name, device in zip(places._fields, places, strict=True):
            if device not in devices:
                raise ConfigError(
                    f"--placement {name}={device} must be one of {', '.join(devices)}"
                    f"{suggestion(device, devices)}; python -m accel says why others are missing"
                )
        return cls(*(devices[device] for device in places))

    def __str__(self) -> str:
        """Return the devices as `--placement` names them."""
        devices = self.replay_device, self.learner_device, self.storage_device
        return str(Places(*(device.name for device in devices)))

    @property
    def torch_device(self) -> str:
        """Return torch's name of the learner's device; ConfigError where it has none."""
        return torch_device(self.learner_device)

    @property
    def are_joined(self) -> bool:
        """Tell whether replay manager and learner are on one device (PEARL's setting 2)."""
        return self.replay_device == self.learner_device

    def primitives(self, config: RunConfig, agent: OffPolicyAgent) -> Primitives:
        """Make all three with the sizes of a configuration."""
        storage = self.storage(config, agent.interface)
        manager, learner = self.replay_manager(config.replay, storage), self.learner(config, agent)
        return Primitives(self, storage, manager, learner)

    def storage(self, config: RunConfig, interface: Interface) -> RowStorage:
        """Allocate the rows of a run. SYCL's devices here compute in the processor's memory."""
        if self.storage_device.kind is Kind.CUDA:
            raise ConfigError(
                "--placement storage must be in the processor's memory, got "
                f"{self.storage_device.name}; use storage=cpu"
            )
        n_rows = min(config.replay.capacity, config.n_transitions)
        sizes = n_rows, interface.n_observations, interface.n_actions
        allocate = _pinned if config.replay.storage == "pinned" else zeros
        return RowStorage(*sizes, config.replay.file, allocate)

    def replay_manager(self, config: ReplayConfig, storage: RowStorage) -> ReplayManager:
        """Make the replay manager; its sum tree is on the device."""
        device = self.replay_device
        return _reported(
            "replay",
            device,
            lambda: ReplayManager(config, storage, device.backend, device.backend_device),
        )

    def learner(self, config: RunConfig, agent: OffPolicyAgent) -> OffPolicyLearner:
        """Make the learner, with the first parameters of the run's seed."""
        device = self.learner_device
        return _reported("learner", device, lambda: make_learner(device, config, agent))


def make_learner(device: Device, config: RunConfig, agent: OffPolicyAgent) -> OffPolicyLearner:
    """Make a learner on a device, with the first parameters of the run's seed."""
    make, n_threads = load_learner(OFF_POLICY_LEARNERS, config.learner), config.off_policy.threads
    where: tuple[object, ...] = (device.backend, n_threads, device.backend_device)
    if config.learner == "torch":
        where = (torch_device(device), n_threads)
    learner: OffPolicyLearner = make(agent, integer_seed(config.seed, Stream.LEARNER), *where)
    learner.load_parameters(agent.initial_parameters(config.seed))
    return learner


def _pinned(n: int) -> Float32Array:
    try:
        return cast(Float32Array, load(PINNED_MEMORY)(n))
    except (ImportError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"--replay.storage pinned needs torch and a CUDA device ({reason}); use memory"
        ) from error


def _devices(places: Places) -> tuple[Device, ...]:
    host = find_host()
    # Looking for the others takes a second.
    return (host,) if set(places) == {host.name} else find_devices()


def torch_device(device: Device) -> str:
    """Return torch's name of a device; ConfigError where it has none."""
    if device.kind is Kind.CPU:
        return "cpu"
    if device.kind is Kind.CUDA:
        return f"cuda:{device.backend_device or 0}"
    raise ConfigError(
        f"--placement learner={device.name} must be a CPU or a CUDA device where torch learns; "
        "use learner=cpu"
    )


def _reported(name: str, device: Device, make: Callable[[], T]) -> T:
    try:
        return make()
    except (BackendError, ValueError, RuntimeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"--placement {name}={device.name} can't be used: {error}") from error
