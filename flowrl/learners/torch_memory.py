"""Memory that a CUDA device copies from directly: page-locked by torch."""

from __future__ import annotations

import torch

from flowrl.trajectory import Float32Array


def pinned(n: int) -> Float32Array:
    """Return n zeros in page-locked memory; RuntimeError where there is no CUDA device."""
    zeros: Float32Array = torch.zeros(n, dtype=torch.float32, pin_memory=True).numpy()
    return zeros
