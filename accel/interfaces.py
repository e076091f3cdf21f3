"""Roles that every backend fills: the replay manager's sum tree and the off-policy learner.

Nothing here computes. `accel.reference` says in plain NumPy what each call means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from accel.checks import require

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]


class SumTree(Protocol):
    """Priorities P(i) of the rows of a replay buffer, and draws in proportion to them.

    An n-ary tree whose leaves are the priorities and whose inner nodes are sums of their children
    (Zhang et al., HiPC 2021). Indices are int64 from 0 to capacity - 1, priorities float64, at
    least 0 and, so that their sum is finite, at most the type's largest number over the capacity; a
    new tree holds zeros. Every call checks all its arguments first: a ValueError names what is
    wrong, and the tree is then as it was. Where an index occurs several times in one batch of
    changes, the last one counts, once. Several threads may sample while one writes: each call is
    whole.
    """

    @property
    def capacity(self) -> int:
        """Number of rows."""

    @property
    def fanout(self) -> int:
        """Children of an inner node: a power of two from 2 to 64."""

    @property
    def depth(self) -> int:
        """Levels below the root: ceil(log_fanout(capacity))."""

    @property
    def backend(self) -> str:
        """Name of the backend, as in `accel.backends`."""

    @property
    def device(self) -> str:
        """Name of the device in use."""

    def total(self) -> float:
        """Return the sum of all priorities."""

    def largest(self) -> float:
        """Return the largest priority there has been so far, 1 before the first positive one."""

    def sample(self, targets: Float64Array) -> tuple[Int64Array, Float64Array]:
        """Return index and priority for each target x (n,): min{i : P(0) + ... + P(i) >= x}.

        Targets are finite and at least 0. A row of priority 0 is never returned: a target of 0
        gives the first positive row, one beyond the total the last. An empty tree is an error.
        """

    def sample_stratified(
        self, uniforms: Float64Array, beta: float
    ) -> tuple[Int64Array, Float32Array]:
        """Return one index a stratum, and importance weights.

        Row j of n takes the target (j + 1 - u_j) / n * total for its u_j in [0, 1). Weights are
        (size P(i) / total)^-beta over their largest in the batch, that is (P(i) / min P)^-beta.
        """

    def retrieve(self, indices: Int64Array) -> Float64Array:
        """Return the priorities of rows."""

    def update(self, indices: Int64Array, deltas: Float64Array) -> None:
        """Add to priorities; none may become negative."""

    def set(self, indices: Int64Array, priorities: Float64Array) -> None:
        """Replace priorities."""

    def set_td_errors(
        self, indices: Int64Array, td_errors: Float32Array, alpha: float, epsilon: float
    ) -> None:
        """Replace priorities by (|td error| + epsilon)^alpha, to float32 accuracy.

        Errors are finite, alpha and epsilon finite and at least 0.
        """

    def insert(self, start: int, n: int, priority: float | None = None) -> None:
        """Set the priorities of n <= capacity rows from `start`, round the ring.

        To the largest so far, unless given.
        """

    def rebuild(self) -> None:
        """Compute every inner node from the leaves again."""

    def priorities(self) -> Float64Array:
        """Return a copy of all priorities (capacity,)."""

    def load(self, priorities: Float64Array, largest: float) -> None:
        """Take over priorities (capacity,) and the largest so far, which is no less than any."""


class Batch(NamedTuple):
    """Transitions to learn from; float32, C-contiguous, one row each."""

    observations: Float32Array  # (n, n_observations)
    actions: Float32Array  # (n, n_actions) in -1..1; DQN: (n, 1), the action's index
    rewards: Float32Array  # (n,); sum of discounted rewards for n-step returns
    next_observations: Float32Array  # (n, n_observations)
    discounts: Float32Array  # (n,) factor of the next state's value: gamma^steps, 0 if terminated
    weights: Float32Array  # (n,) importance weights


# Learners compute in float32: the least and the largest of its normal numbers.
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015), as torch.optim.Adam, after clipping the gradient's norm."""

    learning_rate: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    max_gradient_norm: float = inf  # factor min(1, max / (norm + 1e-6))

    def __post_init__(self) -> None:
        """Check every field."""
        rate, norm, epsilon = self.learning_rate, self.max_gradient_norm, self.epsilon
        require(0 <= rate <= _MOST, "learning_rate", "at least 0 and finite in float32", rate)
        right = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(right, "betas", "two numbers, at least 0 and below 1", self.betas)
        in_float32 = _LEAST <= epsilon <= _MOST
        require(in_float32, "epsilon", "positive and finite in float32", epsilon)
        require(norm > 0, "max_gradient_norm", "positive (infinity: never clip)", norm)


