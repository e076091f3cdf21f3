"""The off-policy learner in torch: on a CPU or a GPU, and a second opinion on the fused one.

On a GPU the whole step is captured once in a CUDA graph and replayed (PEARL's lesson: launches,
not arithmetic, take the time of small networks). Losses: `flowrl.learners.torch_losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from accel.interfaces import Adam, Dqn, PlainStep, Sac, Td3
from flowrl.agents.off_policy import OffPolicyAgent
from flowrl.config import ConfigError
from flowrl.learners import torch_losses as losses
from flowrl.learners.torch_losses import Network, TorchBatch
from flowrl.learners.torch_ppo import forward
from flowrl.networks import Layers, Weights, n_weights
from flowrl.replay.storage import Rows
from flowrl.trajectory import Float32Array, IntArray

Results = tuple[torch.Tensor, torch.Tensor]  # TD errors (n,), what was measured

_NAN = float("nan")
_WARM_UP = 3  # steps before a capture
_MEASURED = (
    "critic_loss", "mean_value", "critic_gradient_norm", "actor_loss", "actor_gradient_norm",
    "entropy", "temperature",
)  # fmt: skip


class TorchOffPolicyLearner:
    """Losses by autograd, Adam by torch; one flat parameter for the actor and one for critics."""

    def __init__(
        self, agent: OffPolicyAgent, seed: int, device: str = "cpu", n_threads: int = 1
    ) -> None:
        """Make a learner on a torch device; raise ConfigError where there is none."""
        if device != "cpu" and not torch.cuda.is_available():
            raise ConfigError(
                f"--placement learner={device} needs a CUDA device that torch finds, and there is "
                "none; use learner=cpu"
            )
        self._options, self._device = agent.options, torch.device(device)
        torch.manual_seed(seed)
        torch.set_num_threads(n_threads)
        is_dqn = isinstance(agent.options, Dqn)
        # DQN's only network is its critic, which also acts.
        self._layers: dict[str, Layers] = (
            {"critic": agent.actor} if is_dqn else {"actor": agent.actor, "critic": agent.critic}
        )
        self._acting = "critic" if is_dqn else "actor"
        make = partial(torch.zeros, device=self._device)
        self._flat = {
            name: make(n_weights(layers), requires_grad=True)
            for name, layers in self._layers.items()
        }
        self._targets = {name: flat.detach().clone() for name, flat in self._flat.items()}
        if isinstance(agent.options, Sac):
            log_alpha = float(np.log(agent.options.initial_temperature))
            self._flat["temperature"] = torch.full(
                (1,), log_alpha, device=self._device, requires_grad=True
            )
        self._optimisers = {name: self._adam(name, flat) for name, flat in self._flat.items()}
        self._counters = {"n_steps": 0, "n_skipped": 0}
        self._graphs: dict[tuple[int, bool, bool], _CapturedStep] = {}

    def _settings(self, name: str) -> Adam:
        options = self._options
        if isinstance(options, Dqn):
            return options.optimiser
        settings: Adam = getattr(options, name)
        return settings

    def _adam(self, name: str, flat: torch.Tensor) -> torch.optim.Adam:
        settings = self._settings(name)
        optimiser = torch.optim.Adam(
            [flat],
            settings.learning_rate,
            settings.betas,
            settings.epsilon,
            fused=True,
            capturable=self._device.type != "cpu",
        )
        # A step that is left out makes the moments, which graphs and saved states then refer to.
        _step_optimiser(optimiser, flat, torch.zeros_like(flat), torch.ones_like(flat[0]).detach())
        return optimiser

    def learn(
        self,
        rows: Rows,
        indices: IntArray,
        weights: Float32Array,
        actor_observations: Float32Array | None = None,
    ) -> PlainStep:
        """Make one step on the rows at `indices`, with importance weights (n,)."""
        drawn = {name: values[indices] for name, values in vars(rows).items()}
        drawn["weights"] = weights
        drawn["actor_observations"] = (
            drawn["observations"] if actor_observations is None else actor_observations
        )
        batch = TorchBatch(**{
            name: torch.from_numpy(values).to(self._device) for name, values in drawn.items()
        })  # fmt: skip
        number = self._counters["n_steps"] + 1
        options = self._options
        interval = options.target_interval if isinstance(options, Dqn) else 1
        delay = options.policy_delay if isinstance(options, Td3) else 1
        with_actor = number % delay == 0
        with_targets = with_actor and number % interval == 0
        td_errors, measured = self._run(batch, with_actor, with_targets)
        values = dict(zip((*_MEASURED, "applied"), measured.tolist(), strict=True))
        applied = values.pop("applied") > 0.5
        self._counters["n_steps"] = number
        self._counters["n_skipped"] += not applied
        return PlainStep(td_errors.cpu().numpy().copy(), **values, applied=applied)

    def _run(self, batch: TorchBatch, with_actor: bool, with_targets: bool) -> Results:
        if self._device.type == "cpu":
            return self._step(batch, with_actor, with_targets)
        key = (len(batch.rewards), with_actor, with_targets)
        if key not in self._graphs:
            step = partial(self._step, with_actor=with_actor, with_targets=with_targets)
            restore = partial(self.load_state, self.state())
            self._graphs[key] = _CapturedStep(step, batch, restore)
        return self._graphs[key].replay(batch)

    def _step(self, batch: TorchBatch, with_actor: bool, with_targets: bool) -> Results:
        """Make one step; return the TD errors and what was measured, in the order of _MEASURED.

        Nothing here asks for a number, so that the whole can be captured. Where something is not
        finite, the optimisers leave the parameters and the targets' rate becomes 0; the critics
        have moved where only the actor's part is not.
        """
        nothing = torch.full((), _NAN, device=self._device)
        measured = dict.fromkeys(_MEASURED, nothing)
        alpha = self._alpha()
        with torch.no_grad():
            targets = self._values_to_learn(alpha, batch)
        critic = losses.critic_loss(self._options, self._network("critic"), batch, targets)
        gradients = {"critic": self._gradient(critic.loss, "critic")}
        failed = self._not_finite(critic.loss, gradients["critic"])
        measured |= {"critic_loss": critic.loss.detach(), "mean_value": critic.mean_value}
        measured["critic_gradient_norm"] = self._descend("critic", gradients["critic"], failed)
        if with_actor and "actor" in self._layers:
            failed = self._actor_step(alpha, batch, failed, measured)
        if with_targets:
            self._move_targets(failed)
        numbers = torch.stack([*(measured[name] for name in _MEASURED), 1.0 - failed])
        return critic.td_errors, numbers

    def _alpha(self) -> torch.Tensor:
        if "temperature" not in self._flat:
            return torch.zeros((), device=self._device)
        return self._flat["temperature"].detach().exp()[0]

    def _network(self, name: str, flat: torch.Tensor | None = None) -> Network:
        weights = self._flat[name] if flat is None else flat
        return partial(forward, self._layers[name], weights)

    def _target(self, name: str) -> Network:
        return self._network(name, self._targets[name])

    def _values_to_learn(self, alpha: torch.Tensor, batch: TorchBatch) -> torch.Tensor:
        options = self._options
        if isinstance(options, Dqn):
            return losses.dqn_targets(
                options, self._network("critic"), self._target("critic"), batch
            )
        if isinstance(options, Td3):
            return losses.td3_targets(options, self._target("actor"), self._target("critic"), batch)
        return losses.sac_targets(
            options, self._network("actor"), self._target("critic"), alpha, batch
        )

    def _actor_step(
        self,
        alpha: torch.Tensor,
        batch: TorchBatch,
        failed: torch.Tensor,
        measured: dict[str, torch.Tensor],
    ) -> torch.Tensor:
        """Step actor and temperature; return whether anything was not finite so far."""
        outputs = self._network("actor")(batch.actor_observations)
        if isinstance(self._options, Sac):
            actions, log_probability = losses.squashed_normal(self._options, outputs)
        else:
            actions, log_probability = outputs, torch.zeros((), device=self._device)
        critic = self._network("critic", self._flat["critic"].detach())
        values = critic(torch.cat([batch.actor_observations, actions], dim=1))
        of_critic = values.amin(dim=1) if isinstance(self._options, Sac) else values[:, 0]
        loss = (alpha * log_probability - of_critic).mean()
        gradient = self._gradient(loss, "actor")
        failed = torch.maximum(failed, self._not_finite(loss, gradient))
        measured["actor_loss"] = loss.detach()
        measured["actor_gradient_norm"] = self._descend("actor", gradient, failed)
        if isinstance(self._options, Sac):
            entropy = -log_probability.detach().mean()
            by_log_alpha = (entropy - self._options.target_entropy).reshape(1)
            self._descend("temperature", by_log_alpha, failed)
            measured |= {"entropy": entropy, "temperature": alpha}
        return failed

    def _gradient(self, loss: torch.Tensor, name: str) -> torch.Tensor:
        gradient: torch.Tensor = torch.autograd.grad(loss, [self._flat[name]])[0]
        return gradient

    def _not_finite(self, loss: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        finite = torch.isfinite(loss) & torch.isfinite(gradient).all()
        return torch.logical_not(finite).to(torch.float32)

    def _descend(self, name: str, gradient: torch.Tensor, failed: torch.Tensor) -> torch.Tensor:
        """Clip a gradient and step its optimiser, unless something failed; return the norm."""
        norm = gradient.norm()
        limit = self._settings(name).max_gradient_norm
        if limit < float("inf"):
            gradient = gradient * (limit / (norm + 1e-6)).clamp(max=1.0)
        _step_optimiser(self._optimisers[name], self._flat[name], gradient.detach(), failed)
        result: torch.Tensor = norm.detach()
        return result

    @torch.no_grad()
    def _move_targets(self, failed: torch.Tensor) -> None:
        rate = self._options.target_rate * (1.0 - failed)
        for name, target in self._targets.items():
            target.add_(rate * (self._flat[name].detach() - target))

    @torch.no_grad()
    def act(self, observations: torch.Tensor) -> torch.Tensor:
        """Evaluate the acting network: (n, n_observations) -> (n, n_outputs)."""
        return self._network(self._acting)(observations)

    def actor_weights(self) -> Weights:
        """Return a copy of the acting network's weights."""
        return self._numbers(self._flat[self._acting])

    def parameters(self) -> Weights:
        """Return a copy of the actor's weights, then the critics'."""
        return np.concatenate([self._numbers(self._flat[name]) for name in self._layers])

    @staticmethod
    def _numbers(tensor: torch.Tensor) -> Weights:
        numbers: Weights = tensor.detach().cpu().numpy().copy()
        return numbers

    @torch.no_grad()
    def load_parameters(self, flat: Weights) -> None:
        """Take over the actor's weights and the critics'; the targets become equal to them."""
        begin = 0
        for name, layers in self._layers.items():
            piece = torch.from_numpy(flat[begin : begin + n_weights(layers)])
            self._flat[name].copy_(piece)
            self._targets[name].copy_(piece)
            begin += n_weights(layers)

    def state(self) -> dict[str, Any]:
        """Return copies of all that a step changes."""
        state: dict[str, Any] = {name: np.array(count) for name, count in self._counters.items()}
        for name, flat in self._flat.items():
            state[f"parameters/{name}"] = self._numbers(flat)
            for key, value in self._optimisers[name].state[flat].items():
                state[f"optimiser/{name}/{key}"] = self._numbers(value)
        for name, target in self._targets.items():
            state[f"targets/{name}"] = self._numbers(target)
        state["random"] = torch.get_rng_state().numpy()
        return state

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        for name in self._counters:
            self._counters[name] = int(state[name])
        for name, flat in self._flat.items():
            flat.copy_(torch.from_numpy(state[f"parameters/{name}"]))
            for key, value in self._optimisers[name].state[flat].items():
                value.copy_(torch.from_numpy(state[f"optimiser/{name}/{key}"]))
        for name, target in self._targets.items():
            target.copy_(torch.from_numpy(state[f"targets/{name}"]))
        torch.set_rng_state(torch.from_numpy(state["random"]))


