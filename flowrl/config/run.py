"""Hold the configuration of a training run: the experiment, its algorithm and its surroundings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from flowrl.config.checkpoint import CheckpointConfig
from flowrl.config.names import ConfigError
from flowrl.config.off_policy import (
    DdpgConfig,
    DqnConfig,
    OffPolicyConfig,
    ParallelConfig,
    ReplayConfig,
    SacConfig,
    Td3Config,
)
from flowrl.config.options import check_fields, choice, file, pairs, real, switch, text, whole
from flowrl.config.placement import read_placement

ALGORITHMS = ("ppo", "dqn", "ddpg", "td3", "sac")
BOOTSTRAPS = ("regular", "eoe", "pt")
LEARNERS = ("native", "torch")


@dataclass(frozen=True)
class PpoConfig:
    """Proximal policy optimisation (Schulman et al. 2017); other numbers: runs/published.toml."""

    gamma: float = real(0.99, "discount of the value one transition later [-]", 0, 1)
    gae_lambda: float = real(0.99, "decay of later temporal differences in an advantage [-]", 0, 1)
    clip: float = real(
        0.2, "largest rewarded change of the probability ratio [-]", 0, 1, above=True
    )
    entropy_coefficient: float = real(0.0, "weight of the entropy in the policy loss [-]", 0, 100)
    max_gradient_norm: float = real(
        0.5, "norm to which each network's gradient is clipped [-]", 0, 1e6, above=True
    )
    actor_learning_rate: float = real(
        5e-4, "Adam's learning rate of the actor [-]", 0, 1, above=True
    )
    critic_learning_rate: float = real(
        5e-3, "Adam's learning rate of the critic [-]", 0, 1, above=True
    )
    final_learning_rate: float = real(
        0.0, "learning rates at the end of the run, relative to the start; linear between [-]", 0, 1
    )
    n_transitions_per_update: int = whole(
        3200, "transitions of all environments together in one update", 1, 10**9
    )
    n_epochs: int = whole(8, "passes over the transitions of an update", 1, 10**4)
    n_minibatches: int = whole(8, "gradient steps in one pass", 1, 10**6)
    normalise_observations: bool = switch(
        True, "scale observations by their running mean and standard deviation"
    )
    observation_clip: float = real(
        10.0, "bound of a normalised observation [standard deviations]", 0, 1e6, above=True
    )
    normalise_advantages: bool = switch(
        True, "scale the advantages of an update to mean 0 and standard deviation 1"
    )
    max_skipped_gradients: int = whole(
        10, "non-finite gradients in a row after which the run stops", 1, 10**6
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "ppo.")
        if self.n_minibatches > self.n_transitions_per_update:
            raise ConfigError(
                "--ppo.n-minibatches must be at most --ppo.n-transitions-per-update "
                f"({self.n_transitions_per_update}), got {self.n_minibatches}; lower it"
            )


@dataclass(frozen=True)
class NetworkConfig:
    """Networks of two hidden layers."""

    actor_width: int = whole(
        0, "units in each hidden layer of the actor; 0: 64 for PPO, else 256", 0, 4096
    )
    critic_width: int = whole(
        0, "units in each hidden layer of the critics; 0: 64 for PPO, else 256", 0, 4096
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "network.")

    def of(self, algo: str) -> NetworkConfig:
        """Return the same with an algorithm's own widths where none are given."""
        width = 64 if algo == "ppo" else 256
        return NetworkConfig(self.actor_width or width, self.critic_width or width)


@dataclass(frozen=True)
class EvaluationConfig:
    """Score of the deterministic policy on held-out starts, beside no control."""

    at_end: bool = switch(True, "evaluate when the training has ended")
    n_episodes: int = whole(64, "episodes of each kind of control", 1, 10**6)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "evaluation.")


@dataclass(frozen=True)
class ProgressConfig:
    """What the terminal shows while the run goes on."""

    display: str = choice(
        "auto",
        "rich: a live table; plain: a line now and then; auto: rich on a terminal, else plain",
        ("auto", "rich", "plain", "none"),
    )
    interval: float = real(5.0, "time between two plain lines [s]", 0, 1e6)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "progress.")


