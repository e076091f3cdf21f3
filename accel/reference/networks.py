"""Dense layers in plain NumPy: forward and backward pass over a layer table."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64Array = NDArray[np.float64]
Int32Array = NDArray[np.int32]

IDENTITY, RELU, TANH, SIGMOID = range(4)


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
    return gradients(layers, weights, inputs, d_outputs)[0]


def gradients(
    layers: Int32Array, weights: Float64Array, inputs: Float64Array, d_outputs: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Compute the gradients by the flat weights and by the input rows."""
    made = layer_outputs(layers, weights, inputs)
    d_made = [np.zeros_like(y) for y in made]
    d_inputs = np.zeros_like(inputs)
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
        to = d_inputs if source < 0 else d_made[source]
        to[:, begin : begin + n_in] += d @ values[i][0].T
    return gradient, d_inputs
