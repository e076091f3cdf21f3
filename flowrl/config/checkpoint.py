"""Configuration of checkpoints: how often, how many, and what of the replay buffer."""

from __future__ import annotations

from dataclasses import dataclass

from flowrl.config.options import check_fields, choice, real, whole


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints for --resume, in RUN.h5.checkpoints beside the results file.

    One is written at the end, too, and after SIGTERM, SIGINT or SIGUSR1; the run then ends with
    exit code 75, by which a batch job can tell that it is to be started again with --resume.
    """

    interval: int = whole(0, "rows of results between two checkpoints; 0: none for this", 0, 10**9)
    seconds: float = real(600.0, "wall time between two checkpoints; 0: none for this [s]", 0, 1e9)
    keep: int = whole(2, "newest checkpoints kept", 1, 10**6)
    replay: str = choice(
        "whole",
        "whole: keep the replay buffer; none: a resumed run fills it anew before it learns",
        ("whole", "none"),
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self, "checkpoint.")
