"""Configuration of the off-policy algorithms: their replay, their schedule, their own numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flowrl.config.names import ConfigError
from flowrl.config.options import check_fields, choice, file, real, switch, whole

PRIORITIES = ("uniform", "prioritized")
STORAGES = ("memory", "pinned", "file")
SETTINGS = ("auto", "relayed", "joined")
ITERATIONS = ("strict", "relaxed", "pipelined")


@dataclass(frozen=True)
class OffPolicyConfig:
    """Schedule of every off-policy algorithm."""

    gamma: float = real(0.99, "discount of the value one transition later [-]", 0, 1)
    n_steps: int = whole(1, "rewards summed before the value takes over", 1, 1000)
    learning_starts: int = whole(1000, "transitions by random actions at first", 0, 10**12)
    updates_per_transition: float = real(
        1.0, "updates for each transition after those [-]", 0, 1000, above=True
    )
    steps_per_collection: int = whole(
        1, "steps of each environment between two rounds of updates", 1, 10**6
    )
    reward_scale: float = real(1.0, "factor of the rewards that are learnt [-]", 0, 1e9, above=True)
    normalise_observations: bool = switch(
        False, "scale observations by their mean and deviation over the random transitions"
    )
    observation_clip: float = real(
        10.0, "bound of a normalised observation [standard deviations]", 0, 1e6, above=True
    )
    threads: int = whole(1, "threads of the learner on the processor", 1, 1024)
    report_interval: int = whole(1000, "transitions between two rows of results", 1, 10**9)
    max_skipped_gradients: int = whole(
        10, "non-finite updates in a row after which the run stops", 1, 10**6
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "off_policy.")


@dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer (Schaul et al. 2016)."""

    capacity: int = whole(1_000_000, "transitions kept; the oldest go first", 1, 10**12)
    batch_size: int = whole(256, "rows of an update", 1, 10**6)
    priorities: str = choice("uniform", "how the rows of an update are drawn", PRIORITIES)
    actor_batches: str = choice(
        "same",
        "rows of an actor's step: those of the critics, or uniform ones",
        ("same", "uniform"),
    )
    priority_exponent: float = real(0.6, "exponent of a row's error in its priority [-]", 0, 10)
    weight_exponent: float = real(
        0.4, "first exponent of the importance weights; 1 at the end [-]", 0, 1
    )
    priority_offset: float = real(1e-6, "least error of a row [return]", 0, 1e6, above=True)
    fanout: int = whole(16, "children of a node of the sum tree: a power of two", 2, 64)
    storage: str = choice(
        "memory", "where the rows are kept; pinned: in memory that a GPU copies from", STORAGES
    )
    file: Path | None = file("file of the rows, for --replay.storage file", "FILE")

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "replay.")
        if self.fanout & (self.fanout - 1):
            raise ConfigError(
                f"--replay.fanout must be a power of two from 2 to 64, got {self.fanout}"
            )
        if self.batch_size > self.capacity:
            raise ConfigError(
                f"--replay.batch-size must be at most --replay.capacity ({self.capacity}), "
                f"got {self.batch_size}; lower it, or keep more rows"
            )
        if (self.storage == "file") != (self.file is not None):
            raise ConfigError(
                "--replay.file goes with --replay.storage file, got storage "
                f"{self.storage} and file {self.file}"
            )


