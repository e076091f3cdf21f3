"""What the benchmarks of off-policy learners learn: networks, options and a batch of each size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.interfaces import Batch, Dqn, Options, Sac, Td3, ddpg
from flowrl.networks import Activation, Column, Layers, perceptron, twins, uniform_weights

FloatArray = npt.NDArray[np.float32]

# Observations and actions: CartPole's for DQN, HalfCheetah's for the others.
SIZES = {"dqn": (4, 2), "ddpg": (17, 6), "td3": (17, 6), "sac": (17, 6)}


@dataclass(frozen=True)
class Workload:
    """One algorithm on networks of two hidden layers, and how many transitions a step learns."""

    algorithm: str
    width: int
    n_rows: int

    @property
    def n_observations(self) -> int:
        """Columns of an observation."""
        return SIZES[self.algorithm][0]

    @property
    def n_actions(self) -> int:
        """Dimensions of an action, or number of discrete ones."""
        return SIZES[self.algorithm][1]

    @property
    def n_critics(self) -> int:
        """Networks that estimate values."""
        return 2 if self.algorithm in ("td3", "sac") else 1

    @property
    def options(self) -> Options:
        """Options as the peers have them: plain DQN with Huber loss, an automatic temperature."""
        made: dict[str, Options] = {
            "dqn": Dqn(double=False, target_interval=1000),
            "ddpg": ddpg(),
            "td3": Td3(),
            "sac": Sac(target_entropy=-float(self.n_actions)),
        }
        return made[self.algorithm]

    @property
    def actor(self) -> Layers | None:
        """Layer table of the actor."""
        if self.algorithm == "dqn":
            return None
        is_sac = self.algorithm == "sac"
        end = Activation.IDENTITY if is_sac else Activation.TANH
        n_made = self.n_actions * (2 if is_sac else 1)
        widths = (self.width, self.width)
        return perceptron(self.n_observations, widths, n_made, Activation.RELU, end)

    @property
    def critic(self) -> Layers:
        """Layer table of the critics."""
        if self.algorithm == "dqn":
            widths = (self.width, self.width)
            return perceptron(self.n_observations, widths, self.n_actions, Activation.RELU)
        return twins(self.n_observations + self.n_actions, self.width, self.n_critics)

    def parameters(self, rng: np.random.Generator) -> FloatArray:
        """Draw flat parameters."""
        parts = [uniform_weights(t, rng) for t in (self.actor, self.critic) if t is not None]
        if self.algorithm == "sac":
            parts.append(np.zeros(1, np.float32))
        return np.concatenate(parts)

    def batch(self, rng: np.random.Generator, n_rows: int = 0) -> Batch:
        """Draw transitions, as many as a step learns unless told."""
        n = n_rows or self.n_rows
        observations, following = rng.normal(size=(2, n, self.n_observations)).astype(np.float32)
        actions = rng.uniform(-1, 1, (n, self.n_actions)).astype(np.float32)
        if self.algorithm == "dqn":
            actions = rng.integers(0, self.n_actions, (n, 1)).astype(np.float32)
        rewards = rng.normal(size=n).astype(np.float32)
        discounts = np.where(rng.random(n) < 0.05, 0, 0.99).astype(np.float32)
        return Batch(observations, actions, rewards, following, discounts, np.ones(n, np.float32))

    @property
    def n_operations(self) -> float:
        """Operations of the products that a step can't do without, the mean over its steps."""
        critics, first = _products(self.critic)
        if self.actor is None:
            return 2.0 * self.n_rows * (critics + 3 * critics - first)
        actor, actor_first = _products(self.actor)
        asked = critics if self.algorithm == "sac" else critics / self.n_critics
        # To the actions alone, not to all that the first layer reads.
        unread = first * self.n_observations / (self.n_observations + self.n_actions)
        through = asked - unread * asked / critics
        policy = 3 * actor - actor_first + asked + through
        delay = self.options.policy_delay if isinstance(self.options, Td3) else 1
        return 2.0 * self.n_rows * (actor + critics + 3 * critics - first + policy / delay)


def _products(layers: Layers) -> tuple[int, int]:
    """Count the multiply-adds of a row: of all layers, and of those that read the input."""
    products = layers[:, Column.N_IN].astype(np.int64) * layers[:, Column.N_OUT]
    return int(products.sum()), int(products[layers[:, Column.SOURCE] < 0].sum())
