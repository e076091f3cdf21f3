"""Noise for acting: uniform at first, epsilon-greedy with the right share."""

import numpy as np
import pytest
from scipy import stats

from flowrl.exploration import epsilon_greedy_noise, uniform_noise
from flowrl.networks import (
    Activation,
    PolicyKind,
    categorical_actor,
    gaussian_actor,
    perceptron,
)
from flowrl.policies import act, policy_arrays, scratch_for


def blank(kind):
    layers = {
        PolicyKind.GAUSSIAN: gaussian_actor(3, 2, 4),
        PolicyKind.CATEGORICAL: categorical_actor(3, 5, 4),
        PolicyKind.DETERMINISTIC: perceptron(3, (4,), 2, Activation.RELU),
        PolicyKind.SQUASHED: perceptron(3, (4,), 4, Activation.RELU),
    }[kind]
    table = np.arange(5.0)[:, None] if kind is PolicyKind.CATEGORICAL else np.empty((0, 2))
    n = table.shape[1]
    return policy_arrays(layers, kind, 3, np.ones(n), np.zeros(n), table, 10.0)


def actions(policy, noise):
    """Act once a row of noise: (n, n_env_actions)."""
    n = policy.action_offset.size
    sent = np.empty((len(noise), n), np.float32)
    action = np.empty(1 if len(policy.action_table) else n, np.float32)
    for row, out in zip(noise, sent, strict=True):
        act(policy, np.zeros(3, np.float32), row, scratch_for(policy), action, out)
    return sent


@pytest.mark.parametrize("kind", [kind for kind in PolicyKind if kind is not PolicyKind.TORCH])
def test_a_blank_policy_acts_uniformly(kind):
    n_choices = 5 if kind is PolicyKind.CATEGORICAL else 2
    noise = uniform_noise(kind, np.random.default_rng(0), (4000, n_choices))
    sent = actions(blank(kind), noise)
    if kind is PolicyKind.CATEGORICAL:
        assert stats.chisquare(np.bincount(sent[:, 0].astype(int), minlength=5)).pvalue > 1e-3
    else:
        for column in sent.T:
            assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_greedy_explores_with_its_probability(epsilon):
    policy = blank(PolicyKind.CATEGORICAL)
    policy.weights[-5:] = [0, 0, 700, 0, 0]  # the third choice is the best by far
    noise = epsilon_greedy_noise(epsilon)(np.random.default_rng(1), (4000, 5))
    counts = np.bincount(actions(policy, noise)[:, 0].astype(int), minlength=5)
    expected = np.full(5, epsilon / 5)
    expected[2] += 1 - epsilon
    if epsilon == 0.0:
        assert counts[2] == 4000
    else:
        assert stats.chisquare(counts, 4000 * expected).pvalue > 1e-3