@dataclass(frozen=True)
class Dqn:
    """Double DQN with Huber loss (Mnih et al. 2015, van Hasselt et al. 2016).

    y = r + discount Q'(s', argmax Q(s', .)), or max Q'(s', .) where not `double`;
    loss = mean w huber(Q(s, a) - y), huber(e) = e^2 / 2 up to |e| = delta, delta (|e| - delta / 2)
    beyond. The critic makes one column an action; there is no actor.
    """

    optimiser: Adam = Adam(learning_rate=1e-3, max_gradient_norm=10.0)
    double: bool = True
    huber_delta: float = 1.0  # infinity: squared error
    target_rate: float = 1.0  # share of the parameters that goes into the targets
    target_interval: int = 500  # learning steps between changes of the targets

    def __post_init__(self) -> None:
        """Check every field."""
        _check_optimisers(optimiser=self.optimiser)
        require(isinstance(self.double, bool), "double", "true or false", self.double)
        require(self.huber_delta > 0, "huber_delta", "positive", self.huber_delta)
        _check_targets(self.target_rate, self.target_interval)


@dataclass(frozen=True)
class Td3:
    """TD3 (Fujimoto et al. 2018); one critic, no noise and delay 1 make it DDPG.

    y = r + discount min_k Q'_k(s', clip(mu'(s') + clip(noise, -c, c), -1, 1)), noise normal;
    critics: sum over k of mean w (Q_k - y)^2 / 2; actor, every `policy_delay` steps and then with
    the changed critics: -mean Q_1(s, mu(s)). Targets move together with the actor. The actor makes
    actions in -1..1 (its last layer ends in tanh); a critic reads observations, then actions, and
    makes one column a critic.
    """

    actor: Adam = Adam()
    critic: Adam = Adam()
    target_noise: float = 0.2
    noise_clip: float = 0.5
    policy_delay: int = 2
    target_rate: float = 0.005

    def __post_init__(self) -> None:
        """Check every field."""
        noise, clip = self.target_noise, self.noise_clip
        _check_optimisers(actor=self.actor, critic=self.critic)
        require(noise >= 0 and isfinite(noise), "target_noise", "at least 0 and finite", noise)
        require(clip >= 0, "noise_clip", "at least 0", clip)
        _check_count("policy_delay", self.policy_delay)
        _check_targets(self.target_rate, 1)


def ddpg(actor: Adam = Adam(), critic: Adam = Adam(), target_rate: float = 0.005) -> Td3:
    """Return the options of DDPG (Lillicrap et al. 2016)."""
    return Td3(actor, critic, 0.0, 0.0, 1, target_rate)


@dataclass(frozen=True)
class Sac:
    """Soft actor-critic (Haarnoja et al. 2018) with an automatic temperature.

    The actor makes means m, then logarithms l of standard deviations, cut to log_std_range (with no
    gradient where cut): u = m + exp(l) noise, a = tanh(u),
    log pi(a) = sum_d log N(u; m, exp l) - log(1 - tanh^2 u).
    y = r + discount (min_k Q'_k(s', a') - alpha log pi(a')); critics as in `Td3`;
    actor: mean alpha log pi(a) - min_k Q_k(s, a), with the changed critics;
    temperature: -mean log(alpha) (log pi(a) + target_entropy). All of a step uses the alpha and the
    actions of its beginning. Targets move every step.
    """

    target_entropy: float
    actor: Adam = Adam()
    critic: Adam = Adam()
    temperature: Adam = Adam()  # of log(alpha); learning rate 0: fixed
    initial_temperature: float = 1.0
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    target_rate: float = 0.005

    def __post_init__(self) -> None:
        """Check every field."""
        alpha, (low, high) = self.initial_temperature, self.log_std_range
        _check_optimisers(actor=self.actor, critic=self.critic, temperature=self.temperature)
        entropy = self.target_entropy
        require(abs(entropy) <= _MOST, "target_entropy", "finite in float32", entropy)
        in_float32 = _LEAST <= alpha <= _MOST
        require(in_float32, "initial_temperature", "positive and finite in float32", alpha)
        require(low < high, "log_std_range", "increasing", self.log_std_range)
        _check_targets(self.target_rate, 1)


