"""Pictures of the film."""

from __future__ import annotations
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
import numpy as np
from numpy.typing import NDArray
from shkadov.params import FilmParams


def draw_episodes(
    recordings: Mapping[str, Sequence[Mapping[str, NDArray[Any]]]],
    film: FilmParams,
    path: str | Path,
) -> None:
    raise NotImplementedError


def picture(snapshot: Mapping[str, NDArray[Any]], film: FilmParams) -> NDArray[np.uint8]:
    raise NotImplementedError
