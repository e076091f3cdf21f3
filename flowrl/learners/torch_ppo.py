"""The PPO learner in torch: any network size, and a second opinion on the native one.

Its gradients are summed over ranks exactly as the native learner's; but torch's own sums depend
on how many rows it is given, so results are equal over rank counts only to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch

from flowrl.agents.ppo import PpoAgent
from flowrl.config import PpoConfig
from flowrl.learners import Batch, Step, StepReport
from flowrl.learners.fixed_point import FixedPoint, decode_statistics, encode_statistics
from flowrl.minibatches import Minibatch
from flowrl.networks import Layers, PolicyKind, Weights, n_outputs, n_weights, weight_offsets
from flowrl.trajectory import Float32Array, IntArray

ADAM_EPSILON = 1e-5
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
_NETWORKS = ("actor", "critic")
_MOST_BITS = 1000  # of a scale's exponent: 2^bits is a number
_STATISTICS = ("policy_loss", "value_loss", "entropy", "approximate_kl", "clip_fraction")
_ACTIVATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x,
    torch.relu,
    torch.tanh,
    torch.sigmoid,
)


def forward(layers: Layers, weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Evaluate a layer table on rows: (n_rows, n_inputs) -> (n_rows, n_outputs)."""
    outputs = [torch.empty(0)] * len(layers)
    heads: list[tuple[int, torch.Tensor]] = []
    offsets = weight_offsets(layers)
    for index, (source, begin, n_in, n_out, activation, column) in enumerate(layers.tolist()):
        rows = (inputs if source < 0 else outputs[source])[:, begin : begin + n_in]
        flat = weights[offsets[index] : offsets[index + 1]]
        matrix = flat[: n_in * n_out].view(n_in, n_out)
        outputs[index] = _ACTIVATIONS[activation](torch.addmm(flat[n_in * n_out :], rows, matrix))
        if column >= 0:
            heads.append((column, outputs[index]))
    return torch.cat([head for _, head in sorted(heads, key=lambda item: item[0])], dim=1)


