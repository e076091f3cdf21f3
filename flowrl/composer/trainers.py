"""DQN, DDPG, TD3 and SAC as trainer classes in plain torch: to use, to read and to subclass.

A trainer has networks of `nn.Linear` (or `nn.Conv2d`), an `input_shape`, and two methods:

    get_action(observation)   an action as the environment takes it, for one observation
    update_policy(batch)      one step on a `Batch`; returns the rows' absolute TD errors (n,)

The composer recognises these classes and gives them the fused learner of a backend, networks of
other sizes included (override `make_network`, or give widths). A subclass that overrides one of
the two methods, like any other class that has both, runs as the torch code it is.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar, NamedTuple, cast

import gymnasium
import numpy as np
import torch
from torch import nn

from accel.interfaces import Adam, Dqn, Sac, Td3
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.config import RunConfig
from flowrl.envs.interface import read_interface
from flowrl.learners import torch_losses as losses
from flowrl.learners.torch_losses import TorchBatch

_Observation = np.ndarray[Any, np.dtype[Any]]


class Batch(NamedTuple):
    """Transitions of one update; torch, float32 but for choices, on the trainer's device."""

    observations: torch.Tensor  # (n, *input_shape)
    actions: torch.Tensor  # (n, n_actions) as `get_action` gave them; choices: (n, 1) int64
    rewards: torch.Tensor  # (n,) discounted sum over n_steps
    next_observations: torch.Tensor  # (n, *input_shape)
    discounts: torch.Tensor  # (n,) factor of the next value: gamma^n_steps, 0 where terminated
    weights: torch.Tensor  # (n,) importance weights


class Trainer:
    """What the four have in common: spaces, options, and a way to act."""

    algo: ClassVar[str]

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: RunConfig | None = None,
    ) -> None:
        """Read the spaces; `config` has the algorithm's own numbers and the networks' widths."""
        config = RunConfig(algo=self.algo) if config is None else config
        interface = read_interface(observation_space, action_space, None)
        agent = OffPolicyAgent.build(config, interface)
        self.interface, self.options = agent.interface, agent.options
        self.widths = config.network.of(self.algo)
        self.input_shape = (interface.n_observations,)
        self.n_updates = 0
        # How much `get_action` adds to the policy, see `flowrl.agents.off_policy.exploration`;
        # 0: the best that is known.
        self.exploration = 0.0

    def make_network(
        self, n_inputs: int, n_outputs: int, width: int, end: nn.Module | None = None
    ) -> nn.Module:
        """Make one network; override this for another shape."""
        layers = [nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        layers += [nn.Linear(width, n_outputs), *([] if end is None else [end])]
        return nn.Sequential(*layers)

    def get_action(self, observation: _Observation) -> Any:
        """Return the action for one observation (n_observations,)."""
        raise NotImplementedError

    def update_policy(self, batch: Batch) -> torch.Tensor:
        """Make one step; return the rows' absolute TD errors (n,)."""
        raise NotImplementedError

    @staticmethod
    def _outputs(network: nn.Module, observation: _Observation) -> torch.Tensor:
        """Evaluate a network on one observation, wherever the network is: (1, n_outputs)."""
        device = next(network.parameters()).device
        row = torch.as_tensor(observation, dtype=torch.float32).reshape(1, -1)
        outputs: torch.Tensor = network(row.to(device)).cpu()
        return outputs

    def _as_environment(self, action: torch.Tensor) -> Any:
        """Scale an action in -1..1 to the box of the environment."""
        scaled = self.interface.action_offset + self.interface.action_scale * action.numpy()
        return scaled.astype(np.float32)

    def _rows(self, batch: Batch) -> TorchBatch:
        """Return a batch whose actions are in -1..1, or choices."""
        scale = torch.as_tensor(self.interface.action_scale, device=batch.actions.device)
        offset = torch.as_tensor(self.interface.action_offset, device=batch.actions.device)
        actions = batch.actions
        if self.interface.is_box and self.interface.is_discrete:
            actions = self._choices(actions)
        elif self.interface.is_box:
            actions = (actions - offset) / scale
        return TorchBatch(
            **{**batch._asdict(), "actions": actions}, actor_observations=batch.observations
        )

    def _choices(self, actions: torch.Tensor) -> torch.Tensor:
        """Return which row of the action table each action is: (n, 1)."""
        table = torch.as_tensor(self.interface.action_table, device=actions.device)
        return torch.cdist(actions, table).argmin(dim=1, keepdim=True)


class DQN(Trainer):
    """Double DQN (Mnih et al. 2015, van Hasselt et al. 2016)."""

    algo = "dqn"

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: RunConfig | None = None,
    ) -> None:
        """Make the network of action values and its target."""
        super().__init__(observation_space, action_space, config)
        sizes = self.interface.n_observations, self.interface.n_choices
        self.network = self.make_network(*sizes, self.widths.critic_width)
        self.target = deepcopy(self.network)
        self.optimiser = _adam(self.network, cast(Dqn, self.options).optimiser)

    @torch.no_grad()
    def get_action(self, observation: _Observation) -> Any:
        """Return the choice of largest value, or any with probability `exploration`."""
        choice = int(self._outputs(self.network, observation).argmax())
        if float(torch.rand(())) < self.exploration:
            choice = int(torch.randint(self.interface.n_choices, ()))
        return self.interface.action_table[choice] if self.interface.is_box else choice

    def update_policy(self, batch: Batch) -> torch.Tensor:
        """Make one step; return the rows' absolute TD errors (n,)."""
        options, rows = cast(Dqn, self.options), self._rows(batch)
        with torch.no_grad():
            targets = losses.dqn_targets(options, self.network, self.target, rows)
        critic = losses.critic_loss(options, self.network, rows, targets)
        _descend(self.optimiser, critic.loss, options.optimiser.max_gradient_norm)
        self.n_updates += 1
        if self.n_updates % options.target_interval == 0:
            _follow(self.target, self.network, options.target_rate)
        return critic.td_errors


