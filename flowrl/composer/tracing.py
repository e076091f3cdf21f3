"""Record which layers a call of torch code goes through, and in which order.

torch.fx can't follow control flow; this watches a real call instead: every function of torch passes
a TorchFunctionMode, functional and method forms alike, and a layer is known by its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from flowrl.composer.description import INPUT, MIXED, Convolution, Dense, Layer

_ACTIVATIONS = (
    "relu", "tanh", "sigmoid", "elu", "selu", "celu", "gelu", "silu", "mish", "leaky_relu",
    "softplus", "hardtanh", "hardswish", "relu6",
)  # fmt: skip
# Functions whose output holds the same numbers as their input.
_SAME = (
    "flatten", "view", "reshape", "unsqueeze", "squeeze", "contiguous", "float", "to", "detach",
    "clone", "view_as", "cpu",
)  # fmt: skip


@dataclass
class _Call:
    network: str
    name: str
    module: nn.Linear | nn.Conv2d
    source: int  # place among the recorded calls, INPUT or MIXED
    output_shape: tuple[int, ...]
    activation: str = "identity"


class LayerRecorder(TorchFunctionMode):
    """Records the calls of the layers of some networks while it is entered."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        """Watch networks by name."""
        super().__init__()
        self._layers: dict[int, tuple[str, str, nn.Linear | nn.Conv2d]] = {
            id(module.weight): (network, name, module)
            for network, root in networks.items()
            for name, module in root.named_modules()
            if isinstance(module, (nn.Linear, nn.Conv2d))
        }
        self._calls: list[_Call] = []
        self._sources: dict[int, int] = {}  # of tensors, by id
        self._alive: list[object] = []  # so that no id is given twice

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make one call of torch and note what it means for the layers."""
        kwargs = dict(kwargs or {})
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "").rstrip("_")
        self._note(name, [*args, *kwargs.values()], result)
        return result

    def layers(self, network: str) -> tuple[Layer, ...]:
        """Return the layers of a network in the order of their calls."""
        places = [i for i, call in enumerate(self._calls) if call.network == network]
        own = {place: number for number, place in enumerate(places)}
        found = (self._calls[place] for place in places)
        return tuple(_layer(call, own.get(call.source, min(call.source, INPUT))) for call in found)

    def _note(self, name: str, arguments: list[Any], result: Any) -> None:
        tensors = list(_tensors(arguments))
        layer = next((self._layers[id(t)] for t in tensors if id(t) in self._layers), None)
        if layer is not None and name in ("linear", "conv2d", "addmm"):
            self._begin(layer, tensors[0], result)
            return
        known = {self._sources[id(t)] for t in tensors if id(t) in self._sources}
        if not known or not tensors:
            return
        source = self._sources.get(id(tensors[0]), INPUT)
        if name in _ACTIVATIONS and source >= 0 and self._calls[source].activation == "identity":
            self._calls[source].activation = name
        elif name not in _SAME:
            source = MIXED
        for made in _tensors([result]):
            self._remember(made, source)

    def _begin(
        self, layer: tuple[str, str, nn.Linear | nn.Conv2d], read: torch.Tensor, made: torch.Tensor
    ) -> None:
        source = self._sources.get(id(read), INPUT)
        self._remember(made, len(self._calls))
        self._calls.append(_Call(*layer, source, tuple(made.shape[1:])))

    def _remember(self, tensor: torch.Tensor, source: int) -> None:
        self._sources[id(tensor)] = source
        self._alive.append(tensor)


def declared_layers(network: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of a network that can't be called, as they are declared."""
    return tuple(
        _layer(_Call("", name, module, MIXED, ()), MIXED)
        for name, module in network.named_modules()
        if isinstance(module, (nn.Linear, nn.Conv2d))
    )


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _layer(call: _Call, source: int) -> Layer:
    module, has_bias = call.module, call.module.bias is not None
    if isinstance(module, nn.Linear):
        n_in, n_out = module.in_features, module.out_features
        return Dense(call.name, n_in, n_out, call.activation, has_bias, source)
    padding = module.padding if isinstance(module.padding, str) else _pair(module.padding)
    size = _pair(call.output_shape[-2:]) if call.output_shape else (0, 0)
    kernel, stride = _pair(module.kernel_size), _pair(module.stride)
    n_in, n_out = module.in_channels, module.out_channels
    return Convolution(
        call.name, n_in, n_out, kernel, stride, padding, call.activation, has_bias, source, size
    )


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return int(values[0]), int(values[1])
