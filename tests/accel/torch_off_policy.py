"""The algorithms once more, with torch's autograd, distributions and Adam."""

from typing import Any

import numpy as np
import torch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from accel.interfaces import Adam, Batch, Dqn, Sac, Td3
from accel.reference.philox import normals
from tests.accel.off_policy_cases import Case
from tests.accel.test_gradient import torch_outputs

Tensor = torch.Tensor


class TorchLearner:
    """Learn a case in any precision; the gradients stay to be looked at."""

    def __init__(self, case: Case, dtype: torch.dtype) -> None:
        self.case, self.dtype, self.n_steps = case, dtype, 0
        n = case.n_actor
        flat, is_sac = case.parameters, isinstance(case.options, Sac)
        self.actor = self._leaf(flat[:n])
        self.critic = self._leaf(flat[n : len(flat) - is_sac])
        self.log_alpha = self._leaf(flat[len(flat) - is_sac :])
        self.targets = torch.tensor(case.targets, dtype=dtype)
        o = case.options
        self.of_critic = self._adam(o.optimiser if isinstance(o, Dqn) else o.critic, self.critic)
        if not isinstance(o, Dqn):
            self.of_actor = self._adam(o.actor, self.actor)
        if isinstance(o, Sac):
            self.of_alpha = self._adam(o.temperature, self.log_alpha)

    def _leaf(self, values: Any) -> Tensor:
        return torch.tensor(values, dtype=self.dtype, requires_grad=True)

    def _adam(self, adam: Adam, parameters: Tensor) -> tuple[torch.optim.Adam, float]:
        optimiser = torch.optim.Adam(
            [parameters], adam.learning_rate, adam.betas, adam.epsilon, foreach=False
        )
        return optimiser, adam.max_gradient_norm

    def flat(self) -> Any:
        return torch.cat([self.actor, self.critic, self.log_alpha]).detach().numpy()

    def learn(self, batch: Batch) -> None:
        self.batch = [torch.tensor(np.asarray(a), dtype=self.dtype) for a in batch]
        self.critic_backward()
        self._step(*self.of_critic)
        if self.is_due() or isinstance(self.case.options, Sac):
            self.after_critic()
        self.n_steps += 1

    def is_due(self) -> bool:
        o = self.case.options
        if isinstance(o, Dqn):
            return (self.n_steps + 1) % o.target_interval == 0
        return (self.n_steps + 1) % (o.policy_delay if isinstance(o, Td3) else 1) == 0

    def after_critic(self) -> None:
        o = self.case.options
        online = torch.cat([self.actor, self.critic])
        if not isinstance(o, Dqn):
            self.actor_backward()
            self._step(*self.of_actor)
        if isinstance(o, Sac):
            self._step(*self.of_alpha)
        online = self.critic if not isinstance(o, Td3) else torch.cat([self.actor, self.critic])
        with torch.no_grad():
            self.targets.lerp_(online, o.target_rate)

    def _step(self, optimiser: torch.optim.Adam, limit: float) -> None:
        torch.nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], limit)
        optimiser.step()

    def q(self, weights: Tensor, *inputs: Tensor) -> Tensor:
        outputs: Tensor = torch_outputs(torch, self.case.critic, weights, torch.cat(inputs, 1))
        return outputs

    def noise(self, stream: int, n_actions: int) -> Tensor:
        n = len(self.batch[2])
        drawn = normals(self.case.seed, self.n_steps, stream, 0, n, n_actions)
        return torch.tensor(drawn, dtype=self.dtype)

    def sample(self, observations: Tensor, stream: int) -> tuple[Tensor, Tensor]:
        assert isinstance(self.case.options, Sac)
        out = torch_outputs(torch, self.case.actor, self.actor, observations)
        mean, log_std = out.chunk(2, dim=1)
        log_std = torch.clamp(log_std, *self.case.options.log_std_range)
        u = mean + log_std.exp() * self.noise(stream, mean.shape[1])
        transform = TanhTransform(cache_size=1)
        a = transform(u)
        policy = TransformedDistribution(Normal(mean, log_std.exp()), [transform])
        return a, policy.log_prob(a).sum(1)

    @torch.no_grad()
    def values_to_learn(self) -> Tensor:
        o, (_, _, r, following, discounts, _) = self.case.options, self.batch
        if isinstance(o, Dqn):
            q = self.q(self.targets, following)
            online = self.q(self.critic, following) if o.double else q
            return r + discounts * q.gather(1, online.argmax(1, keepdim=True))[:, 0]
        if isinstance(o, Sac):
            a, log_p = self.sample(following, 0)
            q = self.q(self.targets, following, a).min(1).values
            return r + discounts * (q - self.log_alpha.exp() * log_p)
        of_actor, of_critic = self.targets.split([len(self.actor), len(self.critic)])
        a = torch_outputs(torch, self.case.actor, of_actor, following)
        noise = o.target_noise * self.noise(0, a.shape[1])
        a = (a + noise.clamp(-o.noise_clip, o.noise_clip)).clamp(-1, 1)
        return r + discounts * self.q(of_critic, following, a).min(1).values

    def critic_backward(self) -> None:
        o, (s, actions, *_, weights) = self.case.options, self.batch
        y = self.values_to_learn()[:, None]
        if isinstance(o, Dqn):
            q = self.q(self.critic, s).gather(1, actions.long())
            smooth = o.huber_delta < float("inf")
            error = torch.nn.functional.huber_loss(q, y, reduction="none", delta=o.huber_delta)
            loss = error if smooth else 0.5 * (q - y) ** 2
        else:
            loss = 0.5 * (self.q(self.critic, s, actions) - y) ** 2
        self.critic_loss = (weights * loss.sum(1)).mean()
        (self.critic.grad,) = torch.autograd.grad(self.critic_loss, self.critic)

    def actor_backward(self) -> None:
        o, s = self.case.options, self.batch[0]
        if not isinstance(o, Sac):
            a = torch_outputs(torch, self.case.actor, self.actor, s)
            self.actor_loss = -self.q(self.critic, s, a)[:, 0].mean()
        else:
            a, log_p = self.sample(s, 1)
            alpha = self.log_alpha.detach().exp()
            self.actor_loss = (alpha * log_p - self.q(self.critic, s, a).min(1).values).mean()
            self.entropy = -log_p.mean()
            of_alpha = -(self.log_alpha * (log_p.detach() + o.target_entropy)).mean()
            (self.log_alpha.grad,) = torch.autograd.grad(of_alpha, self.log_alpha)
        (self.actor.grad,) = torch.autograd.grad(self.actor_loss, self.actor)
