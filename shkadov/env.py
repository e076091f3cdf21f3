"""One film behind Gymnasium's interface, on the same compiled calls as many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from shkadov.film_state import N_BLOW_UPS, START, Float32Array
from shkadov.params import FilmParams, Number
from shkadov.vector_env import Array, FilmVectorEnv, check_actions

RENDER_MODES = ("rgb_array",)


class ShkadovEnv(gymnasium.Env[Float32Array, Float32Array]):
    """Control one falling film by its jets; see FilmVectorEnv, whose film it is to the bit.

    An episode is truncated after `episode_steps` actions, and terminated if the film blows up.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": list(RENDER_MODES),
        "render_fps": 20,
    }
    held_out_arguments: ClassVar[dict[str, object]] = FilmVectorEnv.held_out_arguments

    def __init__(
        self,
        *,
        preset: str = "paper",
        start_set: str = "train",
        render_mode: str | None = None,
        **overrides: Number,
    ) -> None:
        """Make a film of a preset, with any fields of FilmParams changed."""
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ValueError(
                f"render_mode must be None or one of {', '.join(RENDER_MODES)}, got {render_mode!r}"
            )
        self._films = FilmVectorEnv(1, preset=preset, start_set=start_set, **overrides)
        self.observation_space = self._films.single_observation_space
        self.action_space = self._films.single_action_space
        self.render_mode = render_mode
        self._running = False

    @property
    def film(self) -> FilmParams:
        """The film's parameters."""
        return self._films.film

    @property
    def parameters(self) -> dict[str, Number]:
        """All parameters of the film by name, to be stored with results."""
        return self._films.parameters

    @property
    def episode_steps(self) -> int:
        """Number of actions in an episode."""
        return self._films.episode_steps

    @property
    def n_blow_ups(self) -> int:
        """Number of episodes that ended by a blow-up."""
        return int(self._films.compiled_state.clock[0, N_BLOW_UPS])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin a new episode; the option "start" chooses the start state."""
        super().reset(seed=seed)
        observations, _ = self._films.reset(seed=None if seed is None else [seed], options=options)
        self._running = True
        return observations[0], {"start": int(self._films.compiled_state.clock[0, START])}

    def step(self, action: NDArray[Any]) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Move the film by one action."""
        if not self._running:
            raise RuntimeError("the episode has ended or not begun: call reset() before step()")
        taken = check_actions(action, (self.film.n_jets,))
        observations, rewards, terminated, truncated = self._films.act(taken[None])
        ends = bool(terminated[0]), bool(truncated[0])
        self._running = not any(ends)
        return observations[0], float(rewards[0]), *ends, {"blow_up": ends[0]}

    def get_state(self) -> dict[str, Array]:
        """Return copies of all arrays that a step changes, to go on from later."""
        return self._films.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what get_state returned in the course of an episode."""
        self._films.set_state(state)
        self._running = True

    def snapshot(self) -> dict[str, Array]:
        """Return the film as it is now, to be drawn; see FilmVectorEnv.snapshot."""
        return self._films.snapshot()

    def draw_episodes(
        self, recordings: Mapping[str, Sequence[Mapping[str, Array]]], path: str | Path
    ) -> None:
        """Draw films from lists of snapshots, a picture or (.gif, .mp4) an animation."""
        self._films.draw_episodes(recordings, path)

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture of the film as it is now (height, width, 3), in mode rgb_array."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() needs gymnasium.make(..., render_mode="rgb_array")')
            return None
        from shkadov import render

        return render.picture(self.snapshot(), self.film)
