"""Off-policy trainers: in turn in one process, or with local workers or MPI ranks that act."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flowrl.acting import Acting, set_policy
from flowrl.comm import Communicator
from flowrl.config import ConfigError, RunConfig
from flowrl.learning import Learning
from flowrl.networks import Weights
from flowrl.off_policy import OffPolicyReport, OffPolicyTrainer, plan_rows
from flowrl.parallel.actor import Actor, Setup
from flowrl.parallel.host import Host
from flowrl.parallel.local import LocalActors
from flowrl.parallel.ranks import RankActors, RankLink
from flowrl.parallel.transport import Transport
from flowrl.placed import Placed, Primitives
from flowrl.plan import PlanRows, spread
from flowrl.policies import PolicyArrays
from flowrl.replay.storage import free_memory
from flowrl.stopwatch import Stopwatch
from flowrl.trainer import Trainer, TrainingError, Unsaved
from flowrl.trajectory import Float64Array

_WHY_NOT = (
    "without --parallel.workers and, but for PPO, on one rank: actors that are parallel to the "
    "learner are not saved"
)


def make_trainer(
    config: RunConfig, comm: Communicator, primitives: Primitives | None = None
) -> Trainer:
    """Make this rank's part of an off-policy run; raise ConfigError for what can't be trained.

    One rank without workers acts and learns in turn; else root learns and the others act.
    `primitives`, if given, are what root learns with.
    """
    workers = config.parallel.workers
    if workers and comm.size > 1:
        raise ConfigError(
            f"--parallel.workers must be 0 where mpirun starts several ranks, got {workers} and "
            f"{comm.size} ranks: root learns and the other {comm.size - 1} act"
        )
    if comm.rank > 0:
        return ActorRank(config, comm)
    if workers or comm.size > 1:
        return ParallelTrainer(config, comm, primitives)
    return OffPolicyTrainer(config, comm, primitives)


class ParallelTrainer(Unsaved):
    """Host, replay manager and learner of a run whose actors are elsewhere."""

    why_not = _WHY_NOT

    def __init__(
        self, config: RunConfig, comm: Communicator, primitives: Primitives | None = None
    ) -> None:
        """Make the networks, and the primitives unless they are given; raise ConfigError."""
        self._config, self._comm = config, comm
        super().__init__()
        self._setup = Setup(config, config.parallel.workers or comm.size - 1)
        self.interface, self.agent = self._setup.interface, self._setup.agent
        self._check_workers()
        self._check_memory()
        watch = Stopwatch()
        made = primitives or Placed.find(config.placement).primitives(config, self.agent)
        self.learning = Learning(config, self.agent.interface, watch, made)
        # One group of environments, which nobody trains on: for what the others are asked, too.
        group = self.interface.agents_per_group
        self._sample = Acting(config, self.agent, self._setup.source, 0, group)
        self._host = Host(config, self._setup.team, self.learning, watch, self.setting)
        self._transport = self._make_transport()

    def _check_workers(self) -> None:
        workers, most = self._config.parallel.workers, self._setup.team.n_workers
        if workers > most:
            raise ConfigError(
                f"--parallel.workers must be at most the {most} environments (or groups of agents "
                f"that step together), got {workers}"
            )

    def _check_memory(self) -> None:
        needed, free = self._setup.team.n_bytes, free_memory()
        if free is not None and needed > free:
            raise ConfigError(
                f"--parallel.lag {self._config.parallel.lag} needs {needed / 2**30:.2f} GiB for "
                f"messages, and {free / 2**30:.2f} GiB of memory are free; lower it, --n-envs or "
                "--off-policy.steps-per-collection"
            )

    def _make_transport(self) -> Transport:
        team = self._setup.team
        if self._config.parallel.workers:
            return LocalActors(self._config, team, self.policy)
        return RankActors(self._comm, team, self.policy)

    @property
    def setting(self) -> str:
        """Return how replay manager and learner are joined: "joined" or "relayed"."""
        parallel = self._config.parallel
        if parallel.setting != "auto":
            return parallel.setting
        is_joined = self.learning.places.are_joined and parallel.iteration == "strict"
        return "joined" if is_joined else "relayed"

    @property
    def policy(self) -> PolicyArrays:
        """Return a policy of this process; `publish_policy` makes it the newest one."""
        return self._sample.policy

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""
        return self._sample.collector.env_parameters

    def parameters(self) -> Weights:
        """Return the actor's weights, then the critics', as of the latest report."""
        latest = self._host.parameters
        return self.learning.learner.parameters() if latest is None else latest

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which observations are scaled."""
        return self.learning.mean, self.learning.std

    def publish_policy(self) -> None:
        """Copy the latest report's actor and normalisation into the policy."""
        learning, n = self.learning, len(self.policy.weights)
        set_policy(self.policy, self.parameters()[:n], learning.mean, 1.0 / learning.std)

    def warm_up(self) -> None:
        """Compile all that is called here, and start local workers."""
        self._sample.collector.compile()
        try:
            self._transport.start()
        except TrainingError as error:
            raise ConfigError(str(error)) from error

    def updates(self) -> Iterator[OffPolicyReport]:
        """Train to the end; yield a report every `report_interval` transitions and at the end."""
        return self._host.run(self._transport)

    def close(self) -> None:
        """End threads and workers."""
        self._host.close()
        self._sample.close()
        self._transport.close()

    def plan(self) -> PlanRows:
        """Say how the run is spread over workers, environments, updates and memory."""
        team, parallel = self._setup.team, self._config.parallel
        n_idle = self._comm.size - 1 - team.n_workers
        ranks = f"{team.n_workers} ranks, root learns" + (f", {n_idle} idle" * (n_idle > 0))
        return [
            ("workers", f"{parallel.workers} local processes" if parallel.workers else ranks),
            ("environments", str(self._config.n_envs)),
            ("environments per worker", spread(team.shares)),
            ("collections", f"{team.n_collections:,}"),
            ("collections ahead of the updates", f"{parallel.lag}, {parallel.policy} policy"),
            ("replay manager and learner", self.setting),
            ("memory of messages", f"{team.n_bytes / 2**20:.3f} MiB"),
            *plan_rows(self._config, self.learning),
        ]