Options = Dqn | Td3 | Sac


def _check_optimisers(**optimisers: Adam) -> None:
    for field, optimiser in optimisers.items():
        require(isinstance(optimiser, Adam), field, "an Adam", optimiser)


def _check_targets(rate: float, interval: int) -> None:
    require(0 < rate <= 1, "target_rate", "above 0 and at most 1", rate)
    _check_count("target_interval", interval)


def _check_count(field: str, value: int) -> None:
    whole = isinstance(value, (int, np.integer)) and 1 <= value < 2**31
    require(whole, field, "a whole number from 1 to 2^31 - 1", value)


class LearningStep(Protocol):
    """What one learning step measured; NaN where it did not apply."""

    @property
    def td_errors(self) -> Float32Array:
        """Mean over the critics of |Q_k - y| (n,), for the priorities."""

    @property
    def critic_loss(self) -> float:
        """Loss of the critics."""

    @property
    def mean_value(self) -> float:
        """Mean of Q(s, a) over rows and critics."""

    @property
    def critic_gradient_norm(self) -> float:
        """Norm of the critics' gradient before it was clipped."""

    @property
    def actor_loss(self) -> float:
        """Loss of the actor."""

    @property
    def actor_gradient_norm(self) -> float:
        """Norm of the actor's gradient before it was clipped."""

    @property
    def entropy(self) -> float:
        """-mean log pi(a) (SAC)."""

    @property
    def temperature(self) -> float:
        """alpha at the beginning of the step (SAC)."""

    @property
    def applied(self) -> bool:
        """False: a loss or gradient was not finite, so nothing was changed."""


@dataclass(frozen=True)
class PlainStep:
    """A `LearningStep` for learners in Python."""

    td_errors: Float32Array
    critic_loss: float
    mean_value: float
    critic_gradient_norm: float
    actor_loss: float
    actor_gradient_norm: float
    entropy: float
    temperature: float
    applied: bool


class OffPolicyLearner(Protocol):
    """Learn the networks of one algorithm from batches of transitions.

    `learn` does a whole step; with several ranks, the four calls below it do one, in their order.

    Networks are layer tables, as in `accel`. Flat parameters, float32: the actor's weights, the
    critics' weights, then log(alpha) (SAC); the target networks in the same order, without actor
    for DQN and SAC and without log(alpha). The whole state is equal to the bit after equal calls.

    Noise is a function of seed, step, row and action dimension alone (Philox4x32-10, Box-Muller;
    see `accel.reference.philox`), so all backends draw the same.
    """

    @property
    def n_parameters(self) -> int:
        """Number of flat parameters."""

    @property
    def n_steps(self) -> int:
        """Learning steps done."""

    @property
    def backend(self) -> str:
        """Name of the backend."""

    @property
    def device(self) -> str:
        """Name of the device in use."""

    def learn(self, batch: Batch, rows: Int64Array | None = None) -> LearningStep:
        """Do one whole step: critics, then actor and temperature, then targets.

        With `rows`, the batch's arrays hold a whole replay buffer, of which these rows are learnt;
        weights are (n,) then all the same, one a row learnt.
        """

    def critic_gradient(
        self, batch: Batch, rows: Int64Array | None = None, first_row: int = 0
    ) -> Float32Array:
        """Return the critics' gradient, to average over ranks; then `apply_critic`.

        `first_row` numbers the batch's first row in the batch of all ranks together: each row of it
        draws its own noise.
        """

    def apply_critic(self, gradient: Float32Array) -> None:
        """Clip, step the critics' optimiser."""

    def actor_gradient(self, observations: Float32Array | None = None) -> Float32Array:
        """Return the gradient by actor and log(alpha) on the last batch, with the present critics.

        `observations` (n, n_observations), as many as the batch has, take the place of the batch's:
        an actor learns better from rows drawn uniformly than from those of large errors (Saglam
        et al. 2023). Empty where no actor step is due.
        """

    def apply_actor(self, gradient: Float32Array) -> LearningStep:
        """Step actor and temperature, move the targets, count the step; return what it measured."""

    def parameters(self) -> Float32Array:
        """Return a copy of the flat parameters."""

    def load_parameters(self, flat: Float32Array, targets: Float32Array | None = None) -> None:
        """Take over flat parameters; the targets become equal to them unless given."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that a step changes: parameters, targets, moments, counters."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` returned."""
