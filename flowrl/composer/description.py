"""What is known of a trainer class once its modules have been read: no torch in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flowrl.networks import NO_LAYERS, Activation, Layers

# What the fused learners can compute; any other activation runs as the torch code it is.
_FUSED = {
    "identity": Activation.IDENTITY,
    "relu": Activation.RELU,
    "tanh": Activation.TANH,
    "sigmoid": Activation.SIGMOID,
}
INPUT = -1  # source of a layer that reads the network's input
MIXED = -2  # of one that reads something made of other layers' outputs


@dataclass(frozen=True)
class Dense:
    """One call of an nn.Linear."""

    name: str  # in its network, as in "hidden.0"
    n_in: int
    n_out: int
    activation: str = "identity"
    has_bias: bool = True
    source: int = INPUT  # call of the same network whose output it reads, or INPUT, MIXED

    @property
    def n_multiply_adds(self) -> int:
        """Count the multiply-adds of one row."""
        return self.n_in * self.n_out


@dataclass(frozen=True)
class Convolution:
    """One call of an nn.Conv2d."""

    name: str
    n_in: int  # channels
    n_out: int  # channels
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] | str
    activation: str = "identity"
    has_bias: bool = True
    source: int = INPUT
    output_size: tuple[int, int] = (0, 0)  # height and width

    @property
    def n_multiply_adds(self) -> int:
        """Count the multiply-adds of one row (without groups)."""
        height, width = self.output_size
        return self.n_in * self.n_out * self.kernel[0] * self.kernel[1] * height * width


Layer = Dense | Convolution


@dataclass(frozen=True)
class Network:
    """One network of a trainer: its layers in the order in which they are called."""

    name: str  # attribute of the trainer
    role: str  # "acting", "critic", "target" or "other"
    layers: tuple[Layer, ...]
    is_traced: bool = True  # False: nobody could call it, its layers stand as declared
    output_shapes: tuple[tuple[int, ...], ...] = ()  # of the module's outputs, without the batch

    @property
    def is_chain(self) -> bool:
        """Tell whether it is a plain perceptron that the fused learners can compute."""
        names = [layer.name for layer in self.layers]
        return self.is_traced and len(set(names)) == len(names) and all(
            isinstance(layer, Dense)
            and layer.has_bias
            and layer.activation in _FUSED
            and layer.source == number - 1
            for number, layer in enumerate(self.layers)
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainerDescription:
    """A trainer as the composer sees it; a table is None where only torch can run the network."""

    name: str  # of the class
    algo: str  # "dqn", "ddpg", "td3", "sac": has a fused learner; "torch": runs as it is
    input_shape: tuple[int, ...]
    networks: tuple[Network, ...]
    actor: Layers | None = None
    critic: Layers | None = None
    notes: tuple[str, ...] = field(default=())  # why it runs through torch, where it does

    @property
    def acting(self) -> Network:
        """Return the first network that acts."""
        return next(network for network in self.networks if network.role == "acting")

    @property
    def acting_names(self) -> tuple[str, ...]:
        """Return the names of all networks that act."""
        return tuple(network.name for network in self.networks if network.role == "acting")


def side_by_side(networks: Sequence[Network]) -> Layers | None:
    """Return one table of chains that read the same input, each of equal widths.

    Their first layers stand side by side in one, as in `flowrl.networks.twins`. None where they
    don't fit the fused learners; an empty table for no network.
    """
    if not networks:
        return NO_LAYERS
    shapes = [[(n.n_in, n.n_out, n.activation) for n in net.layers] for net in networks]
    if not all(net.is_chain for net in networks) or any(shape != shapes[0] for shape in shapes):
        return None
    chain, n = shapes[0], len(networks)
    if len(chain) == 1 and n > 1:
        return None
    n_in, width, activation = chain[0]
    end = 0 if len(chain) == 1 else -1
    rows = [(INPUT, 0, n_in, n * width, int(_FUSED[activation]), end)]
    for depth, (reads, makes, name) in enumerate(chain[1:], 1):
        for i in range(n):
            source = 0 if depth == 1 else 1 + (depth - 2) * n + i
            begin = i * reads if depth == 1 else 0
            output = i * makes if depth == len(chain) - 1 else -1
            rows.append((source, begin, reads, makes, int(_FUSED[name]), output))
    return np.array(rows, np.int32)
