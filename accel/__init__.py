"""Compute the inner loops of training on small networks, without torch.

Needs nothing but NumPy and the compiled module beside it.
"""

from accel._native import PpoLearner, PpoStep, forward, variants

__all__ = ["PpoLearner", "PpoStep", "forward", "variants"]
