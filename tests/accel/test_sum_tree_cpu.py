"""What holds of the CPU's sum tree alone: equal bits, whatever instructions and threads."""

from typing import Any

import numpy as np
import pytest

import accel
from accel.cpu import SumTree


def everything(fanout: int, **options: Any) -> list[np.ndarray]:
    """Do all kinds of calls on a tree; return all that they give."""
    rng = np.random.default_rng(fanout)
    tree = SumTree(5003, fanout, **options)
    tree.set(np.arange(5003), np.exp(3 * rng.normal(size=5003)) * (rng.random(5003) < 0.9))
    errors = rng.normal(size=801).astype(np.float32)
    tree.set_td_errors(rng.integers(0, 5003, 801), errors, 0.6, 1e-6)
    tree.insert(4990, 50)
    # So many that each thread gets some, and no multiple of any vector.
    draws = tree.sample(rng.random(30_001) * tree.total())
    stratified = tree.sample_stratified(rng.random(30_001), 0.4)
    return [*draws, *stratified, tree.priorities(), np.array([tree.total(), tree.largest()])]


@pytest.mark.parametrize("fanout", [2, 4, 8, 16, 32, 64])
def test_variants_give_equal_bits(fanout: int) -> None:
    expected = everything(fanout, variant="baseline")
    for variant in accel.variants():
        for got, right in zip(everything(fanout, variant=variant), expected, strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("n_threads", [2, 3, 100])
def test_threads_give_equal_bits(n_threads: int) -> None:
    for got, right in zip(everything(8, n_threads=n_threads), everything(8), strict=True):
        np.testing.assert_array_equal(got, right)


def test_options() -> None:
    tree = SumTree(100, 4, device="cpu", n_threads=2, variant="baseline")
    assert (tree.backend, tree.device, tree.n_threads, tree.variant) == (
        "cpu",
        "cpu",
        2,
        "baseline",
    )
    with pytest.raises(ValueError, match="n_threads must be 1 to 1024, got 0"):
        SumTree(100, n_threads=0)
    with pytest.raises(ValueError, match="variant must be one"):
        SumTree(100, variant="mmx")
    with pytest.raises(ValueError, match="capacity must be 1 to 2\\^40"):
        SumTree(2**41)
