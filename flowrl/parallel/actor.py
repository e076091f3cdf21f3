"""What an actor does, wherever it runs: its part of every collection, in order."""

from __future__ import annotations

from typing import Protocol, cast

from flowrl.acting import Acting, make_schedule
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.config import RunConfig
from flowrl.envs.interface import Interface
from flowrl.parallel.parcels import Header, Parcel, ParcelLayout
from flowrl.parallel.policies import Published
from flowrl.policies import PolicyArrays
from flowrl.registry import EnvironmentSource, build_agent
from flowrl.schedule import Schedule, share


class Link(Protocol):
    """An actor's way to the host."""

    def await_permit(self, number: int) -> Published | None:
        """Wait until collection `number` may begin; return the policy, if it is another one."""

    def parcel(self, number: int) -> Parcel:
        """Return the parcel to be filled with collection `number`."""

    def send(self, number: int) -> None:
        """Hand the filled parcel over."""


class Team:
    """Who owns which environments of a run, and how large the parcels are."""

    def __init__(self, config: RunConfig, interface: Interface, n_workers: int) -> None:
        """Deal contiguous shares of whole groups; workers without a share are left out.

        `interface` is that of the agent, whose actions the parcels hold.
        """
        self.schedule: Schedule = make_schedule(config, interface)
        shares = share(config.n_envs, n_workers, interface.agents_per_group)
        self.shares = shares[shares > 0]
        self.stops = self.shares.cumsum()
        first = self.schedule.outline()[0]
        self.n_steps = int(first.lengths.max())
        self.n_collections = -(-config.n_transitions // first.n_transitions)
        self._sizes = self.n_steps, interface.n_observations, interface.n_actions
        self.n_slots = config.parallel.lag + 1

    @property
    def n_workers(self) -> int:
        """Count the workers that have environments."""
        return len(self.shares)

    def envs(self, worker: int) -> tuple[int, int]:
        """Return the first global index of a worker's environments, and the one after its last."""
        stop = int(self.stops[worker])
        return stop - int(self.shares[worker]), stop

    def layout(self, worker: int) -> ParcelLayout:
        """Return the sizes of a worker's parcels."""
        return ParcelLayout(int(self.shares[worker]), *self._sizes)

    @property
    def n_bytes(self) -> int:
        """Count the bytes of all workers' rings of parcels."""
        return self.n_slots * sum(self.layout(w).n_bytes for w in range(self.n_workers))


class Setup:
    """What every process of a run makes of its configuration, alike."""

    def __init__(self, config: RunConfig, n_workers: int) -> None:
        """Read the environments and build the networks; raise ConfigError for what can't be."""
        self.config = config
        self.source = EnvironmentSource(config.env, config.env_args)
        self.interface: Interface = self.source.interface(config.n_envs)
        self.agent = cast(OffPolicyAgent, build_agent(config, self.interface))
        self.team = Team(config, self.agent.interface, n_workers)


class Actor:
    """One worker's environments, and its policy."""

    def __init__(self, setup: Setup, worker: int, life: int = 0) -> None:
        """Make the environments of a worker; `life` counts how often they were made."""
        self.team, self._worker, self._life = setup.team, worker, life
        first, stop = self.team.envs(worker)
        self._own = slice(first, stop)
        self.acting = Acting(setup.config, setup.agent, setup.source, first, stop, life)
        self._n_updates = 0

    @property
    def policy(self) -> PolicyArrays:
        """Return the policy that acts."""
        return self.acting.policy

    def run(self, link: Link, first: int = 0) -> None:
        """Make all collections from number `first` on."""
        transitions = 0
        for number, collection in enumerate(self.team.schedule.collections()):
            if number >= first:
                published = link.await_permit(number)
                if published is not None:
                    self.acting.follow(published.weights, published.mean, published.scale)
                    self._n_updates = published.n_updates
                lengths = collection.lengths[self._own]
                trajectory, episodes = self.acting.collect(lengths, transitions)
                header = self._header(number, len(episodes))
                link.parcel(number).write(header, trajectory, episodes)
                link.send(number)
            transitions += collection.n_transitions

    def _header(self, number: int, n_episodes: int) -> Header:
        n_blow_ups = int(self.acting.collector.n_blow_ups.sum())
        return Header(number, self._worker, self._life, self._n_updates, n_blow_ups, n_episodes)