class ActorRank(Unsaved):
    """An MPI rank that acts; one for which there is no environment does nothing."""

    why_not = _WHY_NOT

    def __init__(self, config: RunConfig, comm: Communicator) -> None:
        """Make this rank's environments; raise ConfigError for what can't be."""
        self._config, self._comm = config, comm
        super().__init__()
        setup = Setup(config, comm.size - 1)
        self.interface, self.agent, team = setup.interface, setup.agent, setup.team
        # Idle rather than refused: a batch system often fixes the number of ranks.
        worker = comm.rank - 1
        self._actor = Actor(setup, worker) if worker < team.n_workers else None

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that acts."""
        return self._busy.policy

    @property
    def _busy(self) -> Actor:
        if self._actor is None:
            raise TrainingError(f"rank {self._comm.rank} has no environment, so no policy")
        return self._actor

    @property
    def environment_parameters(self) -> dict[str, object]:
        """Return the numbers that the environments say they are made with."""
        return self._actor.acting.collector.env_parameters if self._actor is not None else {}

    def parameters(self) -> Weights:
        """Return the actor's weights: the critics are root's."""
        return self.policy.weights

    def normalisation(self) -> tuple[Float64Array, Float64Array]:
        """Return the mean and standard deviation by which observations are scaled."""
        mean, scale = self.policy.observation_mean, self.policy.observation_scale
        return mean.astype(np.float64), 1.0 / scale.astype(np.float64)

    def publish_policy(self) -> None:
        """Do nothing: the policy comes from root."""

    def warm_up(self) -> None:
        """Compile the rollout, or load it from the cache."""
        if self._actor is not None:
            self._actor.acting.collector.compile()

    def updates(self) -> Iterator[None]:
        """Act to the end; yield nothing."""
        if self._actor is not None:
            team, newest = self._actor.team, self._config.parallel.policy == "newest"
            link = RankLink(self._comm, team, self._actor.policy, newest)
            self._actor.run(link)
            link.finish()
        yield from ()

    def close(self) -> None:
        """Close the environments."""
        if self._actor is not None:
            self._actor.acting.close()

    def plan(self) -> PlanRows:
        """Say nothing: root does."""
        return []
