"""Layer tables and first weights of small multilayer perceptrons.

A network is a tree of dense layers; the table and the order of the flat weights are described in
`accel`. Here they are built from sizes, so that the rollout kernels, the native learner and the
torch learner all read the same two arrays.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Layers = npt.NDArray[np.int32]  # (n_layers, 6)
Weights = npt.NDArray[np.float32]  # (n_weights,)


class Activation(IntEnum):
    """Activation codes of the layer table."""

    IDENTITY = 0
    RELU = 1
    TANH = 2
    SIGMOID = 3


class Column(IntEnum):
    """Columns of the layer table."""

    SOURCE = 0
    BEGIN = 1
    N_IN = 2
    N_OUT = 3
    ACTIVATION = 4
    OUTPUT = 5


class PolicyKind(StrEnum):
    """What a policy makes of its network's outputs, see `flowrl.policies.act`."""

    GAUSSIAN = "gaussian"  # means and standard deviations of a normal distribution
    CATEGORICAL = "categorical"  # logits, or values of actions
    DETERMINISTIC = "deterministic"  # the action
    SQUASHED = "squashed"  # means and logarithms of standard deviations, then tanh
    TORCH = "torch"  # what a trainer of the user's own makes of them


def gaussian_actor(n_observations: int, n_actions: int, width: int) -> Layers:
    """Build a trunk and two branches of `width`: a tanh mean and a sigmoid standard deviation.

    The two branches stand side by side in one layer of 2 `width`; the heads read one half each
    (Viquerat & Hachem 2023).
    """
    tanh, sigmoid = Activation.TANH, Activation.SIGMOID
    return np.array(
        [
            (-1, 0, n_observations, width, tanh, -1),
            (0, 0, width, 2 * width, tanh, -1),
            (1, 0, width, n_actions, tanh, 0),
            (1, width, width, n_actions, sigmoid, n_actions),
        ],
        dtype=np.int32,
    )


def perceptron(
    n_inputs: int,
    widths: tuple[int, ...],
    n_outputs: int,
    hidden: Activation,
    end: Activation = Activation.IDENTITY,
) -> Layers:
    """Build a plain chain of hidden layers and an end."""
    sizes = (n_inputs, *widths, n_outputs)
    rows = [(i - 1, 0, sizes[i], sizes[i + 1], hidden, -1) for i in range(len(widths))]
    rows.append((len(widths) - 1, 0, sizes[-2], n_outputs, end, 0))
    return np.array(rows, dtype=np.int32)


def twins(n_inputs: int, width: int, n_networks: int) -> Layers:
    """Build n_networks chains of two relu layers and one value, each its own, in one table.

    Their first layers stand side by side in one of n_networks x `width`.
    """
    identity, relu, k = Activation.IDENTITY, Activation.RELU, range(n_networks)
    return np.array(
        [
            (-1, 0, n_inputs, n_networks * width, relu, -1),
            *((0, i * width, width, width, relu, -1) for i in k),
            *((1 + i, 0, width, 1, identity, i) for i in k),
        ],
        dtype=np.int32,
    )


NO_LAYERS: Layers = np.zeros((0, 6), np.int32)


def categorical_actor(n_observations: int, n_actions: int, width: int) -> Layers:
    """Build two tanh layers of `width` and one logit an action."""
    return perceptron(n_observations, (width, width), n_actions, Activation.TANH)


def critic(n_observations: int, width: int) -> Layers:
    """Build two relu layers of `width` and one value."""
    return perceptron(n_observations, (width, width), 1, Activation.RELU)


def weight_offsets(layers: Layers) -> npt.NDArray[np.int64]:
    """Return where each layer's weights begin in the flat vector; the last entry is its length."""
    n_in = layers[:, Column.N_IN].astype(np.int64)
    n_out = layers[:, Column.N_OUT].astype(np.int64)
    return np.concatenate(([0], np.cumsum((n_in + 1) * n_out)))


def n_weights(layers: Layers) -> int:
    """Return the length of a network's flat weight vector."""
    return int(weight_offsets(layers)[-1])


def n_outputs(layers: Layers) -> int:
    """Return the width of a network's output row."""
    heads = layers[layers[:, Column.OUTPUT] >= 0]
    return int((heads[:, Column.OUTPUT] + heads[:, Column.N_OUT]).max())


def initial_weights(layers: Layers, rng: np.random.Generator, head_gain: float) -> Weights:
    """Draw orthogonal weights and zero biases, with small heads.

    A layer made of parallel branches (one trunk, several readers) is drawn branch by branch, so
    that each branch is orthogonal on its own.
    """
    pieces: list[Weights] = []
    for index, row in enumerate(layers):
        n_in, n_out = int(row[Column.N_IN]), int(row[Column.N_OUT])
        is_head = row[Column.OUTPUT] >= 0
        gain = head_gain if is_head else _hidden_gain(Activation(int(row[Column.ACTIVATION])))
        readers = layers[layers[:, Column.SOURCE] == index]
        edges = sorted({0, n_out, *(int(begin) for begin in readers[:, Column.BEGIN])})
        blocks = [_orthogonal(n_in, end - begin, rng) for begin, end in pairwise(edges)]
        weights = gain * np.concatenate(blocks, axis=1)
        pieces += [weights.astype(np.float32).ravel(), np.zeros(n_out, np.float32)]
    return np.concatenate(pieces)


def uniform_weights(layers: Layers, rng: np.random.Generator) -> Weights:
    """Draw weights and biases from U(-1, 1) / sqrt(n_in), as actor-critic code commonly does."""
    pieces: list[Weights] = []
    for row in layers:
        n_in, n_out = int(row[Column.N_IN]), int(row[Column.N_OUT])
        pieces.append(rng.uniform(-1.0, 1.0, (n_in + 1) * n_out).astype(np.float32) / n_in**0.5)
    return np.concatenate(pieces).astype(np.float32) if pieces else np.zeros(0, np.float32)


def _hidden_gain(activation: Activation) -> float:
    # The gains that keep the variance of the signal through each activation (He et al. 2015).
    gains: dict[Activation, float] = {Activation.RELU: 2.0**0.5, Activation.TANH: 5.0 / 3.0}
    return gains.get(activation, 1.0)


def _orthogonal(n_in: int, n_out: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw an (n_in, n_out) matrix with orthonormal rows or columns (Saxe et al. 2014)."""
    gaussian = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    q, r = np.linalg.qr(gaussian)
    q *= np.sign(np.diagonal(r))
    return q if n_in >= n_out else q.T
