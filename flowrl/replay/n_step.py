"""Rows of n-step returns from trajectories.

R = r_0 + gamma r_1 + ... + gamma^(m-1) r_(m-1), followed by gamma^m times the value of the
observation after step m - 1 (Sutton & Barto 2018, section 7.1). m = n, fewer where the episode ends
before: at its true end the value is left out, at a time limit it is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowrl.replay.storage import Rows
from flowrl.state import State, StateError, take
from flowrl.trajectory import BoolArray, Float32Array, Float64Array, IntArray, Trajectory


class NStep:
    """Turns the trajectories of some environments into rows; unfinished ones wait."""

    def __init__(self, n_envs: int, n_steps: int, gamma: float, reward_scale: float) -> None:
        """Begin with nothing pending."""
        self._n, self._gamma, self._scale = n_steps, gamma, reward_scale
        self._pending: list[_Steps | None] = [None] * n_envs

    def state(self, n_observations: int, n_actions: int) -> State:
        """Return the steps that wait, one row an environment: fewer than n of each."""
        n_envs, most = len(self._pending), self._n - 1
        empty = _Steps.empty(n_envs, most, n_observations, n_actions)
        counts = np.zeros(n_envs, np.int64)
        for i, steps in enumerate(self._pending):
            if steps is not None:
                counts[i] = len(steps.rewards)
                pairs: zip[tuple[NDArray[Any], NDArray[Any]]] = zip(empty, steps, strict=True)
                for block, own in pairs:
                    block[i, : counts[i]] = own
        return {"counts": counts, **empty._asdict()}

    def load_state(
        self, state: State, n_observations: int, n_actions: int, begins_anew: BoolArray
    ) -> None:
        """Go on from what `state` returned, but with nothing where an environment begins anew."""
        n_envs, most = len(self._pending), self._n - 1
        counts = take(state, "counts", np.int64, (n_envs,))
        if not ((counts >= 0) & (counts <= most)).all():
            raise StateError(f"saved state's pending steps must be 0 to {most}: it is damaged")
        empty = _Steps.empty(n_envs, most, n_observations, n_actions)._asdict()
        given = [take(state, name, like.dtype, like.shape) for name, like in empty.items()]
        for i in np.flatnonzero((counts > 0) & ~begins_anew):
            self._pending[i] = _Steps._make(block[i, : counts[i]].copy() for block in given)

    def rows(self, trajectory: Trajectory) -> Rows:
        """Return the rows that a trajectory of all environments completes, env by env."""
        if self._n == 1:
            return self._single_steps(trajectory)
        return join([self._rows_of(i, trajectory) for i in range(len(self._pending))])

    def _single_steps(self, trajectory: Trajectory) -> Rows:
        filled = trajectory.filled
        ended = trajectory.terminated[filled]
        return Rows(
            trajectory.observations[filled],
            trajectory.actions[filled],
            (self._scale * trajectory.rewards[filled]).astype(np.float32),
            trajectory.next_observations[filled],
            np.where(ended, np.float32(0.0), np.float32(self._gamma)),
        )

    def _rows_of(self, i: int, trajectory: Trajectory) -> Rows:
        steps = _Steps.of(trajectory, i)
        pending = self._pending[i]
        if pending is not None:
            steps = pending.followed_by(steps)
        last = steps.last_steps(self._n)
        n_ready = int((last >= 0).sum())  # a step that waits makes all later ones wait
        rows = self._assemble(steps, last[:n_ready])
        self._pending[i] = steps.after(n_ready)
        return rows

    def _assemble(self, steps: _Steps, last: IntArray) -> Rows:
        n = len(last)
        length = last - np.arange(n) + 1
        returns = np.zeros(n)
        for k in range(int(length.max(initial=0)) - 1, -1, -1):
            returns = np.where(
                k < length,
                steps.rewards[np.minimum(np.arange(n) + k, len(steps.rewards) - 1)]
                + self._gamma * returns,
                returns,
            )
        discounts = np.where(steps.terminated[last], 0.0, self._gamma**length)
        return Rows(
            steps.observations[:n],
            steps.actions[:n],
            (self._scale * returns).astype(np.float32),
            steps.next_observations[last],
            discounts.astype(np.float32),
        )


class _Steps(NamedTuple):
    """Successive steps of one environment."""

    observations: Float32Array  # (n, n_observations)
    actions: Float32Array  # (n, n_actions)
    rewards: Float64Array  # (n,)
    next_observations: Float32Array  # (n, n_observations)
    terminated: BoolArray  # (n,)
    ended: BoolArray  # (n,) terminated or truncated

    @classmethod
    def empty(cls, n_envs: int, n: int, n_observations: int, n_actions: int) -> _Steps:
        """Allocate room for n steps of each environment, one row an environment."""
        return cls(
            np.zeros((n_envs, n, n_observations), np.float32),
            np.zeros((n_envs, n, n_actions), np.float32),
            np.zeros((n_envs, n)),
            np.zeros((n_envs, n, n_observations), np.float32),
            np.zeros((n_envs, n), np.bool_),
            np.zeros((n_envs, n), np.bool_),
        )

    @classmethod
    def of(cls, trajectory: Trajectory, i: int) -> _Steps:
        n = int(trajectory.lengths[i])
        terminated = trajectory.terminated[i, :n]
        return cls(
            trajectory.observations[i, :n],
            trajectory.actions[i, :n],
            trajectory.rewards[i, :n],
            trajectory.next_observations[i, :n],
            terminated,
            terminated | trajectory.truncated[i, :n],
        )

    def followed_by(self, other: _Steps) -> _Steps:
        """Return both, one after the other."""
        pairs: zip[tuple[NDArray[Any], NDArray[Any]]] = zip(self, other, strict=True)
        return _Steps._make(np.concatenate(pair) for pair in pairs)

    def after(self, n: int) -> _Steps | None:
        """Return copies of the steps from n on, so that a trajectory can be given back."""
        return _Steps._make(array[n:].copy() for array in self) if n < len(self.rewards) else None

    def last_steps(self, n_steps: int) -> IntArray:
        """Return the index of the last step of each step's return, -1 where it isn't known yet."""
        n = len(self.rewards)
        ends = np.where(self.ended, np.arange(n), n)
        next_end = np.minimum.accumulate(ends[::-1])[::-1]
        last = np.minimum(np.arange(n) + n_steps - 1, next_end)
        result: IntArray = np.where(last < n, last, -1)
        return result


def join(pieces: list[Rows]) -> Rows:
    """Put rows behind one another."""
    if len(pieces) == 1:
        return pieces[0]
    columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
    return Rows(*map(np.concatenate, columns))
