"""A user's trainer behind the interface of all off-policy learners, on a torch device."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import nn

from accel.interfaces import PlainStep
from flowrl.composer.modules import find_networks
from flowrl.composer.trainers import Batch
from flowrl.config import ConfigError
from flowrl.networks import Weights
from flowrl.replay.storage import Rows
from flowrl.state import within
from flowrl.trajectory import Float32Array, IntArray

_NAN = float("nan")


class TorchTrainerLearner:
    """Calls a trainer's `update_policy` on drawn rows; nothing of it is replaced.

    Moved to the device are the trainer's modules; their parameters stay the same objects, so its
    optimisers keep them.
    """

    def __init__(
        self,
        trainer: Any,
        input_shape: tuple[int, ...],
        acting: tuple[str, ...],
        is_choice: bool,
        is_prioritized: bool,
        device: str = "cpu",
        n_threads: int = 1,
    ) -> None:
        """Take a trainer over; `acting` names the networks that act.

        Raises ConfigError where torch has no such device.
        """
        if device != "cpu" and not torch.cuda.is_available():
            raise ConfigError(
                f"the learner's device must be one that torch finds, got {device}; "
                "give a hardware file without it"
            )
        self.trainer = trainer
        self._device, self._shape = torch.device(device), input_shape
        self._is_choice, self._is_prioritized = is_choice, is_prioritized
        torch.set_num_threads(n_threads)
        self._networks = find_networks(trainer)
        self._acting = [self._networks[name] for name in acting]
        for module in self._modules().values():
            module.to(self._device)

    def learn(
        self,
        rows: Rows,
        indices: IntArray,
        weights: Float32Array,
        actor_observations: Float32Array | None = None,
    ) -> PlainStep:
        """Make one step on the rows at `indices`; a trainer learns its actor from the same."""
        del actor_observations
        drawn = {name: self._tensor(values[indices]) for name, values in vars(rows).items()}
        for name in ("observations", "next_observations"):
            drawn[name] = drawn[name].reshape(-1, *self._shape)
        if self._is_choice:
            drawn["actions"] = drawn["actions"].to(torch.int64)
        result = self.trainer.update_policy(Batch(**drawn, weights=self._tensor(weights)))
        td_errors = self._td_errors(result, len(indices))
        applied = not self._is_prioritized or bool(np.isfinite(td_errors).all())
        return PlainStep(td_errors, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, applied)

    def _tensor(self, values: Float32Array) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)

    def _td_errors(self, result: Any, n: int) -> Float32Array:
        """Return what update_policy returned as (n,); NaN where that is not asked for."""
        if isinstance(result, torch.Tensor):
            result = result.detach().cpu().numpy()
        is_array = isinstance(result, np.ndarray) and result.size == n
        if not is_array and self._is_prioritized:
            got = f"an array {result.shape}" if isinstance(result, np.ndarray) else (
                f"a {type(result).__name__}")  # fmt: skip
            raise ConfigError(
                f"{type(self.trainer).__name__}.update_policy must return the absolute TD errors "
                f"of its {n} rows for prioritized replay, got {got}; return them, or use "
                'set_replay(kind="uniform")'
            )
        if not is_array:
            return np.full(n, _NAN, np.float32)
        errors: Float32Array = np.abs(result.reshape(n)).astype(np.float32)
        return errors

    def actor_weights(self) -> Weights:
        """Return a copy of the acting networks' parameters, in their order."""
        return _flat(self._acting)

    def parameters(self) -> Weights:
        """Return a copy of all networks' parameters."""
        return _flat(list(self._networks.values()))

    def load_parameters(self, flat: Weights) -> None:
        """Take over what `parameters` returned, targets included."""
        _load(list(self._networks.values()), flat)

    def _modules(self) -> dict[str, nn.Module]:
        if isinstance(self.trainer, nn.Module):
            return {"self": self.trainer}
        return {n: m for n, m in vars(self.trainer).items() if isinstance(m, nn.Module)}

    def _optimisers(self) -> dict[str, torch.optim.Optimizer]:
        found = vars(self.trainer).items()
        return {n: o for n, o in found if isinstance(o, torch.optim.Optimizer)}

    def state(self) -> dict[str, Any]:
        """Return copies of modules, optimisers and numbers that are attributes of the trainer."""
        state: dict[str, Any] = {"random": torch.get_rng_state().numpy()}
        for name, module in self._modules().items():
            for key, value in module.state_dict().items():
                state[f"modules/{name}/{key}"] = value.cpu().numpy().copy()
        for name, optimiser in self._optimisers().items():
            for index, moments in optimiser.state_dict()["state"].items():
                for key, value in moments.items():
                    copied = torch.as_tensor(value).cpu().numpy().copy()
                    state[f"optimisers/{name}/{index}/{key}"] = copied
        for name, value in vars(self.trainer).items():
            if isinstance(value, Number) and not isinstance(value, complex):
                state[f"numbers/{name}"] = np.array(value)
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        torch.set_rng_state(torch.from_numpy(state["random"]))
        for name, module in self._modules().items():
            own = within(f"modules/{name}", state)
            module.load_state_dict({key: torch.from_numpy(v.copy()) for key, v in own.items()})
        for name, optimiser in self._optimisers().items():
            moments: dict[int, dict[str, torch.Tensor]] = {}
            for path, value in within(f"optimisers/{name}", state).items():
                index, _, key = path.partition("/")
                moments.setdefault(int(index), {})[key] = torch.from_numpy(np.array(value))
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": moments, "param_groups": groups})
        for name, value in within("numbers", state).items():
            setattr(self.trainer, name, np.asarray(value).item())


def _flat(modules: list[nn.Module]) -> Weights:
    pieces = [p.detach().cpu().reshape(-1) for module in modules for p in module.parameters()]
    flat: Weights = torch.cat(pieces).numpy().astype(np.float32)
    return flat


@torch.no_grad()
def _load(modules: list[nn.Module], flat: Weights) -> None:
    begin = 0
    for module in modules:
        for parameter in module.parameters():
            piece = torch.from_numpy(flat[begin : begin + parameter.numel()].copy())
            parameter.copy_(piece.view_as(parameter))
            begin += parameter.numel()