def _step_optimiser(
    optimiser: torch.optim.Adam, flat: torch.Tensor, gradient: torch.Tensor, failed: torch.Tensor
) -> None:
    """Step a fused Adam; it leaves everything as it was where `failed` is 1."""
    flat.grad = gradient
    fused: Any = optimiser  # these two attributes are how a gradient scaler speaks to it
    fused.found_inf, fused.grad_scale = failed, None
    optimiser.step()


class _CapturedStep:
    """One step in a CUDA graph: batches are copied into its own, then it is replayed.

    The steps that warm torch up before a capture change the parameters; `restore` undoes them.
    """

    def __init__(
        self, step: Callable[[TorchBatch], Results], batch: TorchBatch, restore: Callable[[], None]
    ) -> None:
        self._batch = TorchBatch(**{name: value.clone() for name, value in vars(batch).items()})
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                step(self._batch)
        torch.cuda.current_stream().wait_stream(stream)
        restore()
        with torch.cuda.graph(self._graph):
            self._results = step(self._batch)

    def replay(self, batch: TorchBatch) -> Results:
        """Make the step on another batch of the same size."""
        for own, given in zip(vars(self._batch).values(), vars(batch).values(), strict=True):
            own.copy_(given)
        self._graph.replay()
        td_errors, numbers = self._results
        return td_errors, numbers
