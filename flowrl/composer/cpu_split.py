"""Split the threads of the CPU between actors, host, learner and replay manager (PEARL)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_N_HOST = 1  # the thread that relays messages


@dataclass(frozen=True)
class Split:
    """Threads of one process on the CPU, or one each where there are too few."""

    n_actors: int
    n_learner: int  # n_L
    replay_width: int  # W: draws and changes of priorities that may run at the same time


def most_learner_threads(n_threads: int, n_actors: int) -> int:
    """Count the threads that actors and host leave, at least 1."""
    return max(1, n_threads - n_actors - _N_HOST)


def split_threads(
    n_threads: int,
    n_actors: int,
    batch_size: int,
    actor_seconds: float,
    train_seconds: Mapping[int, float],
) -> Split:
    """Give the learner the fewest threads that keep up with the actors.

    `actor_seconds` is the time in which the actors make a batch, `train_seconds` that of learning
    one, by the number of threads. n_L is the least with train_seconds[n_L] <= actor_seconds, else
    the fastest; W = clip(threads - n_L - actors - host, 1, batch size).
    """
    most = most_learner_threads(n_threads, n_actors)
    counts = sorted(n for n in train_seconds if n <= most)
    if not counts:
        raise ValueError(f"train_seconds must have a time for 1 to {most} threads, got none")
    enough = [n for n in counts if train_seconds[n] <= actor_seconds]
    n_learner = enough[0] if enough else min(counts, key=lambda n: train_seconds[n])
    free = n_threads - n_learner - n_actors - _N_HOST
    return Split(n_actors, n_learner, min(max(free, 1), batch_size))
