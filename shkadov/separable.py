"""The film with one agent per jet: each sees and is paid for its own stretch (Belus et al. 2019).

All jets of a film share one policy, which so learns from n_jets transitions at a time and does not
grow with the number of jets. To a learner every jet is an environment of its own.
"""

from __future__ import annotations

from typing import NoReturn

from shkadov.params import FilmParams
from shkadov.vector_env import FilmVectorEnv


class SeparableFilmVectorEnv(FilmVectorEnv):
    """Move films whose jets are an environment each: num_envs is n_films * n_jets.

    Environment i is jet i % n_jets of film i // n_jets. It observes q upstream of its jet, has one
    action, and is paid minus the mean of (h - 1)^2 downstream of its jet; the mean of a film's
    rewards is the reward of Shkadov-v0. All jets of a film end their episode together.
    """

    @staticmethod
    def count_agents(film: FilmParams) -> int:
        """Return how many environments share one film: its jets."""
        return film.n_jets


def refuse_single(**arguments: object) -> NoReturn:
    """Say how to make the environment: one jet alone, without its film, is none."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    raise ValueError(
        f"ShkadovSeparable-v0 must be made by gymnasium.make_vec, with num_envs a multiple of "
        f"n_jets, got gymnasium.make({given}); for one film with all its jets make Shkadov-v0"
    )
