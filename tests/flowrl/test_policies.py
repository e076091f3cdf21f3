"""Networks and the compiled policy against plain NumPy."""

import numpy as np
import pytest
from scipy import stats

from flowrl.networks import (
    Activation,
    PolicyKind,
    categorical_actor,
    critic,
    gaussian_actor,
    initial_weights,
    n_outputs,
    n_weights,
    perceptron,
    weight_offsets,
)
from flowrl.policies import act, forward, policy_arrays, scratch_for

FUNCTIONS = {
    Activation.IDENTITY: lambda x: x,
    Activation.RELU: lambda x: np.maximum(x, 0),
    Activation.TANH: np.tanh,
    Activation.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
}


def plain_forward(layers, weights, inputs):
    """Evaluate a layer table in float64, straight from its definition."""
    offsets, outputs, result = weight_offsets(layers), [], {}
    for index, (source, begin, n_in, n_out, activation, column) in enumerate(layers.tolist()):
        flat = weights[offsets[index] : offsets[index + 1]].astype(np.float64)
        row = (inputs if source < 0 else outputs[source])[begin : begin + n_in]
        y = row @ flat[: n_in * n_out].reshape(n_in, n_out) + flat[n_in * n_out :]
        outputs.append(FUNCTIONS[activation](y))
        if column >= 0:
            result[column] = outputs[-1]
    return np.concatenate([result[column] for column in sorted(result)])


def make_policy(layers, kind, n_observations, seed=0, n_actions=1):
    n_choices = n_outputs(layers) if kind is PolicyKind.CATEGORICAL else 0
    table = 0.5 * np.arange(n_choices * n_actions).reshape(n_choices, n_actions)
    scale, offset = np.full(n_actions, 3.0), np.full(n_actions, 1.0)
    policy = policy_arrays(layers, kind, n_observations, scale, offset, table, 5.0)
    rng = np.random.default_rng(seed)
    policy.weights[:] = rng.normal(0, 0.4, policy.weights.size)
    policy.observation_mean[:] = rng.normal(size=n_observations)
    policy.observation_scale[:] = rng.uniform(0.5, 2, n_observations)
    return policy


@pytest.mark.parametrize("n_observations", [1, 7, 17])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_forward_equals_numpy(n_observations, width):
    for layers in (
        gaussian_actor(n_observations, 3, width),
        categorical_actor(n_observations, 4, width),
        critic(n_observations, width),
    ):
        policy = make_policy(layers, PolicyKind.GAUSSIAN, n_observations)
        observation = np.random.default_rng(1).normal(0, 3, n_observations).astype(np.float32)
        normalised = (observation - policy.observation_mean) * policy.observation_scale
        expected = plain_forward(layers, policy.weights, np.clip(normalised, -5, 5))
        result = forward(policy, observation, scratch_for(policy))
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def test_tanh_is_good_to_float32():
    layers = perceptron(1, (), 1, Activation.TANH)
    layers[0, 4] = Activation.TANH
    policy = policy_arrays(
        layers, PolicyKind.GAUSSIAN, 1, np.ones(1), np.zeros(1), np.empty((0, 1)), 1e30
    )
    policy.weights[:] = [1, 0]
    scratch = scratch_for(policy)
    for x in np.linspace(-30, 30, 5001, dtype=np.float32):
        y = forward(policy, np.array([x]), scratch)[0]
        assert abs(float(y) - np.tanh(float(x))) <= 5e-7 * max(abs(np.tanh(float(x))), 1e-30)


def draw(policy, noise, n_actions=1):
    action, env_action = np.empty(n_actions, np.float32), np.empty(n_actions, np.float32)
    observation = np.full(policy.observation_mean.size, 0.3, np.float32)
    act(policy, observation, noise.astype(np.float32), scratch_for(policy), action, env_action)
    return action, env_action