@dataclass(frozen=True)
class RecordConfig:
    """What goes into the HDF5 file, and how often."""

    policy_interval: int = whole(1, "updates between two writings of the weights", 1, 10**9)

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "record.")


@dataclass(frozen=True)
class CommConfig:
    """How the ranks of an MPI job wait for each other."""

    polite: str = choice(
        "auto",
        "give the core away while waiting; auto: where ranks outnumber cores",
        ("auto", "on", "off"),
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "comm.")


@dataclass(frozen=True)
class RunConfig:
    """Train a policy on one process, or on N with `mpirun -n N python -m flowrl.train`."""

    algo: str = choice("ppo", "algorithm", ALGORITHMS)
    env: str = text(
        "shkadov:Shkadov-v0",
        "a Gymnasium id (MODULE:ID imports MODULE first) or PACKAGE:FUNCTION that makes one",
        "ENV",
    )
    env_args: dict[str, object] = pairs(
        "arguments of the environment, as in n_jets=5 preset=beacon"
    )
    n_envs: int = whole(8, "environments of all ranks together", 1, 10**6)
    n_transitions: int = whole(200_000, "transitions of the whole run", 1, 10**12)
    bootstrap: str = choice(
        "pt",
        "regular: a time limit ends the return; eoe: it continues with the value there; "
        "pt: eoe, and updates from partial trajectories",
        BOOTSTRAPS,
    )
    learner: str = choice("native", "code that computes the gradients", LEARNERS)
    placement: str = text(
        "cpu",
        "devices of replay manager, learner and data storage, off-policy: a device of "
        "python -m flowrl.compose; replay=DEVICE,learner=DEVICE,storage=DEVICE; or auto: the "
        "composer measures and chooses",
        "WHERE",
    )
    seed: int = whole(0, "seed of every random number of the run", 0, 2**63 - 1)
    out: Path | None = file("results; by default out/ALGO_ENV_seedSEED.h5", "FILE.h5")
    resume: Path | None = file(
        "continue the run in this file from its newest checkpoint, with its options; beside it "
        "may stand a larger --n-transitions, and what does not change the experiment",
        "RUN.h5",
    )
    overwrite: bool = switch(False, "replace an earlier run in the results file")
    dry_run: bool = switch(False, "print what would be done, and stop")
    ppo: PpoConfig = field(default_factory=PpoConfig)
    off_policy: OffPolicyConfig = field(default_factory=OffPolicyConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    dqn: DqnConfig = field(default_factory=DqnConfig)
    ddpg: DdpgConfig = field(default_factory=DdpgConfig)
    td3: Td3Config = field(default_factory=Td3Config)
    sac: SacConfig = field(default_factory=SacConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    progress: ProgressConfig = field(default_factory=ProgressConfig)
    record: RecordConfig = field(default_factory=RecordConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    comm: CommConfig = field(default_factory=CommConfig)

    def __post_init__(self) -> None:
        """Check every field, and the fields against each other."""
        check_fields(self)
        is_partial = self.algo == "ppo" and self.bootstrap == "pt"
        if is_partial and self.n_envs > self.ppo.n_transitions_per_update:
            raise ConfigError(
                "--n-envs must be at most --ppo.n-transitions-per-update "
                f"({self.ppo.n_transitions_per_update}), got {self.n_envs}"
                "; use fewer environments or larger updates"
            )

        places = read_placement(self.placement)
        if self.algo == "ppo" and places != read_placement("cpu"):
            raise ConfigError(
                f"--placement must be cpu for PPO, which has no replay, got {self.placement}"
                "; leave it out"
            )
        if self.algo == "ppo" and self.parallel.workers:
            raise ConfigError(
                "--parallel.workers must be 0 for PPO, which is parallel over the ranks of mpirun "
                f"-n N, got {self.parallel.workers}; or use --algo dqn, ddpg, td3 or sac"
            )

    def resolved(self) -> RunConfig:
        """Return the same with every number that was left to the algorithm."""
        return replace(self, network=self.network.of(self.algo))

    @property
    def output(self) -> Path:
        """Return the path of the results file."""
        if self.out is not None:
            return self.out
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", self.env.rpartition(":")[2]).strip("-.") or "env"
        return Path("out") / f"{self.algo}_{name[:100]}_seed{self.seed}.h5"
