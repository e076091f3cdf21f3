"""The user's view of PEARL: say what is trained, and get where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowrl.composer.accelerators import Accelerators
from flowrl.composer.cost_file import load_costs
from flowrl.composer.costs import Costs, DeviceCosts
from flowrl.composer.cpu_split import Split
from flowrl.composer.description import TrainerDescription
from flowrl.composer.hardware import HardwareSpec
from flowrl.composer.placement import DEFAULT_TIE, Metric, Mode, Placement, member
from flowrl.composer.placement import compose as choose
from flowrl.composer.profile import N_ITERATIONS, Effort, Profile, profile
from flowrl.composer.training import Actors, Replay, Training
from flowrl.composer.workload import Workload
from flowrl.config import ConfigError, ReplayConfig, RunConfig
from flowrl.config.names import shown, suggestion
from flowrl.config.toml import from_mapping
from flowrl.learners.off_policy import OffPolicyLearner
from flowrl.registry import EnvironmentSource, load
from flowrl.replay import ReplayManager, RowStorage


@dataclass(frozen=True, eq=False)
class CompositionResult:
    """Where each part of a training runs, and what makes it there."""

    placement: Placement
    matrix: Costs
    spec: HardwareSpec
    workload: Workload
    trainer: TrainerDescription
    trainer_class: type[Any]
    trainer_options: Mapping[str, Any]  # of a trainer of the user's own
    config: RunConfig  # of the training; a user's own trainer acts and learns as it likes
    accelerators: Accelerators
    split: Split
    profile: Profile | None  # None where costs were given

    def make_storage(self) -> RowStorage:
        """Allocate the rows."""
        return self.accelerators.make_storage()

    def make_replay_manager(self, storage: RowStorage | None = None) -> ReplayManager:
        """Make the replay manager on its device, with a storage of its own unless given."""
        device = self.spec.device(self.placement.replay_manager)
        storage = self.make_storage() if storage is None else storage
        return self.accelerators.make_replay_manager(device, storage)

    def make_learner(self) -> OffPolicyLearner:
        """Make the learner on its device."""
        return self.accelerators.make_learner(self.spec.device(self.placement.learner))


class Composer:
    """Collects what is to be trained; `run` places it, `RuntimeGen` writes the program.

    composer = Composer("hardware.toml")
    composer.set_actors("CartPole-v1")
    composer.set_train_function(DQN, learning_rate=1e-3)
    composer.set_replay(kind="prioritized", capacity=100_000)
    composer.RuntimeGen(composer.run(), "runtime_dqn.py")
    """

    def __init__(
        self,
        hardware: HardwareSpec | Path | str | None = None,
        metric: str = Metric.THROUGHPUT,
        mode: str = Mode.STRICT,
        tie: float = DEFAULT_TIE,
    ) -> None:
        """Take a machine, or the file that describes it; None: this one is looked at by `run`."""
        self._spec = _machine(hardware)
        self._metric, self._mode = member(Metric, metric, "metric"), member(Mode, mode, "mode")
        if isinstance(tie, bool) or not isinstance(tie, (int, float)) or not 0 <= tie < 1:
            raise ConfigError(f"tie must be a number from 0 and below 1, got {shown(tie)}; try 0")
        self._tie = float(tie)
        self._actors: Actors | None = None
        self._trainer: tuple[type[Any], dict[str, Any]] | None = None
        self._replay: Replay | None = None

    def set_actors(
        self,
        env: str,
        n_envs: int = 1,
        env_args: Mapping[str, Any] | None = None,
        n_transitions: int = 200_000,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        """Say what acts: a Gymnasium id, a factory "pkg:make", or the film, and how much.

        `workers` are processes that act beside the learner; 0: the learner's own, in turns.
        """
        if not isinstance(env, str):
            raise ConfigError(
                f"set_actors must get a Gymnasium id or PACKAGE:FUNCTION, got {shown(env)}; "
                'for instance "CartPole-v1"'
            )
        if env_args is not None and not isinstance(env_args, Mapping):
            raise ConfigError(
                f"env_args must be a dict of arguments, got {shown(env_args)}; for instance "
                '{"n_jets": 5}'
            )
        values = {
            "algo": "dqn",
            "env": env,
            "n_envs": n_envs,
            "env_args": dict(env_args or {}),
            "n_transitions": n_transitions,
            "seed": seed,
            "parallel": {"workers": workers},
        }
        config = from_mapping(RunConfig, values)
        source = EnvironmentSource(env, config.env_args)
        self._actors = Actors(source, source.interface(config.n_envs), config)

    def set_train_function(self, trainer_class: type[Any], **options: Any) -> None:
        """Say what learns: a trainer class, and its options.

        Options are arguments of a class of yours; of the project's DQN, DDPG, TD3 and SAC the
        settings of the algorithm, `gamma`, `n_steps` and the like, `actor_width`, `critic_width`.
        """
        if not inspect.isclass(trainer_class):
            raise ConfigError(
                f"set_train_function must get a class, got {shown(trainer_class)}; give the class "
                "itself, not an object of it"
            )
        self._trainer = trainer_class, options

    def set_replay(
        self,
        kind: str = "prioritized",
        capacity: int = 1_000_000,
        fanout: int = 16,
        batch_size: int = 256,
        insert_size: int = 1,
        priority_exponent: float = 0.6,
        weight_exponent: float = 0.4,
    ) -> None:
        """Say what is kept and how it is drawn; `insert_size` new rows come to each update."""
        if kind not in ("prioritized", "uniform"):
            close = suggestion(str(kind), ("prioritized", "uniform"))
            raise ConfigError(f"kind must be prioritized or uniform, got {shown(kind)}{close}")
        if isinstance(insert_size, bool) or not isinstance(insert_size, int) or insert_size < 1:
            raise ConfigError(
                f"insert_size must be a whole number from 1, got {shown(insert_size)}; try 1"
            )
        values = {
            "priorities": kind,
            "capacity": capacity,
            "fanout": fanout,
            "batch_size": batch_size,
            "priority_exponent": priority_exponent,
            "weight_exponent": weight_exponent,
        }
        from_mapping(ReplayConfig, values)
        if insert_size > capacity:
            raise ConfigError(
                f"insert_size must be at most capacity ({capacity}), got {insert_size}; lower it"
            )
        self._replay = Replay(values, insert_size)

    def run(
        self,
        costs: Costs | Path | str | None = None,
        n_iterations: int = N_ITERATIONS,
        cached: bool = True,
    ) -> CompositionResult:
        """Place everything: by given costs, or by what is measured here in so many iterations.

        `cached` measurements of the same hardware and workload are taken if there are any.
        """
        if not isinstance(cached, bool):
            raise ConfigError(f"cached must be True or False, got {shown(cached)}; leave it out")
        effort = Effort(n_iterations, is_cached=cached)
        actors, (cls, options), replay = self._complete()
        spec = HardwareSpec.detect() if self._spec is None else self._spec
        training = Training(actors, cls, options, replay)
        accelerators, split = training.accelerators, training.one_thread(spec)
        found: Profile | None = None
        if costs is None:
            split = training.split(spec)
            accelerators = training.with_threads(split.n_learner)
            found = profile(spec, accelerators, self._mode, effort)
            matrix = found.costs
        else:
            matrix = load_costs(costs, spec) if isinstance(costs, (str, Path)) else costs
            _check_names(matrix, spec)
        placement = choose(spec, training.workload, matrix, self._metric, self._mode, self._tie)
        return CompositionResult(
            placement,
            matrix,
            spec,
            training.workload,
            training.description,
            cls,
            {} if training.is_native else options,
            accelerators.config,
            accelerators,
            split,
            found,
        )

    def RuntimeGen(
        self, result: CompositionResult, path: Path | str, target_score: float | None = None
    ) -> None:
        """Write a complete program that trains as placed: `python PATH`.

        It ends after the transitions that were set, or when the mean return of the latest episodes
        reaches `target_score`. A file that is there is replaced.
        """
        if not isinstance(result, CompositionResult):
            raise ConfigError(
                f"RuntimeGen must get what run() returned, got {shown(result)}; "
                "write composer.RuntimeGen(composer.run(), PATH)"
            )
        if not isinstance(path, (str, Path)):
            raise ConfigError(
                f"the program must be a .py file, got {shown(path)}; for instance runtime_dqn.py"
            )
        load("flowrl.composer.runtime:generate")(result, Path(path), target_score)

    def _complete(self) -> tuple[Actors, tuple[type[Any], dict[str, Any]], Replay]:
        """Return all that has been set; ConfigError for what has not."""
        if self._actors is None:
            raise ConfigError(_missing("set_actors", 'set_actors("CartPole-v1")'))
        if self._trainer is None:
            raise ConfigError(_missing("set_train_function", "set_train_function(DQN)"))
        if self._replay is None:
            raise ConfigError(_missing("set_replay", 'set_replay(kind="prioritized")'))
        return self._actors, self._trainer, self._replay


def _missing(name: str, example: str) -> str:
    return f"run must come after {name}, got no such call; call composer.{example} first"


def _machine(hardware: object) -> HardwareSpec | None:
    if hardware is None or isinstance(hardware, HardwareSpec):
        return hardware
    if isinstance(hardware, (str, Path)):
        return HardwareSpec.load(hardware)
    raise ConfigError(
        f"hardware must be a file, a HardwareSpec or nothing, got {shown(hardware)}; "
        "leave it out for this machine"
    )


def _check_names(costs: Costs, spec: HardwareSpec) -> None:
    is_table = isinstance(costs, Mapping)
    if not is_table or not all(isinstance(device, DeviceCosts) for device in costs.values()):
        raise ConfigError(
            f"costs must be a file or DeviceCosts by device, got {shown(costs)}; leave them out to "
            "measure"
        )
    missing = [name for name in spec.names if name not in costs]
    if missing:
        raise ConfigError(
            f"costs must have every device of the hardware, got none of {missing[0]}; add it"
        )
