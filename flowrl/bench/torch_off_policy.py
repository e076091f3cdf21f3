"""The off-policy algorithms in plain torch, eager or compiled, as peers for the benchmark.

One flat function a gradient step, every optimiser a fused Adam, targets moved in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import smooth_l1_loss, softplus

from flowrl.bench.workloads import Workload

Tensor = torch.Tensor
HALF_LOG_TWO_PI = 0.9189385332046727


def _chain(n_inputs: int, width: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, n_outputs),
    )  # fmt: skip


def _adam(parameters: Any, learning_rate: float = 3e-4) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, learning_rate, fused=True)


class TorchSteps:
    """Networks, optimisers and a batch; `step` does one gradient step."""

    def __init__(self, workload: Workload, compiled: bool) -> None:
        w = self.workload = workload
        self.n_steps = 0
        if w.algorithm == "dqn":
            self.critics = nn.ModuleList([_chain(w.n_observations, w.width, w.n_actions)])
        else:
            n = w.n_observations + w.n_actions
            self.critics = nn.ModuleList([_chain(n, w.width, 1) for _ in range(w.n_critics)])
            n_made = w.n_actions * (2 if w.algorithm == "sac" else 1)
            self.actor = _chain(w.n_observations, w.width, n_made)
            self.target_actor = deepcopy(self.actor)
            self.of_actor = _adam(self.actor.parameters())
        self.targets = deepcopy(self.critics)
        self.of_critics = _adam(self.critics.parameters())
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.of_alpha = _adam([self.log_alpha])
        self.batch = [torch.from_numpy(a) for a in w.batch(np.random.default_rng(0))]
        losses = {"dqn": (self._dqn, None), "sac": (self._sac_critics, self._sac_actor)}
        critics, actor = losses.get(w.algorithm, (self._td3_critics, self._td3_actor))
        wrap: Callable[[Any], Any] = (
            (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        )
        self.critic_loss, self.actor_loss = wrap(critics), wrap(actor) if actor else None

    def step(self) -> None:
        """Do one gradient step."""
        self.n_steps += 1
        is_dqn = self.workload.algorithm == "dqn"
        self._descend([self.of_critics], self.critic_loss(), self.critics if is_dqn else None)
        if self.actor_loss is None:
            return  # the copy to the targets every thousand steps is not worth the while
        if self.workload.algorithm == "td3" and self.n_steps % 2 != 0:
            return
        for p in self.critics.parameters():
            p.requires_grad_(False)
        loss = self.actor_loss()
        for p in self.critics.parameters():
            p.requires_grad_(True)
        is_sac = self.workload.algorithm == "sac"
        self._descend([self.of_actor, self.of_alpha] if is_sac else [self.of_actor], loss)
        self._move(self.targets, self.critics)
        if not is_sac:
            self._move(self.target_actor, self.actor)

    @staticmethod
    def _descend(optimisers: list[torch.optim.Adam], loss: Tensor, clipped: Any = None) -> None:
        for optimiser in optimisers:
            optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if clipped is not None:
            nn.utils.clip_grad_norm_(clipped.parameters(), 10.0)
        for optimiser in optimisers:
            optimiser.step()

    @staticmethod
    @torch.no_grad()
    def _move(to: nn.Module, aim: nn.Module) -> None:
        torch._foreach_lerp_(list(to.parameters()), list(aim.parameters()), 0.005)

    def _dqn(self) -> Tensor:
        s, a, r, following, discounts, _ = self.batch
        with torch.no_grad():
            y = r + discounts * self.targets[0](following).max(1).values
        q = self.critics[0](s).gather(1, a.long())[:, 0]
        return smooth_l1_loss(q, y)

    def _critics_loss(self, a: Tensor, bonus: Tensor | float) -> Tensor:
        s, taken, r, following, discounts, _ = self.batch
        with torch.no_grad():
            x = torch.cat([following, a], 1)
            q = torch.cat([q(x) for q in self.targets], 1).min(1).values
            y = (r + discounts * (q + bonus))[:, None]
        x = torch.cat([s, taken], 1)
        losses = [0.5 * ((q(x) - y) ** 2).mean() for q in self.critics]
        return torch.stack(losses).sum()

    def _td3_critics(self) -> Tensor:
        with torch.no_grad():
            a = torch.tanh(self.target_actor(self.batch[3]))
            if self.workload.algorithm == "td3":
                noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
                a = (a + noise).clamp(-1, 1)
        return self._critics_loss(a, 0.0)

    def _td3_actor(self) -> Tensor:
        s = self.batch[0]
        loss: Tensor = -self.critics[0](torch.cat([s, torch.tanh(self.actor(s))], 1)).mean()
        return loss

    def _sample(self, s: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(s).chunk(2, 1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        u = mean + log_std.exp() * noise
        log_slope = 2 * (0.6931471805599453 - u - softplus(-2 * u))  # log(1 - tanh^2 u)
        log_p = -0.5 * noise**2 - log_std - HALF_LOG_TWO_PI - log_slope
        return torch.tanh(u), log_p.sum(1)

    def _sac_critics(self) -> Tensor:
        with torch.no_grad():
            a, log_p = self._sample(self.batch[3])
            bonus = -self.log_alpha.exp() * log_p
        return self._critics_loss(a, bonus)

    def _sac_actor(self) -> Tensor:
        s = self.batch[0]
        a, log_p = self._sample(s)
        x = torch.cat([s, a], 1)
        q = torch.cat([q(x) for q in self.critics], 1).min(1).values
        loss = (self.log_alpha.detach().exp() * log_p - q).mean()
        of_alpha = -(self.log_alpha * (log_p.detach() - self.workload.n_actions)).mean()
        # Neither has a gradient by the other's parameters.
        total: Tensor = loss + of_alpha
        return total
