"""When checkpoints are written, and when a run stops to be resumed: the same on every rank."""

from __future__ import annotations

import time

from flowrl.config import CheckpointConfig
from flowrl.session import Session
from flowrl.trainer import Trainer


class Keeper:
    """Looks, after each report, whether a checkpoint is due."""

    def __init__(self, config: CheckpointConfig, trainer: Trainer, session: Session | None) -> None:
        """Keep a trainer's state by root's session."""
        self._config, self._trainer, self._session = config, trainer, session
        self._last = time.monotonic()
        self._saved_at = trainer.n_reports
        self._is_due = False
        self.is_sound = True  # the latest checkpoint could be written

    def after_report(self) -> bool:
        """Save if a checkpoint is due; tell whether the run stops here."""
        config, trainer = self._config, self._trainer
        wishes = trainer.wishes
        is_turn = config.interval > 0 and trainer.n_reports % config.interval == 0
        self._is_due |= is_turn or wishes.must_save or wishes.must_stop
        if self._is_due and trainer.can_be_saved:
            self.save()
            if wishes.must_stop:
                return True
        is_late = 0.0 < config.seconds < time.monotonic() - self._last
        # Root's clock alone counts: the others hear of it with the next update's sums.
        wishes.save |= self._session is not None and is_late
        return False

    def save(self) -> None:
        """Write a checkpoint, unless that of this very report is there."""
        trainer = self._trainer
        if trainer.n_reports != self._saved_at or not self.is_sound:
            state = trainer.state()
            if self._session is not None and state is not None:
                self.is_sound = self._session.save(state)
            self._saved_at = trainer.n_reports
        self._is_due = False
        self._last = time.monotonic()
        trainer.wishes.saved()
