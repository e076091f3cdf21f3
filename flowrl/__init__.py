"""Reinforcement learning for fluid-flow control, in parallel over MPI."""

__version__ = "0.1.0"