def test_gaussian_action_is_mean_plus_noise_and_clipped_on_the_way_out():
    layers = gaussian_actor(4, 2, 8)
    policy = make_policy(layers, PolicyKind.GAUSSIAN, 4, n_actions=2)
    greedy, _ = draw(policy, np.zeros(2), 2)
    shifted, _ = draw(policy, np.ones(2), 2)
    std = shifted - greedy
    assert ((std > 0) & (std < 1)).all()
    wild, sent = draw(policy, np.array([50.0, -50.0]), 2)
    assert wild[0] > 1
    assert wild[1] < -1
    # offset 1 and scale 3: the bounds -2 and 4 of the environment.
    np.testing.assert_array_equal(sent, [4, -2])


def test_categorical_actions_follow_the_softmax():
    layers = categorical_actor(4, 3, 8)
    policy = make_policy(layers, PolicyKind.CATEGORICAL, 4)
    observation = np.full(4, 0.3, np.float32)
    logits = forward(policy, observation, scratch_for(policy)).astype(np.float64)
    rng = np.random.default_rng(0)
    n = 4000
    picks = [int(draw(policy, rng.gumbel(size=3))[0][0]) for _ in range(n)]
    expected = n * np.exp(logits) / np.exp(logits).sum()
    assert stats.chisquare(np.bincount(picks, minlength=3), expected).pvalue > 1e-3
    assert int(draw(policy, np.zeros(3))[0][0]) == int(np.argmax(logits))


def test_a_choice_sends_its_row_of_the_table():
    policy = make_policy(categorical_actor(4, 3, 8), PolicyKind.CATEGORICAL, 4, n_actions=2)
    for choice in range(3):
        action, env_action = np.empty(1, np.float32), np.empty(2, np.float32)
        noise = np.float32(1e30) * (np.arange(3) == choice).astype(np.float32)
        act(policy, np.zeros(4, np.float32), noise, scratch_for(policy), action, env_action)
        assert action[0] == choice
        np.testing.assert_array_equal(env_action, [choice, choice + 0.5])


def test_a_deterministic_action_is_output_plus_noise_within_the_bounds():
    layers = perceptron(4, (8,), 2, Activation.RELU)
    policy = make_policy(layers, PolicyKind.DETERMINISTIC, 4, n_actions=2)
    observation = np.full(4, 0.3, np.float32)
    outputs = forward(policy, observation, scratch_for(policy)).copy()
    noise = np.array([0.25, -9.0])
    action, sent = draw(policy, noise, 2)
    np.testing.assert_allclose(action, np.clip(outputs + noise, -1, 1), rtol=1e-6)
    np.testing.assert_allclose(sent, 1 + 3 * action, rtol=1e-6)


def test_a_squashed_action_is_tanh_of_a_normal_draw_of_bounded_deviation():
    layers = perceptron(4, (8,), 4, Activation.RELU)
    policy = make_policy(layers, PolicyKind.SQUASHED, 4, n_actions=2)
    policy.weights[-2:] = [-1.0, 40.0]  # biases of the logarithms
    policy.weights[-4 * 9 : -4] = 0.0
    mean = policy.weights[-4:-2].copy()
    deviation = np.exp([-1.0, 2.0])
    noise = np.array([0.7, -0.3])
    action, sent = draw(policy, noise, 2)
    np.testing.assert_allclose(action, np.tanh(mean + deviation * noise), rtol=2e-6)
    np.testing.assert_allclose(sent, 1 + 3 * action, rtol=1e-6)


def test_first_weights_are_orthogonal_branch_by_branch_with_small_heads():
    layers = gaussian_actor(10, 2, 64)
    weights = initial_weights(layers, np.random.default_rng(0), 0.01)
    assert weights.size == n_weights(layers)
    assert n_outputs(layers) == 4
    offsets = weight_offsets(layers)
    branches = weights[offsets[1] :][: 64 * 128].reshape(64, 128)
    for half in (branches[:, :64], branches[:, 64:]):
        np.testing.assert_allclose(half.T @ half, (5 / 3) ** 2 * np.eye(64), atol=1e-5)
    heads = weights[offsets[2] :]
    assert np.abs(heads).max() < 0.02
