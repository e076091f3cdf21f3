"""Agents: the actor's half of an algorithm, without torch."""