class ActorCritic(Trainer):
    """What DDPG, TD3 and SAC have in common: an actor, and critics of observation and action."""

    n_critics: ClassVar[int]

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: RunConfig | None = None,
    ) -> None:
        """Make the actor, the critics and the critics' targets."""
        super().__init__(observation_space, action_space, config)
        n, n_actions = self.interface.n_observations, self.interface.n_actions
        self.actor = self.make_actor(n, n_actions, self.widths.actor_width)
        width = self.widths.critic_width
        self.critics = nn.ModuleList(
            self.make_network(n + n_actions, 1, width) for _ in range(self.n_critics)
        )
        self.target_critics = deepcopy(self.critics)
        settings = cast(Td3 | Sac, self.options)
        self.actor_optimiser = _adam(self.actor, settings.actor)
        self.critic_optimiser = _adam(self.critics, settings.critic)

    def make_actor(self, n_inputs: int, n_actions: int, width: int) -> nn.Module:
        """Make the actor."""
        return self.make_network(n_inputs, n_actions, width, nn.Tanh())

    def _values(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the critics' values: (n, n_critics)."""
        return torch.cat([critic(inputs) for critic in self.critics], dim=1)

    def _target_values(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([critic(inputs) for critic in self.target_critics], dim=1)

    def _critic_step(self, rows: TorchBatch, targets: torch.Tensor) -> torch.Tensor:
        options = cast(Td3 | Sac, self.options)
        critic = losses.critic_loss(options, self._values, rows, targets)
        _descend(self.critic_optimiser, critic.loss, options.critic.max_gradient_norm)
        self.n_updates += 1
        return critic.td_errors


class TD3(ActorCritic):
    """TD3 (Fujimoto et al. 2018)."""

    algo = "td3"
    n_critics = 2

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: RunConfig | None = None,
    ) -> None:
        """Make the actor's target, too."""
        super().__init__(observation_space, action_space, config)
        self.target_actor = deepcopy(self.actor)

    @torch.no_grad()
    def get_action(self, observation: _Observation) -> Any:
        """Return the actor's action with normal noise of deviation `exploration` [half range]."""
        action = self._outputs(self.actor, observation)[0]
        noisy = action + self.exploration * torch.randn_like(action)
        return self._as_environment(noisy.clamp(-1.0, 1.0))

    def update_policy(self, batch: Batch) -> torch.Tensor:
        """Make one step; return the rows' absolute TD errors (n,)."""
        options, rows = cast(Td3, self.options), self._rows(batch)
        with torch.no_grad():
            targets = losses.td3_targets(options, self.target_actor, self._target_values, rows)
        td_errors = self._critic_step(rows, targets)
        if self.n_updates % options.policy_delay == 0:
            inputs = torch.cat([rows.observations, self.actor(rows.observations)], dim=1)
            loss = -self.critics[0](inputs).mean()
            _descend(self.actor_optimiser, loss, options.actor.max_gradient_norm)
            _follow(self.target_critics, self.critics, options.target_rate)
            _follow(self.target_actor, self.actor, options.target_rate)
        return td_errors


class DDPG(TD3):
    """DDPG (Lillicrap et al. 2016): TD3 with one critic, no noise and no delay."""

    algo = "ddpg"
    n_critics = 1


class SAC(ActorCritic):
    """Soft actor-critic (Haarnoja et al. 2018) with an automatic temperature."""

    algo = "sac"
    n_critics = 2

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: RunConfig | None = None,
    ) -> None:
        """Make the temperature, too."""
        super().__init__(observation_space, action_space, config)
        options = cast(Sac, self.options)
        log_alpha = float(np.log(options.initial_temperature))
        self.temperature = nn.ParameterList([torch.full((1,), log_alpha)])  # log(alpha)
        self.temperature_optimiser = _adam(self.temperature, options.temperature)
        self.exploration = 1.0

    def make_actor(self, n_inputs: int, n_actions: int, width: int) -> nn.Module:
        """Make the actor of means and logarithms of standard deviations."""
        return self.make_network(n_inputs, 2 * n_actions, width)

    @torch.no_grad()
    def get_action(self, observation: _Observation) -> Any:
        """Draw an action, or return the mean's where `exploration` is 0."""
        outputs = self._outputs(self.actor, observation)
        action = outputs.chunk(2, dim=1)[0].tanh()
        if self.exploration > 0.0:
            action, _ = losses.squashed_normal(cast(Sac, self.options), outputs)
        return self._as_environment(action[0])

    def update_policy(self, batch: Batch) -> torch.Tensor:
        """Make one step; return the rows' absolute TD errors (n,)."""
        options, rows = cast(Sac, self.options), self._rows(batch)
        alpha = self.temperature[0].detach().exp()
        with torch.no_grad():
            targets = losses.sac_targets(options, self.actor, self._target_values, alpha, rows)
        td_errors = self._critic_step(rows, targets)
        actions, log_probability = losses.squashed_normal(options, self.actor(rows.observations))
        values = self._values(torch.cat([rows.observations, actions], dim=1)).amin(dim=1)
        loss = (alpha * log_probability - values).mean()
        _descend(self.actor_optimiser, loss, options.actor.max_gradient_norm)
        surplus = -log_probability.detach().mean() - options.target_entropy
        _descend(self.temperature_optimiser, (self.temperature[0] * surplus).sum())
        _follow(self.target_critics, self.critics, options.target_rate)
        return td_errors


def _adam(network: nn.Module, settings: Adam) -> torch.optim.Adam:
    return torch.optim.Adam(
        network.parameters(), settings.learning_rate, settings.betas, settings.epsilon
    )


def _descend(optimiser: torch.optim.Adam, loss: torch.Tensor, limit: float = np.inf) -> None:
    """Step an optimiser by a loss; the gradient's norm is cut to a limit."""
    parameters = optimiser.param_groups[0]["params"]
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    if limit < np.inf:
        nn.utils.clip_grad_norm_(parameters, limit)
    optimiser.step()


@torch.no_grad()
def _follow(target: nn.Module, network: nn.Module, rate: float) -> None:
    """Move a target's parameters towards a network's."""
    for aim, parameter in zip(target.parameters(), network.parameters(), strict=True):
        aim.lerp_(parameter, rate)


TRAINERS: dict[str, type[Trainer]] = {"dqn": DQN, "ddpg": DDPG, "td3": TD3, "sac": SAC}
