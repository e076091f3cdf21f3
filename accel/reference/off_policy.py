"""DQN, DDPG, TD3 and SAC in plain NumPy: what `accel.interfaces` says of them, word by word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.interfaces import Adam, Batch, Dqn, Options, PlainStep, Sac, Td3
from accel.reference.networks import Float64Array, Int32Array, forward, gradients, n_weights
from accel.reference.philox import NEXT_ACTIONS, PRESENT_ACTIONS, normals

Int64Array = NDArray[np.int64]

HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
COUNTERS = ("n_steps", "n_skipped", "critic_steps", "actor_steps", "temperature_steps")
ARRAYS = ("parameters", "targets", "first_moment", "second_moment")


class Rows(NamedTuple):
    """A batch in float64, as `Batch`."""

    observations: Float64Array
    actions: Float64Array
    rewards: Float64Array
    next_observations: Float64Array
    discounts: Float64Array
    weights: Float64Array


def gather(batch: Batch, rows: Int64Array | None) -> Rows:
    """Pick the rows to learn; weights belong to the rows learnt already."""
    *buffer, weights = (np.asarray(a, np.float64) for a in batch)
    return Rows._make([*(buffer if rows is None else [a[rows] for a in buffer]), weights])


@dataclass
class Sample:
    """Actions drawn from a squashed normal, u = m + exp(l) noise, a = tanh(u)."""

    actions: Float64Array  # (n, n_actions)
    log_probability: Float64Array  # (n,)
    spread: Float64Array  # (n, n_actions) exp(l) noise = du/dl
    is_free: NDArray[np.bool_]  # (n, n_actions) l was not cut


def squashed_normal(
    outputs: Float64Array, noise: Float64Array, log_std_range: tuple[float, float]
) -> Sample:
    """Draw actions from means and logarithms of standard deviations (n, 2 n_actions)."""
    mean, raw = np.split(outputs, 2, axis=1)
    low, high = log_std_range
    log_std = np.clip(raw, low, high)
    u = mean + np.exp(log_std) * noise
    # log(1 - tanh^2 u) = 2 (log 2 - u - log(1 + exp(-2 u))), accurate where tanh u rounds to 1
    log_slope = 2.0 * (np.log(2.0) - u - np.logaddexp(0.0, -2.0 * u))
    terms = -0.5 * noise**2 - log_std - HALF_LOG_TWO_PI - log_slope
    is_free = (raw >= low) & (raw <= high)
    return Sample(np.tanh(u), terms.sum(axis=1), np.exp(log_std) * noise, is_free)


class OffPolicyReference:
    """Learn as `accel.interfaces.OffPolicyLearner` says, in float64."""

    backend = "reference"
    device = "numpy"

    def __init__(
        self,
        options: Options,
        actor_layers: Int32Array | None,
        critic_layers: Int32Array,
        seed: int = 0,
    ) -> None:
        self.options, self.seed = options, seed
        self.actor_layers, self.critic_layers = actor_layers, critic_layers
        n_actor = 0 if actor_layers is None else n_weights(actor_layers)
        n_networks = n_actor + n_weights(critic_layers)
        self.actor, self.critic = slice(0, n_actor), slice(n_actor, n_networks)
        self.temperature = slice(n_networks, n_networks + isinstance(options, Sac))
        n = self.temperature.stop
        self.parameters_ = np.zeros(n)
        if isinstance(options, Sac):
            self.parameters_[-1] = np.log(options.initial_temperature)
        # Only TD3 has a target actor.
        self.targeted = slice(0 if isinstance(options, Td3) else n_actor, n_networks)
        self.first_moment, self.second_moment = np.zeros(n), np.zeros(n)
        self.targets = self.parameters_[self.targeted].copy()
        self.counters = np.zeros(len(COUNTERS), np.int64)

    @property
    def n_parameters(self) -> int:
        """Number of flat parameters."""
        return len(self.parameters_)

    @property
    def n_steps(self) -> int:
        """Learning steps done, those left out too."""
        return int(self.counters[0])

    @property
    def n_skipped(self) -> int:
        """Learning steps left out because something was not finite."""
        return int(self.counters[1])

    def learn(self, batch: Batch, rows: Int64Array | None = None) -> PlainStep:
        """Do one whole step."""
        self.apply_critic(self.critic_gradient(batch, rows))
        return self.apply_actor(self.actor_gradient())

    def critic_gradient(
        self, batch: Batch, rows: Int64Array | None = None, first_row: int = 0
    ) -> Float64Array:
        """Return the critics' gradient; all NaN where the loss is not finite."""
        self.rows, self.first_row = gather(batch, rows), first_row
        self.measured: dict[str, Any] = {}
        y = self._values_to_learn()
        inputs, chosen = self._critic_inputs(self.rows.actions)
        q = forward(self.critic_layers, self.parameters_[self.critic], inputs)
        errors = np.where(chosen, q - y[:, None], 0.0)
        delta = self.options.huber_delta if isinstance(self.options, Dqn) else np.inf
        size = np.abs(errors)
        loss = np.where(size <= delta, 0.5 * errors**2, 0.0)
        if delta < np.inf:
            loss = np.where(size > delta, delta * (size - 0.5 * delta), loss)
        weights, n = self.rows.weights[:, None], len(y)
        n_critics = chosen[0].sum()
        self.measured["td_errors"] = (size.sum(axis=1) / n_critics).astype(np.float32)
        self.measured["critic_loss"] = float((weights * loss).sum() / n)
        self.measured["mean_value"] = float(np.where(chosen, q, 0.0).sum() / (n * n_critics))
        d = weights * np.clip(errors, -delta, delta) / n
        gradient = gradients(self.critic_layers, self.parameters_[self.critic], inputs, d)[0]
        return gradient if np.isfinite(self.measured["critic_loss"]) else gradient * np.nan

    def apply_critic(self, gradient: NDArray[Any]) -> None:
        """Clip, step the critics' optimiser."""
        self.before = self.state()
        self.failed = not np.isfinite(gradient).all()
        adam = self.options.optimiser if isinstance(self.options, Dqn) else self.options.critic
        self.measured["critic_gradient_norm"] = float(np.linalg.norm(gradient))
        if not self.failed:
            self._adam(adam, self.critic, np.asarray(gradient, np.float64), "critic_steps")

    def actor_gradient(self, observations: NDArray[Any] | None = None) -> Float64Array:
        """Return the gradient by actor and log(alpha); empty where no actor step is due."""
        if observations is not None:
            self.rows = self.rows._replace(observations=np.asarray(observations, np.float64))
        if isinstance(self.options, Dqn) or not self._is_due() or self.failed:
            return np.zeros(0)
        actor = self.parameters_[self.actor]
        outputs = forward(self._actor_layers, actor, self.rows.observations)
        sample = self._sample(outputs, self.rows.observations, PRESENT_ACTIONS)
        inputs, _ = self._critic_inputs(sample.actions)
        q = forward(self.critic_layers, self.parameters_[self.critic], inputs)
        n = len(q)
        alpha = self._alpha()
        of_min = np.argmin(q, axis=1) if isinstance(self.options, Sac) else np.zeros(n, np.int64)
        d_q = -np.eye(q.shape[1])[of_min] / n
        by_inputs = gradients(self.critic_layers, self.parameters_[self.critic], inputs, d_q)[1]
        d_actions = by_inputs[:, self.rows.observations.shape[1] :]
        loss = float((alpha * sample.log_probability - q[np.arange(n), of_min]).mean())
        self.measured["actor_loss"] = loss
        by_log_alpha = np.zeros(0)
        if isinstance(self.options, Sac):
            entropy = float(-sample.log_probability.mean())
            self.measured |= {"entropy": entropy, "temperature": alpha}
            by_log_alpha = np.array([entropy - self.options.target_entropy])
            # d log pi/du = 2 a, and u = m + exp(l) noise
            d_u = alpha / n * 2.0 * sample.actions + d_actions * (1.0 - sample.actions**2)
            d_log_std = np.where(sample.is_free, d_u * sample.spread - alpha / n, 0.0)
            d_actions = np.concatenate([d_u, d_log_std], axis=1)
        gradient, _ = gradients(self._actor_layers, actor, self.rows.observations, d_actions)
        gradient = np.concatenate([gradient, by_log_alpha])
        return gradient if np.isfinite(loss) else gradient * np.nan

    def apply_actor(self, gradient: NDArray[Any]) -> PlainStep:
        """Step actor and temperature, move the targets, count the step."""
        gradient = np.asarray(gradient, np.float64)
        of_actor, of_log_alpha = gradient[: self.actor.stop], gradient[self.actor.stop :]
        if len(of_actor):
            self.measured["actor_gradient_norm"] = float(np.linalg.norm(of_actor))
        if not self.failed and not np.isfinite(gradient).all():
            self.failed = True
            self.load_state(self.before)
        if not self.failed:
            if len(of_actor) and not isinstance(self.options, Dqn):
                self._adam(self.options.actor, self.actor, of_actor, "actor_steps")
            if isinstance(self.options, Sac):
                adam = self.options.temperature
                self._adam(adam, self.temperature, of_log_alpha, "temperature_steps")
            if self._is_due():
                rate = self.options.target_rate
                self.targets += rate * (self.parameters_[self.targeted] - self.targets)
        self.counters[:2] += 1, self.failed
        return self._step()

    def parameters(self) -> NDArray[np.float32]:
        """Return a copy of the flat parameters."""
        return self.parameters_.astype(np.float32)

    def load_parameters(self, flat: NDArray[Any], targets: NDArray[Any] | None = None) -> None:
        """Take over flat parameters; the targets become equal to them unless given."""
        self.parameters_[:] = flat
        self.targets[:] = self.parameters_[self.targeted] if targets is None else targets

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that a step changes."""
        arrays = self.parameters_, self.targets, self.first_moment, self.second_moment
        copies = [*(a.copy() for a in arrays), self.counters.copy()]
        return dict(zip((*ARRAYS, "counters"), copies, strict=True))

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` returned."""
        self.parameters_[:] = state["parameters"]
        self.targets[:] = state["targets"]
        self.first_moment[:] = state["first_moment"]
        self.second_moment[:] = state["second_moment"]
        self.counters[:] = state["counters"]

    @property
    def _actor_layers(self) -> Int32Array:
        if self.actor_layers is None:
            raise ValueError("actor_layers must be a layer table, got None")
        return self.actor_layers

    def _is_due(self) -> bool:
        """Tell whether targets move in this step, and with them the actor of TD3."""
        if isinstance(self.options, Dqn):
            interval = self.options.target_interval
        else:
            interval = self.options.policy_delay if isinstance(self.options, Td3) else 1
        return (self.n_steps + 1) % interval == 0

    def _alpha(self) -> float:
        return float(np.exp(self.parameters_[-1])) if isinstance(self.options, Sac) else 0.0

    def _critic_inputs(self, actions: Float64Array) -> tuple[Float64Array, NDArray[np.bool_]]:
        """Return what the critics read at s, and which of their columns count (n, n_columns)."""
        s = self.rows.observations
        made = self.critic_layers[self.critic_layers[:, 5] >= 0]
        n_columns = int(made[:, 3].sum())
        if isinstance(self.options, Dqn):
            return s, np.arange(n_columns) == actions
        return np.concatenate([s, actions], axis=1), np.ones((len(s), n_columns), bool)

    def _sample(self, outputs: Float64Array, s: Float64Array, stream: int) -> Sample:
        """Turn the actor's outputs into actions; those of TD3 are as they are."""
        if not isinstance(self.options, Sac):
            return Sample(outputs, np.zeros(len(s)), np.zeros(0), np.zeros(0, bool))
        shape = len(s), outputs.shape[1] // 2
        noise = normals(self.seed, self.n_steps, stream, self.first_row, *shape)
        return squashed_normal(outputs, noise, self.options.log_std_range)

    def _values_to_learn(self) -> Float64Array:
        """Return y = r + discount V'(s') for each row (n,)."""
        s, rows = self.rows.next_observations, self.rows
        return rows.rewards + rows.discounts * self._next_values(s)

    def _next_values(self, s: Float64Array) -> Float64Array:
        if isinstance(self.options, Dqn):
            q = forward(self.critic_layers, self.targets, s)
            online = forward(self.critic_layers, self.parameters_[self.critic], s)
            best = np.argmax(online if self.options.double else q, axis=1)
            return np.asarray(q[np.arange(len(s)), best])
        bonus = np.zeros(len(s))
        if isinstance(self.options, Sac):
            outputs = forward(self._actor_layers, self.parameters_[self.actor], s)
            sample = self._sample(outputs, s, NEXT_ACTIONS)
            actions, bonus = sample.actions, -self._alpha() * sample.log_probability
            of_critic = self.targets
        else:
            actions = forward(self._actor_layers, self.targets[self.actor], s)
            actions = self._smoothed(actions)
            of_critic = self.targets[self.critic]
        q = forward(self.critic_layers, of_critic, np.concatenate([s, actions], axis=1))
        return np.asarray(q.min(axis=1) + bonus)

    def _smoothed(self, actions: Float64Array) -> Float64Array:
        """Add noise to the target policy's actions (Fujimoto et al. 2018, equation 14)."""
        if not isinstance(self.options, Td3) or self.options.target_noise == 0.0:
            return actions
        noise = normals(self.seed, self.n_steps, NEXT_ACTIONS, self.first_row, *actions.shape)
        limit = self.options.noise_clip
        noise = np.clip(self.options.target_noise * noise, -limit, limit)
        return np.clip(actions + noise, -1.0, 1.0)

    def _adam(self, adam: Adam, part: slice, gradient: Float64Array, counter: str) -> None:
        """Clip a gradient by its norm and make one step of Adam."""
        step = COUNTERS.index(counter)
        self.counters[step] += 1
        n, (beta1, beta2) = int(self.counters[step]), adam.betas
        norm = float(np.linalg.norm(gradient))
        g = gradient * min(1.0, adam.max_gradient_norm / (norm + 1e-6))
        m = self.first_moment[part] = beta1 * self.first_moment[part] + (1 - beta1) * g
        v = self.second_moment[part] = beta2 * self.second_moment[part] + (1 - beta2) * g * g
        root = np.sqrt(v / (1 - beta2**n)) + adam.epsilon
        self.parameters_[part] -= adam.learning_rate / (1 - beta1**n) * m / root

    def _step(self) -> PlainStep:
        nan = float("nan")
        rest = ("actor_loss", "actor_gradient_norm", "entropy", "temperature")
        measured = {**dict.fromkeys(rest, nan), **self.measured}
        return PlainStep(**measured, applied=not self.failed)
