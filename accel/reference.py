"""Say in plain NumPy and float64 what the compiled learners compute; tests hold them against it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64Array = NDArray[np.float64]
Int32Array = NDArray[np.int32]

IDENTITY, RELU, TANH, SIGMOID = range(4)
HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


def n_weights(layers: Int32Array) -> int:
    """Count the flat weights of a layer table."""
    return sum((int(n_in) + 1) * int(n_out) for _, _, n_in, n_out, _, _ in layers)


def split(layers: Int32Array, weights: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """View flat weights as one (W, b) a layer."""
    views = []
    start = 0
    for _, _, n_in, n_out, _, _ in layers.tolist():
        middle = start + n_in * n_out
        views.append((weights[start:middle].reshape(n_in, n_out), weights[middle : middle + n_out]))
        start = middle + n_out
    return views


def activate(kind: int, x: Float64Array) -> Float64Array:
    """Apply an activation by its code."""
    if kind == RELU:
        return np.maximum(x, 0.0)
    if kind == TANH:
        return np.tanh(x)
    if kind == SIGMOID:
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))
    return x


def derivative(kind: int, y: Float64Array) -> Float64Array:
    """Give the derivative of an activation from its output."""
    if kind == RELU:
        return np.asarray(y > 0.0, dtype=np.float64)
    if kind == TANH:
        return 1.0 - y * y
    if kind == SIGMOID:
        return y * (1.0 - y)
    return np.ones_like(y)


def layer_outputs(
    layers: Int32Array, weights: Float64Array, inputs: Float64Array
) -> list[Float64Array]:
    """Compute every layer's output (n_rows, n_out)."""
    made: list[Float64Array] = []
    for (source, begin, n_in, _, kind, _), (w, b) in zip(
        layers.tolist(), split(layers, weights), strict=True
    ):
        x = inputs if source < 0 else made[source]
        made.append(activate(kind, x[:, begin : begin + n_in] @ w + b))
    return made


def forward(layers: Int32Array, weights: ArrayLike, inputs: ArrayLike) -> Float64Array:
    """Compute the network's output rows (n_rows, n_outputs)."""
    made = layer_outputs(layers, np.asarray(weights, np.float64), np.asarray(inputs, np.float64))
    order = sorted((int(layers[i, 5]), i) for i in range(len(layers)) if layers[i, 5] >= 0)
    return np.concatenate([made[i] for _, i in order], axis=1)


def backward(
    layers: Int32Array, weights: Float64Array, inputs: Float64Array, d_outputs: Float64Array
) -> Float64Array:
    """Compute the gradient by the flat weights from the one by the output rows."""
    made = layer_outputs(layers, weights, inputs)
    d_made = [np.zeros_like(y) for y in made]
    gradient = np.zeros_like(weights)
    into, values = split(layers, gradient), split(layers, weights)
    for i in reversed(range(len(layers))):
        source, begin, n_in, n_out, kind, output = layers[i].tolist()
        if output >= 0:
            d_made[i] += d_outputs[:, output : output + n_out]
        d = d_made[i] * derivative(kind, made[i])
        x = (inputs if source < 0 else made[source])[:, begin : begin + n_in]
        into[i][0][...] = x.T @ d
        into[i][1][...] = d.sum(axis=0)
        if source >= 0:
            d_made[source][:, begin : begin + n_in] += d @ values[i][0].T
    return gradient


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