class TorchLearner:
    """PPO's loss by autograd, Adam by torch; one flat parameter a network."""

    def __init__(self, agent: PpoAgent, config: PpoConfig) -> None:
        self._agent, self._config = agent, config
        sizes = (n_weights(agent.actor), n_weights(agent.critic))
        self._networks = [torch.zeros(size, requires_grad=True) for size in sizes]
        self._rates = rates = (config.actor_learning_rate, config.critic_learning_rate)
        self._optimisers = [
            torch.optim.Adam([network], lr=rate, eps=ADAM_EPSILON, fused=True)
            for network, rate in zip(self._networks, rates, strict=True)
        ]
        for network, optimiser in zip(self._networks, self._optimisers, strict=True):
            _make_moments(optimiser, network)
        self._scales = [FixedPoint(), FixedPoint()]
        self._edges = np.cumsum((0, *sizes, 2 * len(_STATISTICS)))
        # The last two count what left the range and what was not finite.
        self.n_accumulators = int(self._edges[-1]) + 2
        self._batch: dict[str, torch.Tensor] = {}

    def parameters(self) -> Weights:
        """Return a copy of the flat parameters: the actor's weights, then the critic's."""
        flat: Weights = torch.cat([n.detach() for n in self._networks]).numpy().copy()
        return flat

    def load_parameters(self, flat: Weights) -> None:
        """Take over flat parameters."""
        with torch.no_grad():
            for network, begin, end in zip(
                self._networks, self._edges[:2], self._edges[1:3], strict=True
            ):
                network.copy_(torch.from_numpy(flat[begin:end]))

    def values(self, observations: Float32Array) -> Float32Array:
        """Return the critic's value of each normalised observation: (n_rows,)."""
        with torch.no_grad():
            values: Float32Array = self._values(torch.from_numpy(observations)).numpy()
        return values

    def log_probabilities(self, observations: Float32Array, actions: Float32Array) -> Float32Array:
        """Return the log-probability (density) of each action as sampled: (n_rows,)."""
        with torch.no_grad():
            inputs = torch.from_numpy(observations), torch.from_numpy(actions)
            result: Float32Array = self._policy(*inputs)[0].numpy()
        return result

    def load_batch(self, batch: Batch) -> None:
        """Take the transitions of the next update."""
        self._batch = {name: torch.from_numpy(value) for name, value in vars(batch).items()}

    def gradient(self, minibatch: Minibatch, accumulators: IntArray) -> None:
        """Overwrite `accumulators` with this rank's part of the minibatch's sums."""
        accumulators[:] = 0
        if not minibatch.rows.size:
            return
        rows = torch.from_numpy(minibatch.rows)
        part = {name: value[rows] for name, value in self._batch.items()}
        for network in self._networks:
            network.grad = None
        loss, statistics = self._loss(part)
        (loss / minibatch.n_total).backward()
        for network, scale, begin in zip(
            self._networks, self._scales, self._edges[:2], strict=True
        ):
            gradient = cast(torch.Tensor, network.grad).numpy()
            integers, overflow, not_finite = scale.encode(gradient)
            accumulators[begin : begin + len(integers)] = integers
            accumulators[-2] += overflow
            accumulators[-1] += not_finite
        means = np.array([s.item() for s in statistics]) / minibatch.n_total
        accumulators[self._edges[2] : self._edges[3]] = encode_statistics(means)

    def _loss(self, part: dict[str, torch.Tensor]) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Return the sum of both networks' losses over the rows, and the sums to report.

        Clipped surrogate (Schulman et al. 2017, eq. 7) with an entropy bonus; half the squared
        error of the value.
        """
        clip = self._config.clip
        log_probability, entropy = self._policy(part["observations"], part["actions"])
        log_ratio = log_probability - part["log_probabilities"]
        ratio = log_ratio.exp()
        advantages = part["advantages"]
        surrogate = torch.minimum(
            ratio * advantages, ratio.clamp(1.0 - clip, 1.0 + clip) * advantages
        )
        error = self._values(part["observations"]) - part["value_targets"]
        value_loss = 0.5 * (error * error).sum()
        policy_loss = -surrogate.sum()
        loss = policy_loss - self._config.entropy_coefficient * entropy.sum() + value_loss
        with torch.no_grad():
            clipped = ((ratio - 1.0).abs() > clip).sum()
            kl = (ratio - 1.0 - log_ratio).sum()
        return loss, (policy_loss, value_loss, entropy.sum(), kl, clipped)

    def _values(self, observations: torch.Tensor) -> torch.Tensor:
        return forward(self._agent.critic, self._networks[1], observations)[:, 0]

    def _policy(
        self, observations: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-probability of each action and the entropy: (n_rows,) each."""
        outputs = forward(self._agent.actor, self._networks[0], observations)
        if self._agent.kind is PolicyKind.CATEGORICAL:
            logits = torch.log_softmax(outputs, dim=1)
            chosen = logits.gather(1, actions.long())[:, 0]
            return chosen, -(logits.exp() * logits).sum(dim=1)
        n_actions = n_outputs(self._agent.actor) // 2
        mean, std = outputs[:, :n_actions], outputs[:, n_actions:]
        log_std = std.log()
        z = (actions - mean) / std
        log_probability = (-0.5 * z * z - log_std - _HALF_LOG_TWO_PI).sum(dim=1)
        return log_probability, (log_std + 0.5 + _HALF_LOG_TWO_PI).sum(dim=1)

    def apply(self, accumulators: IntArray, rate_factor: float) -> StepReport:
        """Step the optimiser with the sums over all ranks, at its learning rates x the factor."""
        if accumulators[-1]:
            return self._report(Step.SKIPPED, accumulators, [float("nan")] * 2)
        if accumulators[-2]:
            for scale in self._scales:
                scale.rescale()
            return self._report(Step.RESCALED, accumulators, [float("nan")] * 2)
        parts = [accumulators[begin:end] for begin, end in pairwise(self._edges[:3])]
        refined = [scale.refine(part) for scale, part in zip(self._scales, parts, strict=True)]
        if any(refined):
            return self._report(Step.RESCALED, accumulators, [float("nan")] * 2)
        norms = [self._apply_one(i, accumulators, rate_factor) for i in range(2)]
        return self._report(Step.APPLIED, accumulators, norms)

    def _apply_one(self, index: int, accumulators: IntArray, rate_factor: float) -> float:
        """Clip one network's gradient to the norm and step it; return the norm before."""
        begin, end = self._edges[index], self._edges[index + 1]
        gradient = self._scales[index].decode(accumulators[begin:end])
        self._scales[index].follow(float(np.abs(gradient).max()))
        norm = float(np.sqrt((gradient * gradient).sum()))
        gradient *= min(1.0, self._config.max_gradient_norm / (norm + 1e-6))
        self._networks[index].grad = torch.from_numpy(gradient.astype(np.float32))
        self._optimisers[index].param_groups[0]["lr"] = rate_factor * self._rates[index]
        self._optimisers[index].step()
        return norm

    def _report(self, step: Step, accumulators: IntArray, norms: list[float]) -> StepReport:
        means = decode_statistics(accumulators[self._edges[2] : self._edges[3]])
        values: dict[str, Any] = dict(zip(_STATISTICS, map(float, means), strict=True))
        return StepReport(
            step, **values, actor_gradient_norm=norms[0], critic_gradient_norm=norms[1]
        )

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""
        state: dict[str, Any] = {"parameters": self.parameters()}
        state["exponents"] = np.array([scale.exponent for scale in self._scales])
        for index, moments in enumerate(self._moments()):
            for name, value in moments.items():
                state[f"{_NETWORKS[index]}/{name}"] = value.numpy().copy()
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self.load_parameters(state["parameters"])
        for scale, exponent in zip(self._scales, state["exponents"], strict=True):
            if not -_MOST_BITS <= exponent <= _MOST_BITS:
                raise ValueError(f"exponent must be within +-{_MOST_BITS}, got {exponent}")
            scale.exponent = int(exponent)
        for index, moments in enumerate(self._moments()):
            for name, value in moments.items():
                value.copy_(torch.from_numpy(np.asarray(state[f"{_NETWORKS[index]}/{name}"])))

    def _moments(self) -> list[dict[str, torch.Tensor]]:
        """Return the optimisers' own tensors, network by network."""
        pairs = zip(self._optimisers, self._networks, strict=True)
        return [optimiser.state[network] for optimiser, network in pairs]


def _make_moments(optimiser: torch.optim.Adam, network: torch.Tensor) -> None:
    """Let an optimiser make its moments, by a step that it leaves out."""
    network.grad = torch.zeros_like(network)
    fused: Any = optimiser  # these two attributes are how a gradient scaler speaks to it
    fused.found_inf, fused.grad_scale = torch.ones(()), None
    optimiser.step()
    del fused.found_inf, fused.grad_scale
    network.grad = None
