"""Running mean and standard deviation of the observations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flowrl.state import State, take_like
from flowrl.trajectory import Float32Array, Float64Array, Trajectory


class RunningMoments:
    """Mean and variance of all observations seen so far, merged block by block.

    Blocks are merged in the order given (Chan et al. 1979, eq. 2.1), so callers that give the
    blocks of all environments in global order get the same bits on every rank.
    """

    def __init__(self, n_observations: int) -> None:
        self.count = 0.0
        self.mean: Float64Array = np.zeros(n_observations)
        self.squares: Float64Array = np.zeros(n_observations)  # sum of squared deviations

    def merge(self, count: float, mean: Float64Array, squares: Float64Array) -> None:
        """Merge one block: its count, mean and sum of squared deviations from its mean."""
        if count == 0.0:
            return
        total = self.count + count
        shift = mean - self.mean
        self.mean = self.mean + shift * (count / total)
        self.squares = self.squares + squares + shift * shift * (self.count * count / total)
        self.count = total

    def state(self) -> State:
        """Return what has been merged."""
        return {"count": np.array(self.count), "mean": self.mean, "squares": self.squares}

    def load_state(self, state: State) -> None:
        """Go on from what `state` returned."""
        given = take_like(state, self.state())
        self.count = float(given["count"])
        self.mean, self.squares = given["mean"], given["squares"]

    @property
    def std(self) -> Float64Array:
        """Return the standard deviation, one where nothing or a constant was seen."""
        if self.count == 0.0:
            return np.ones_like(self.mean)
        std: Float64Array = np.sqrt(self.squares / self.count)
        # A constant component carries no information; rounding noise must not be blown up.
        return np.where(std > 1e-6 * np.maximum(1.0, np.abs(self.mean)), std, 1.0)


def env_moments(trajectory: Trajectory) -> npt.NDArray[np.float64]:
    """Return one row (count, mean, sum of squared deviations) per environment.

    Shape (n_envs, 1 + 2 n_observations); each row depends on its environment alone.
    """
    n_envs, _, n_observations = trajectory.observations.shape
    rows = np.zeros((n_envs, 1 + 2 * n_observations))
    for env, length in enumerate(trajectory.lengths):
        if length:
            observations = trajectory.observations[env, :length].astype(np.float64)
            mean = observations.mean(axis=0)
            rows[env, 0] = length
            rows[env, 1 : 1 + n_observations] = mean
            rows[env, 1 + n_observations :] = ((observations - mean) ** 2).sum(axis=0)
    return rows


def normalise(
    observations: Float32Array, mean: Float32Array, scale: Float32Array, clip: float
) -> Float32Array:
    """Return (observations - mean) * scale within +-clip, in float32; scale is 1 / deviation."""
    limit = np.float32(clip)
    result = (observations - mean) * scale
    return np.clip(result, -limit, limit, out=result)
