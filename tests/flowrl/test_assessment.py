"""Advantages of collected transitions whose every number is known, and their moments."""

import numpy as np
import pytest

from flowrl.assessment import Moments, assess, normalised_advantages
from tests.flowrl.test_collector import make_collector

GAMMA, LAMBDA, LIMIT = 0.9, 0.8, 5
# Episodes of 5, 5 and 4 steps: the first rows stop inside an episode, at the clock's end, at the
# task's end and right before either; one environment does not move at all.
LENGTHS = np.array([16, 10, 14, 0, 9, 13, 1])


def value(observation):
    """Return V(s): no two observations of an episode or of its neighbours share it."""
    episode, step = observation[..., 0].astype(float), observation[..., 1].astype(float)
    return 3.0 + 2.0 * np.cos(episode) + 0.5 * step - 0.125 * step * step


class KnownLearner:
    """What assess asks of a learner: V(s) above, and a made-up log-probability."""

    def values(self, observations):
        return value(observations).astype(np.float32)

    def log_probabilities(self, observations, actions):
        return (observations[:, 1] - actions[:, 0]).astype(np.float32)


def life(n):
    """Return the first n transitions of one Counting: (episode, step before, terminated, clock)."""
    transitions, episode, step = [], 0, 0
    for _ in range(n):
        terminated = episode % 3 == 2 and step + 1 == LIMIT - 1
        timed_out = step + 1 == LIMIT
        transitions.append((episode, step, terminated, timed_out))
        step += 1
        if terminated or timed_out:
            episode, step = episode + 1, 0
    return transitions


def known_advantages(transitions, bootstrap, see=np.asarray):
    """Return sum_k (gamma lambda)^k delta_{t+k} of one uncut row, up to its first stop."""

    def v(episode, step):
        return float(value(see(np.array([episode, step], np.float32)).astype(np.float32)))

    last = len(transitions) - 1
    deltas, stops = [], []
    for i, (episode, step, terminated, timed_out) in enumerate(transitions):
        ends = terminated or (bootstrap == "regular" and timed_out)
        following = 0.0 if ends else v(episode, step + 1)
        deltas.append(step + 1 + GAMMA * following - v(episode, step))
        stops.append(terminated or timed_out or i == last)
    advantages = []
    for i in range(last + 1):
        stop = stops.index(True, i)
        powers = (GAMMA * LAMBDA) ** np.arange(stop + 1 - i)
        advantages.append(float(powers @ np.array(deltas[i : stop + 1])))
    return np.array(advantages)


def scaled(observations):
    """Normalise as set_scale says."""
    return np.clip((np.asarray(observations) - [0.5, 1.0]) * [0.25, 0.5], -1.25, 1.25)


def set_scale(policy):
    policy.observation_mean[:] = 0.5, 1.0
    policy.observation_scale[:] = 0.25, 0.5
    return policy._replace(observation_clip=1.25)


def assessed(collector, lengths, bootstrap="pt", policy=None):
    trajectory = collector.collect(np.array(lengths))
    policy = collector.policy if policy is None else policy
    return trajectory, assess(trajectory, KnownLearner(), policy, bootstrap, GAMMA, LAMBDA)


@pytest.mark.parametrize("bootstrap", ["pt", "eoe", "regular"])
def test_advantages_of_a_known_life(bootstrap):
    _, assessment = assessed(make_collector(len(LENGTHS)), LENGTHS, bootstrap)
    lives = [life(n) for n in LENGTHS]
    expected = np.concatenate([known_advantages(one, bootstrap) for one in lives])
    np.testing.assert_allclose(assessment.batch.advantages, expected, rtol=0, atol=2e-6)
    values = [value(np.array([k, t], np.float32)) for one in lives for k, t, *_ in one]
    np.testing.assert_allclose(assessment.batch.value_targets, expected + values, atol=3e-6)


@pytest.mark.parametrize("bootstrap", ["pt", "eoe", "regular"])
def test_a_cut_bootstraps_and_the_next_row_goes_on_from_there(bootstrap):
    collector = make_collector(2)
    parts = ([3, 5], [2, 9], [11, 2])  # the first row is cut inside, then right at the limit
    done = np.zeros(2, int)
    for part in parts:
        _, assessment = assessed(collector, part, bootstrap)
        lives = [life(d + n)[d:] for d, n in zip(done, part, strict=True)]
        expected = np.concatenate([known_advantages(one, bootstrap) for one in lives])
        np.testing.assert_allclose(assessment.batch.advantages, expected, rtol=0, atol=2e-6)
        done += part


