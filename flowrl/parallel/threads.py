"""A thread that works off a queue and reports how it ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from flowrl.parallel.messages import Failed, Mail, Message

_PATIENCE = 10.0  # time for a thread to end [s]


class Station:
    """One thread with a queue of its own; every message goes to `handle`."""

    def __init__(self, name: str, mail: Mail, handle: Callable[[Message], None]) -> None:
        """Prepare a thread; an error in it is sent to `mail`."""
        self._mail, self._handle = mail, handle
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, message: Message) -> None:
        """Give the thread something to do."""
        self._messages.put(message)

    @property
    def is_stopping(self) -> bool:
        """Tell whether what is being done is wanted no more."""
        return self._stop.is_set()

    def close(self) -> None:
        """End the thread, after what it is doing; what waits is dropped."""
        self._stop.set()
        self._messages.put(None)
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            while (message := self._messages.get()) is not None and not self.is_stopping:
                self._handle(message)
        except BaseException as error:
            self._mail.put(Failed(error))