@dataclass(frozen=True)
class ParallelConfig:
    """Who acts beside the learner: local processes, or the other ranks of `mpirun -n N`."""

    workers: int = whole(0, "local processes that act; 0: this one, in turn with learning", 0, 4096)
    lag: int = whole(2, "collections that acting may be ahead of the updates that are due", 0, 100)
    policy: str = choice(
        "newest",
        "whose policy acts: newest, or that of exactly --parallel.lag collections before, which "
        "makes runs repeatable",
        ("newest", "lagged"),
    )
    setting: str = choice(
        "auto",
        "replay manager and learner: joined in one thread, or relayed by the host between two; "
        "auto: joined where both are on one device",
        SETTINGS,
    )
    iteration: str = choice(
        "strict",
        "what goes on while a batch is learnt, setting relayed. strict: new rows are stored; "
        "relaxed: and the last batch's priorities set; pipelined: and the next batch drawn",
        ITERATIONS,
    )
    max_replacements: int = whole(
        10, "local processes that may be replaced after they died before the run ends", 0, 10**6
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "parallel.")
        if self.iteration != "strict" and self.setting == "joined":
            raise ConfigError(
                f"--parallel.iteration must be strict in setting joined, got {self.iteration}; "
                "use --parallel.setting relayed"
            )


@dataclass(frozen=True)
class DqnConfig:
    """Double DQN (Mnih et al. 2015, van Hasselt et al. 2016)."""

    learning_rate: float = real(1e-3, "Adam's learning rate [-]", 0, 1, above=True)
    double: bool = switch(True, "let the network choose the action that its target values")
    huber_delta: float = real(1.0, "error from which the loss is linear [return]", 0, above=True)
    max_gradient_norm: float = real(10.0, "norm to which a gradient is clipped", 0, above=True)
    target_interval: int = whole(500, "updates between two copies to the target network", 1, 10**9)
    target_rate: float = real(1.0, "share of the network in such a copy [-]", 0, 1, above=True)
    first_epsilon: float = real(1.0, "probability of a random action at first [-]", 0, 1)
    final_epsilon: float = real(0.05, "probability of a random action at last [-]", 0, 1)
    exploration_share: float = real(
        0.1, "share of the run, from its start, over which it falls [-]", 0, 1, above=True
    )
    n_levels: int = whole(5, "levels of each component of a continuous action", 2, 4096)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "dqn.")


@dataclass(frozen=True)
class DdpgConfig:
    """DDPG (Lillicrap et al. 2016)."""

    actor_learning_rate: float = real(1e-3, "Adam's learning rate of the actor", 0, 1, above=True)
    critic_learning_rate: float = real(1e-3, "Adam's learning rate of the critic", 0, 1, above=True)
    exploration_noise: float = real(
        0.1, "standard deviation of the noise on actions [half range]", 0, 10
    )
    target_rate: float = real(0.005, "share of the networks in each target step", 0, 1, above=True)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "ddpg.")


@dataclass(frozen=True)
class Td3Config:
    """TD3 (Fujimoto et al. 2018)."""

    actor_learning_rate: float = real(1e-3, "Adam's learning rate of the actor", 0, 1, above=True)
    critic_learning_rate: float = real(
        1e-3, "Adam's learning rate of the critics", 0, 1, above=True
    )
    exploration_noise: float = real(
        0.1, "standard deviation of the noise on actions [half range]", 0, 10
    )
    target_noise: float = real(0.2, "standard deviation of the noise on target actions", 0, 10)
    noise_clip: float = real(0.5, "bound of that noise [half range]", 0, 10)
    policy_delay: int = whole(2, "updates of the critics to one of the actor", 1, 10**6)
    target_rate: float = real(0.005, "share of the networks in each target step", 0, 1, above=True)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "td3.")


@dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic with an automatic temperature (Haarnoja et al. 2018)."""

    actor_learning_rate: float = real(3e-4, "Adam's learning rate of the actor", 0, 1, above=True)
    critic_learning_rate: float = real(
        3e-4, "Adam's learning rate of the critics", 0, 1, above=True
    )
    temperature_learning_rate: float = real(
        3e-4, "Adam's learning rate of log(temperature); 0: fixed", 0, 1
    )
    initial_temperature: float = real(1.0, "first weight of the entropy", 0, 1e6, above=True)
    target_entropy: float = real(-1.0, "entropy aimed at [nat per action component]", -100.0, 100.0)
    target_rate: float = real(0.005, "share of the networks in each target step", 0, 1, above=True)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "sac.")
