"""A trainer class in plain torch, composed like flowrl's own: Q-learning on CartPole.

python runs/examples/own_trainer.py runtime_own.py
python runtime_own.py
"""

import sys

import numpy as np
import torch
from torch import nn

from flowrl.composer import Composer
from flowrl.composer.trainers import Batch


def network(width: int) -> nn.Module:
    """Return values of both actions."""
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


class QLearner:
    """Q-learning with a target network. Networks are attributes, so that they are found."""

    input_shape = (4,)  # of one observation

    def __init__(self, width: int = 64, learning_rate: float = 1e-3, epsilon: float = 0.1) -> None:
        self.values, self.targets = network(width), network(width)
        self.targets.load_state_dict(self.values.state_dict())
        self.optimiser = torch.optim.Adam(self.values.parameters(), learning_rate)
        self.epsilon, self.n_updates = epsilon, 0

    def get_action(self, observation: np.ndarray) -> int:
        """Explore now and then, else take the better action."""
        if torch.rand(()) < self.epsilon:
            return int(torch.randint(2, ()))
        with torch.no_grad():
            return int(self.values(torch.from_numpy(observation)[None]).argmax())

    def update_policy(self, batch: Batch) -> torch.Tensor:
        """Make one step on a batch; its discounts are gamma, 0 where the pole fell."""
        with torch.no_grad():
            following = self.targets(batch.next_observations).max(dim=1).values
        found = self.values(batch.observations).gather(1, batch.actions)[:, 0]
        errors = found - batch.rewards - batch.discounts * following
        loss = (batch.weights * errors**2).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.n_updates += 1
        if self.n_updates % 200 == 0:
            self.targets.load_state_dict(self.values.state_dict())
        return errors.detach().abs()


def main(path: str, quick: bool = False) -> None:
    """Compose, and write the program."""
    composer = Composer()
    composer.set_actors("CartPole-v1", n_envs=4, n_transitions=20_000)
    composer.set_train_function(QLearner, width=64)
    composer.set_replay(kind="prioritized", capacity=20_000, batch_size=64)
    composer.RuntimeGen(composer.run(n_iterations=50 if quick else 1000), path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runtime_own.py", "--quick" in sys.argv)
