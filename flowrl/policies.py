"""Policies as the actor runs them: compiled, one observation at a time, without torch.

One row at a time and always in the same order of operations: an action depends on its own
observation only, never on how many others are computed beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from flowrl.networks import Column, Layers, PolicyKind, Weights, n_outputs, weight_offsets

Float32Array = npt.NDArray[np.float32]

KIND_CODES = {kind: code for code, kind in enumerate(PolicyKind)}
_GAUSSIAN, _CATEGORICAL, _DETERMINISTIC, _SQUASHED, _ = (KIND_CODES[kind] for kind in PolicyKind)
# Bounds of the logarithm of a squashed policy's standard deviation (Haarnoja et al. 2018).
LOG_STD_RANGE = (-20.0, 2.0)
_LOG_STD_LOW, _LOG_STD_HIGH = (np.float32(bound) for bound in LOG_STD_RANGE)

# Fused multiply-adds only: nothing here may assume that a NaN cannot happen.
_FAST = {"contract"}


class PolicyArrays(NamedTuple):
    """Everything a compiled policy reads.

    The environment gets `action_offset + action_scale * clip(action, -1, 1)`.
    """

    layers: Layers
    offsets: npt.NDArray[np.int64]  # (n_layers + 1,) where each layer's weights begin
    weights: Weights
    observation_mean: Float32Array  # (n_observations,)
    observation_scale: Float32Array  # (n_observations,) 1 / standard deviation
    observation_clip: float  # in standard deviations [-]
    action_scale: Float32Array  # (n_env_actions,)
    action_offset: Float32Array  # (n_env_actions,)
    action_table: Float32Array  # (n_choices, n_env_actions) a discrete choice's action; else empty
    kind: int  # by KIND_CODES
    n_outputs: int
    width: int  # columns of one layer's row in the scratch


def policy_arrays(
    layers: Layers,
    kind: PolicyKind,
    n_observations: int,
    action_scale: Float32Array,
    action_offset: Float32Array,
    action_table: Float32Array,
    observation_clip: float,
) -> PolicyArrays:
    """Allocate a policy with zero weights and an identity normalisation."""
    offsets = weight_offsets(layers)
    return PolicyArrays(
        layers=layers,
        offsets=offsets,
        weights=np.zeros(int(offsets[-1]), np.float32),
        observation_mean=np.zeros(n_observations, np.float32),
        observation_scale=np.ones(n_observations, np.float32),
        observation_clip=float(observation_clip),
        action_scale=action_scale.astype(np.float32),
        action_offset=action_offset.astype(np.float32),
        action_table=action_table.astype(np.float32),
        kind=KIND_CODES[kind],
        n_outputs=n_outputs(layers),
        width=max(n_observations, int(layers[:, Column.N_OUT].max()), n_outputs(layers)),
    )


def scratch_for(policy: PolicyArrays) -> Float32Array:
    """Allocate the scratch of one policy evaluation: (n_layers + 2, width)."""
    return np.zeros((policy.layers.shape[0] + 2, policy.width), np.float32)


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _activate(values: Float32Array, activation: int) -> None:
    """Apply an activation in place; tanh is a rational fit, so that its loop fills vectors."""
    if activation == 1:
        for j in range(values.size):
            values[j] = max(values[j], np.float32(0.0))
    elif activation == 2:
        for j in range(values.size):
            values[j] = _tanh(values[j])
    elif activation == 3:
        half = np.float32(0.5)
        for j in range(values.size):
            values[j] = half + half * _tanh(half * values[j])


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy", inline="always")
def _tanh(x: np.float32) -> np.float32:
    """Return tanh(x) by a minimax fit x P(x^2) / Q(x^2) of its relative error on |x| <= 8.6.

    The fit is good to 1.4e-8 of the value, float32 rounding leaves 4e-7.
    """
    f = np.float32
    x = min(max(x, f(-8.6)), f(8.6))
    s = x * x
    p = f(1.408236160e-08)
    p = s * p + f(2.112229849e-05)
    p = s * p + f(3.526396382e-03)
    p = s * p + f(1.340687089e-01)
    p = s * p + f(9.999999868e-01)
    q = f(8.070590825e-07)
    q = s * q + f(3.336261853e-04)
    q = s * q + f(2.599388003e-02)
    q = s * q + f(4.674019243e-01)
    q = s * q + f(1.0)
    return x * p / q


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _dense(inputs: Float32Array, weights: Float32Array, n_out: int, out: Float32Array) -> None:
    """Write the biases plus inputs times weights into `out`; weights hold W then b."""
    n_in = inputs.size
    out[:] = weights[n_in * n_out : (n_in + 1) * n_out]
    for k in range(n_in):
        x = inputs[k]
        row = weights[k * n_out : (k + 1) * n_out]
        for j in range(n_out):
            out[j] += x * row[j]


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def forward(policy: PolicyArrays, observation: Float32Array, scratch: Float32Array) -> Float32Array:
    """Evaluate the network on one raw observation; return a view of its output row."""
    n_layers = policy.layers.shape[0]
    # Rows of the scratch: one a layer, then the normalised observation, then the output.
    inputs = scratch[n_layers]
    clip = np.float32(policy.observation_clip)
    for k in range(observation.size):
        x = (observation[k] - policy.observation_mean[k]) * policy.observation_scale[k]
        inputs[k] = min(max(x, -clip), clip)
    outputs = scratch[n_layers + 1]
    for index in range(n_layers):
        source, begin, n_in, n_out, activation, column = policy.layers[index]
        row = inputs if source < 0 else scratch[source]
        out = scratch[index, :n_out]
        weights = policy.weights[policy.offsets[index] : policy.offsets[index + 1]]
        _dense(row[begin : begin + n_in], weights, n_out, out)
        _activate(out, activation)
        if column >= 0:
            outputs[column : column + n_out] = out
    result: Float32Array = outputs[: policy.n_outputs]
    return result


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def act(
    policy: PolicyArrays,
    observation: Float32Array,
    noise: Float32Array,
    scratch: Float32Array,
    action: Float32Array,
    env_action: Float32Array,
) -> None:
    """Draw one action.

    Gaussian: mean + standard deviation x noise, noise standard normal (n_actions,).
    Squashed: the tanh of that, the standard deviation being exp(output) within LOG_STD_RANGE.
    Deterministic: output + noise, clipped to [-1, 1].
    Categorical: the largest of output + noise, noise Gumbel distributed (n_choices,).
    Zero noise is the greedy action of each. `action` receives the action as sampled, `env_action`
    what the environment gets: clipped to [-1, 1] and scaled to its bounds, or the choice's action.
    """
    outputs = forward(policy, observation, scratch)
    if policy.kind == _CATEGORICAL:
        best = 0
        for j in range(1, outputs.size):
            if outputs[j] + noise[j] > outputs[best] + noise[best]:
                best = j
        action[0] = best
        env_action[:] = policy.action_table[best]
    else:
        low, high = np.float32(-1.0), np.float32(1.0)
        n_actions = action.size
        for j in range(n_actions):
            a = outputs[j]
            if policy.kind == _GAUSSIAN:
                a += outputs[n_actions + j] * noise[j]
            elif policy.kind == _DETERMINISTIC:
                a = min(max(a + noise[j], low), high)
            else:
                log_std = min(max(outputs[n_actions + j], _LOG_STD_LOW), _LOG_STD_HIGH)
                a = _tanh(a + np.exp(log_std) * noise[j])
            action[j] = a
            a = min(max(a, low), high)
            env_action[j] = policy.action_offset[j] + policy.action_scale[j] * a
