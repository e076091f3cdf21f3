"""Noise with which policies act: what `flowrl.policies.act` adds to the outputs of a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowrl.networks import PolicyKind
from flowrl.trajectory import Float32Array

# Draws the noise of one environment's next steps: (n_steps, n_choices).
NoiseSource = Callable[[np.random.Generator, tuple[int, int]], Float32Array]


def own_noise(kind: PolicyKind) -> NoiseSource:
    """Return the noise by which a stochastic policy draws from its own distribution."""
    if kind is PolicyKind.CATEGORICAL:
        return lambda rng, shape: rng.gumbel(size=shape).astype(np.float32)
    return lambda rng, shape: rng.standard_normal(shape, np.float32)


def uniform_noise(
    kind: PolicyKind, rng: np.random.Generator, shape: tuple[int, ...]
) -> Float32Array:
    """Draw noise that makes a network of zero weights act uniformly over all its actions."""
    if kind is PolicyKind.CATEGORICAL:
        return rng.gumbel(size=shape).astype(np.float32)
    uniform = rng.uniform(-1.0, 1.0, shape)
    if kind is PolicyKind.GAUSSIAN:  # zero weights give the standard deviation sigmoid(0) = 1/2
        uniform *= 2.0
    elif kind is PolicyKind.SQUASHED:
        uniform = np.arctanh(uniform)
    return uniform.astype(np.float32)


def gaussian_noise(scale: float) -> NoiseSource:
    """Return normal noise of a standard deviation, in units of half the action range."""
    return lambda rng, shape: np.float32(scale) * rng.standard_normal(shape, np.float32)


def epsilon_greedy_noise(epsilon: float) -> NoiseSource:
    """Return noise that leaves the best action with probability 1 - epsilon, else picks any."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Float32Array:
        # One far larger than any value decides alone.
        noise = np.float32(1e30) * rng.random(shape, np.float32)
        noise[rng.random(shape[0]) >= epsilon] = 0.0
        return noise

    return draw