@pytest.mark.parametrize("n", [5, 14])
def test_the_last_observation_is_the_true_one_not_the_reset(n):
    """V(s') at the clock's end is V of step 5, whichever episode follows; no V at the task's."""
    trajectory, assessment = assessed(make_collector(1), [n])
    episode, step, terminated, timed_out = life(n)[-1]
    assert (trajectory.terminated[0, -1], trajectory.truncated[0, -1]) == (terminated, timed_out)
    true = value(np.array([episode, step + 1], np.float32)) * (not terminated)
    expected = step + 1 + GAMMA * true - value(np.array([episode, step], np.float32))
    assert assessment.batch.advantages[-1] == pytest.approx(expected, abs=2e-6)
    fresh = value(np.array([episode + 1, 0], np.float32))
    assert abs(true - fresh) > 0.1


def test_the_critic_sees_what_the_policy_saw():
    collector = make_collector(len(LENGTHS))
    policy = set_scale(collector.policy)
    trajectory, assessment = assessed(collector, LENGTHS, policy=policy)
    batch, filled = assessment.batch, trajectory.filled
    raw = np.concatenate([[(k, t) for k, t, *_ in life(n)] for n in LENGTHS if n])
    np.testing.assert_allclose(batch.observations, scaled(raw), rtol=0, atol=1e-6)
    assert (np.abs(batch.observations) == 1.25).any()
    np.testing.assert_array_equal(batch.actions, trajectory.actions[filled])
    likely = batch.observations[:, 1] - batch.actions[:, 0]
    np.testing.assert_array_equal(batch.log_probabilities, likely)
    expected = np.concatenate([known_advantages(life(n), "pt", scaled) for n in LENGTHS if n])
    np.testing.assert_allclose(batch.advantages, expected, rtol=0, atol=2e-6)
    for array in (batch.observations, batch.advantages, batch.value_targets):
        assert array.dtype == np.float32


def test_moments_are_those_of_all_rows():
    _, assessment = assessed(make_collector(len(LENGTHS)), LENGTHS)
    moments = Moments.of(assessment.sums)
    advantages = assessment.batch.advantages.astype(float)
    targets = assessment.batch.value_targets.astype(float)
    values = targets - advantages
    assert moments.advantage_mean == pytest.approx(advantages.mean(), abs=1e-6)
    assert moments.advantage_std == pytest.approx(advantages.std(), rel=1e-6)
    assert moments.value_mean == pytest.approx(values.mean(), abs=1e-6)
    explained = 1.0 - advantages.var() / targets.var()
    assert moments.explained_variance == pytest.approx(explained, abs=1e-6)
    np.testing.assert_array_equal(assessment.sums[:, 0], LENGTHS)
    np.testing.assert_array_equal(assessment.sums[LENGTHS == 0], 0.0)


def test_an_environments_sums_do_not_depend_on_the_others():
    _, together = assessed(make_collector(4), [16, 9, 8, 3])
    _, first = assessed(make_collector(1), [16])
    _, others = assessed(make_collector(3, first=1), [9, 8, 3])
    np.testing.assert_array_equal(together.sums, np.concatenate([first.sums, others.sums]))
    for name in ("advantages", "value_targets", "log_probabilities"):
        parts = [getattr(part.batch, name) for part in (first, others)]
        np.testing.assert_array_equal(getattr(together.batch, name), np.concatenate(parts))


def test_normalised_advantages_have_mean_0_and_standard_deviation_1_over_all_ranks():
    parts = [
        assessed(make_collector(3), [16, 0, 7])[1],
        assessed(make_collector(2, first=3), [5, 12])[1],
    ]
    moments = Moments.of(np.concatenate([part.sums for part in parts]))
    batches = [normalised_advantages(part.batch, moments) for part in parts]
    advantages = np.concatenate([batch.advantages for batch in batches]).astype(float)
    assert advantages.mean() == pytest.approx(0.0, abs=1e-6)
    assert advantages.std() == pytest.approx(1.0, abs=1e-6)
    assert abs(batches[0].advantages.mean()) > 0.01  # over all, not over each
    for part, batch in zip(parts, batches, strict=True):
        assert batch.advantages.dtype == np.float32
        np.testing.assert_array_equal(batch.value_targets, part.batch.value_targets)


def test_equal_advantages_are_normalised_to_zero():
    _, assessment = assessed(make_collector(2), [1, 1])
    moments = Moments.of(assessment.sums)
    assert moments.advantage_std == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(moments.explained_variance)  # all targets are equal too
    batch = normalised_advantages(assessment.batch, moments)
    assert np.abs(batch.advantages).max() < 20.0
