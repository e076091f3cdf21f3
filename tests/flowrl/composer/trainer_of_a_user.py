"""A trainer as a user would write it: plain DQN, and nothing of flowrl."""

import numpy as np
import torch
from torch import nn


def network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


class TinyDqn:
    """Q-learning with a target network on CartPole."""

    input_shape = (4,)

    def __init__(self, width: int = 32) -> None:
        self.values, self.targets = network(width), network(width)
        self.targets.load_state_dict(self.values.state_dict())
        self.optimiser = torch.optim.Adam(self.values.parameters(), 1e-3)
        self.n_updates = 0

    def get_action(self, observation: np.ndarray) -> int:
        if np.random.default_rng().random() < 0.1:
            return int(np.random.default_rng().integers(2))
        with torch.no_grad():
            return int(self.values(torch.as_tensor(observation)[None]).argmax())

    def update_policy(self, batch) -> torch.Tensor:
        with torch.no_grad():
            following = self.targets(batch.next_observations).max(dim=1).values
        found = self.values(batch.observations).gather(1, batch.actions)[:, 0]
        td_errors = found - batch.rewards - batch.discounts * following
        loss = (batch.weights * td_errors**2).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.n_updates += 1
        if self.n_updates % 100 == 0:
            self.targets.load_state_dict(self.values.state_dict())
        return td_errors.detach().abs()


class AnyOptions(TinyDqn):
    """Takes options of any name."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options


class NeverFinite(TinyDqn):
    """Returns errors that are no numbers."""

    def update_policy(self, batch) -> torch.Tensor:
        return torch.full((len(batch.rewards),), float("nan"))
