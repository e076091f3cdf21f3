"""A sum tree without a tree: priorities in one array, draws through their cumulative sum."""

from math import inf, isfinite

import numpy as np

from accel.checks import require
from accel.interfaces import Float32Array, Float64Array, Int64Array


def _check_array(array: object, field: str, dtype: type, n: int | None = None) -> None:
    right = (
        isinstance(array, np.ndarray)
        and array.dtype == dtype
        and array.ndim == 1
        and array.flags.c_contiguous
        and n in (None, array.size)
    )
    shape = "(n,)" if n is None else f"({n},)"
    found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array)
    require(right, field, f"a C-contiguous array of {np.dtype(dtype)} {shape}", found)


def _check_each(holds: np.ndarray, field: str, rule: str, values: np.ndarray) -> None:
    if not holds.all():
        position = int(np.argmin(holds))
        require(False, f"{field}[{position}]", rule, values[position])


def largest_priority(capacity: int) -> float:
    """Return the largest priority a row may have, so that the sum of all is finite."""
    return float(np.finfo(np.float64).max) / capacity


class SumTreeReference:
    """Do what `accel.interfaces.SumTree` says, for one thread."""

    backend = "reference"
    device = "numpy"

    def __init__(self, capacity: int, fanout: int = 16, *, device: str = "") -> None:
        require(capacity >= 1, "capacity", "at least 1", capacity)
        require(fanout in (2, 4, 8, 16, 32, 64), "fanout", "a power of two, 2 to 64", fanout)
        require(device in ("", self.device), "device", f"empty or {self.device}", device)
        self.capacity, self.fanout, self.depth = capacity, fanout, 0
        while fanout**self.depth < capacity:
            self.depth += 1
        self._priorities = np.zeros(capacity)
        self._largest: float | None = None  # None before the first positive one

    def total(self) -> float:
        """Return the sum of all priorities."""
        return float(self._priorities.sum())

    def largest(self) -> float:
        """Return the largest priority so far, 1 before the first positive one."""
        return 1.0 if self._largest is None else self._largest

    def sample(self, targets: Float64Array) -> tuple[Int64Array, Float64Array]:
        """Return index and priority for each target."""
        _check_array(targets, "targets", np.float64)
        inside = (targets >= 0) & np.isfinite(targets)
        _check_each(inside, "targets", "at least 0 and finite", targets)
        self._check_not_empty()
        rows = self._draw(targets)
        return rows, self._priorities[rows]

    def sample_stratified(
        self, uniforms: Float64Array, beta: float
    ) -> tuple[Int64Array, Float32Array]:
        """Return one index a stratum, and importance weights (P(i) / min P)^-beta."""
        _check_array(uniforms, "uniforms", np.float64)
        inside = (uniforms >= 0) & (uniforms < 1)
        _check_each(inside, "uniforms", "at least 0 and below 1", uniforms)
        require(beta >= 0 and isfinite(beta), "beta", "at least 0 and finite", beta)
        self._check_not_empty()
        n = uniforms.size
        rows = self._draw((np.arange(n) + 1 - uniforms) / max(n, 1) * self.total())
        p = self._priorities[rows]
        return rows, ((p / p.min(initial=inf)) ** -beta).astype(np.float32)

    def retrieve(self, indices: Int64Array) -> Float64Array:
        """Return the priorities of rows."""
        self._check_indices(indices)
        return self._priorities[indices]

    def update(self, indices: Int64Array, deltas: Float64Array) -> None:
        """Add to priorities; of an index that occurs more than once, the last counts."""
        self._check_indices(indices)
        _check_array(deltas, "deltas", np.float64, indices.size)
        _check_each(np.isfinite(deltas), "deltas", "finite", deltas)
        last = dict(zip(indices.tolist(), deltas.tolist(), strict=True))
        rows = np.fromiter(last.keys(), np.int64, len(last))
        changed = self._priorities[rows] + np.fromiter(last.values(), np.float64, len(last))
        self._check_priorities(changed, "priority + deltas")
        self._write(rows, changed)

    def set(self, indices: Int64Array, priorities: Float64Array) -> None:
        """Replace priorities; of an index that occurs more than once, the last counts."""
        self._check_indices(indices)
        _check_array(priorities, "priorities", np.float64, indices.size)
        self._check_priorities(priorities, "priorities")
        last = dict(zip(indices.tolist(), priorities.tolist(), strict=True))
        rows = np.fromiter(last.keys(), np.int64, len(last))
        self._write(rows, np.fromiter(last.values(), np.float64, len(last)))

    def set_td_errors(
        self, indices: Int64Array, td_errors: Float32Array, alpha: float, epsilon: float
    ) -> None:
        """Replace priorities by (|td error| + epsilon)^alpha."""
        self._check_indices(indices)
        _check_array(td_errors, "td_errors", np.float32, indices.size)
        _check_each(np.isfinite(td_errors), "td_errors", "finite", td_errors)
        for field, value in (("alpha", alpha), ("epsilon", epsilon)):
            require(value >= 0 and isfinite(value), field, "at least 0 and finite", value)
        with np.errstate(over="ignore"):
            priorities = (np.abs(td_errors.astype(np.float64)) + epsilon) ** alpha
        self.set(indices, priorities)

    def insert(self, start: int, n: int, priority: float | None = None) -> None:
        """Set the priorities of n rows from `start`, round the ring."""
        require(0 <= start < self.capacity, "start", f"0 to {self.capacity - 1}", start)
        require(0 <= n <= self.capacity, "n", f"0 to {self.capacity}", n)
        value = np.full(n, self.largest() if priority is None else priority)
        if priority is not None:
            self._check_priorities(np.array([priority]), "priority")
        self._write((start + np.arange(n)) % self.capacity, value)

    def rebuild(self) -> None:
        """Do nothing: there are no inner nodes."""

    def priorities(self) -> Float64Array:
        """Return a copy of all priorities (capacity,)."""
        return self._priorities.copy()

    def load(self, priorities: Float64Array, largest: float) -> None:
        """Take over priorities (capacity,) and the largest so far."""
        _check_array(priorities, "priorities", np.float64, self.capacity)
        self._check_priorities(priorities, "priorities")
        most = largest_priority(self.capacity)
        require(0 < largest <= most, "largest", f"positive and at most {most:g}", largest)
        high = priorities.max()
        require(largest >= high, "largest", f"at least the largest priority {high:g}", largest)
        self._priorities[:] = priorities
        self._largest = float(largest)

    def _draw(self, targets: Float64Array) -> Int64Array:
        positive = np.flatnonzero(self._priorities)
        sums = np.cumsum(self._priorities[positive])
        first = np.searchsorted(sums, targets, side="left")  # the first sum >= target
        return positive[np.minimum(first, positive.size - 1)]

    def _write(self, rows: Int64Array, priorities: Float64Array) -> None:
        self._priorities[rows] = priorities
        largest = priorities.max(initial=0.0)
        if largest > 0:
            self._largest = max(float(largest), self._largest or 0.0)

    def _check_not_empty(self) -> None:
        if not self._priorities.any():
            raise ValueError("the tree must hold a positive priority to sample, got none")

    def _check_indices(self, indices: Int64Array) -> None:
        _check_array(indices, "indices", np.int64)
        inside = (indices >= 0) & (indices < self.capacity)
        _check_each(inside, "indices", f"0 to {self.capacity - 1}", indices)

    def _check_priorities(self, priorities: Float64Array, field: str) -> None:
        most = largest_priority(self.capacity)
        inside = (priorities >= 0) & (priorities <= most)
        _check_each(inside, field, f"at least 0 and at most {most:g}", priorities)
