"""Proximal policy optimisation in plain NumPy."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.reference.networks import Float64Array, Int32Array, backward, forward, n_weights

HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


@dataclass
class Distribution:
    """Hold log-probability and entropy (n_rows,), and d/d outputs of both (n_rows, n_outputs)."""

    log_probability: Float64Array
    entropy: Float64Array
    d_log_probability: Float64Array
    d_entropy: Float64Array


def gaussian(outputs: Float64Array, actions: Float64Array) -> Distribution:
    """Evaluate a diagonal normal: outputs are means, then standard deviations s.

    log p = sum -((a - m)/s)^2/2 - log s - log(2 pi)/2,  H = sum log s + (1 + log(2 pi))/2
    """
    mean, deviation = np.split(outputs, 2, axis=1)
    u = (actions - mean) / deviation
    log_deviation = np.log(deviation)
    return Distribution(
        (-0.5 * u * u - log_deviation - HALF_LOG_TWO_PI).sum(axis=1),
        (log_deviation + 0.5 + HALF_LOG_TWO_PI).sum(axis=1),
        np.concatenate([u / deviation, (u * u - 1.0) / deviation], axis=1),
        np.concatenate([np.zeros_like(mean), 1.0 / deviation], axis=1),
    )


def categorical(outputs: Float64Array, actions: Float64Array) -> Distribution:
    """Evaluate a softmax over logits z: log p_j = z_j - log sum exp z,  H = -sum p_j log p_j."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    p = np.exp(log_p)
    chosen = np.arange(outputs.shape[1]) == actions
    entropy = -(p * log_p).sum(axis=1)
    return Distribution(
        (log_p * chosen).sum(axis=1), entropy, chosen - p, -p * (log_p + entropy[:, None])
    )


@dataclass(frozen=True)
class Statistics:
    """Means over the rows of a minibatch."""

    policy_loss: float
    value_loss: float
    entropy: float
    kl: float
    clip_fraction: float


@dataclass
class PpoReference:
    """Learn as accel.PpoLearner does, one whole minibatch at a time.

    Schulman et al. 2017, equations 7 and 9; Adam after Kingma & Ba 2015, as torch.optim.Adam.
    """

    actor_layers: Int32Array
    critic_layers: Int32Array
    policy: str
    clip: float
    entropy_coefficient: float
    max_gradient_norm: float
    actor_learning_rate: float
    critic_learning_rate: float
    adam_betas: tuple[float, float] = (0.9, 0.999)
    adam_epsilon: float = 1e-5
    parameters: Float64Array = field(init=False)
    first_moment: Float64Array = field(init=False)
    second_moment: Float64Array = field(init=False)
    n_steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Start from zero parameters."""
        self.n_actor = n_weights(self.actor_layers)
        n = self.n_actor + n_weights(self.critic_layers)
        self.parameters, self.first_moment, self.second_moment = (np.zeros(n) for _ in range(3))

    def distribution(self, observations: Float64Array, actions: Float64Array) -> Distribution:
        """Evaluate the policy at the actions taken."""
        outputs = forward(self.actor_layers, self.parameters[: self.n_actor], observations)
        return (gaussian if self.policy == "gaussian" else categorical)(outputs, actions)

    def load_batch(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        advantages: ArrayLike,
        value_targets: ArrayLike,
    ) -> None:
        """Keep a batch, and the log-probabilities of its actions under the present policy."""
        self.observations = np.asarray(observations, np.float64)
        self.actions = np.asarray(actions, np.float64)
        self.advantages = np.asarray(advantages, np.float64)
        self.value_targets = np.asarray(value_targets, np.float64)
        self.old_log = self.distribution(self.observations, self.actions).log_probability

    def gradient(self, rows: NDArray[np.int64]) -> tuple[Float64Array, Statistics]:
        """Compute the gradient of both losses over the rows of the batch.

        actor:  -mean min(r A, clip(r, 1 - c, 1 + c) A) - entropy_coefficient mean H
        critic: mean (V - target)^2 / 2
        """
        x, advantages = self.observations[rows], self.advantages[rows]
        d = self.distribution(x, self.actions[rows])
        log_ratio = d.log_probability - self.old_log[rows]
        ratio = np.exp(log_ratio)
        free = ratio * advantages
        bound = np.clip(ratio, 1.0 - self.clip, 1.0 + self.clip) * advantages
        by_log = np.where(free <= bound, -free, 0.0)[:, None]
        d_outputs = by_log * d.d_log_probability - self.entropy_coefficient * d.d_entropy
        critic = self.parameters[self.n_actor :]
        error = forward(self.critic_layers, critic, x)[:, 0] - self.value_targets[rows]
        actor = self.parameters[: self.n_actor]
        n = len(rows)
        gradient = np.concatenate(
            [
                backward(self.actor_layers, actor, x, d_outputs / n),
                backward(self.critic_layers, critic, x, error[:, None] / n),
            ]
        )
        return gradient, Statistics(
            policy_loss=float(-np.minimum(free, bound).mean()),
            value_loss=float(0.5 * (error**2).mean()),
            entropy=float(d.entropy.mean()),
            kl=float((ratio - 1.0 - log_ratio).mean()),
            clip_fraction=float((np.abs(ratio - 1.0) > self.clip).mean()),
        )

    def apply(
        self, gradient: Float64Array, learning_rate_factor: float = 1.0
    ) -> tuple[float, float]:
        """Clip each network's gradient by its norm and make one step of Adam; return the norms."""
        self.n_steps += 1
        beta1, beta2 = self.adam_betas
        norms = []
        for part, rate in (
            (slice(None, self.n_actor), self.actor_learning_rate),
            (slice(self.n_actor, None), self.critic_learning_rate),
        ):
            norm = float(np.linalg.norm(gradient[part]))
            g = gradient[part] * min(1.0, self.max_gradient_norm / (norm + 1e-6))
            m = self.first_moment[part] = beta1 * self.first_moment[part] + (1 - beta1) * g
            v = self.second_moment[part] = beta2 * self.second_moment[part] + (1 - beta2) * g * g
            root = np.sqrt(v / (1 - beta2**self.n_steps)) + self.adam_epsilon
            rate *= learning_rate_factor
            self.parameters[part] -= rate / (1 - beta1**self.n_steps) * m / root
            norms.append(norm)
        return norms[0], norms[1]
