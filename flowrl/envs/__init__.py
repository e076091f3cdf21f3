"""Environments as flowrl sees them: compiled ones, and any Gymnasium environment."""
