"""The falling liquid film and its control by jets, compiled, as Gymnasium environments."""

from __future__ import annotations

import gymnasium

gymnasium.register(
    id="Shkadov-v0",
    entry_point="shkadov.env:ShkadovEnv",
    vector_entry_point="shkadov.vector_env:FilmVectorEnv",
)
gymnasium.register(
    id="ShkadovSeparable-v0",
    entry_point="shkadov.separable:refuse_single",
    vector_entry_point="shkadov.separable:SeparableFilmVectorEnv",
)
