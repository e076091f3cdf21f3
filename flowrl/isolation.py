"""Do something that can crash the process in a child of its own, and get the answer back."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")

_BLOCK = 2**16  # bytes read at a time


class CrashError(RuntimeError):
    """Report that the child was ended by a signal, or did not end in time."""


def isolated(task: Callable[[], T], timeout: float) -> T:
    """Return what `task` returns, or raise what it raises, having run it in a forked child.

    Raises CrashError where the child crashes or takes longer than `timeout` [s]. The answer comes
    back as a pickle from our own child; nothing that was read from a file is ever unpickled.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(task, writer)
    os.close(writer)
    try:
        answer = _receive(reader, time.monotonic() + timeout)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise CrashError(f"signal {os.WTERMSIG(status)}")
    if not answer:
        raise CrashError("no answer")
    succeeded, value = pickle.loads(answer)
    if not succeeded:
        raise value
    return cast(T, value)


def _run(task: Callable[[], object], writer: int) -> None:
    """Run the task as the child, send its answer, and never return."""
    try:
        # A crash is expected: it leaves no core, no traceback and no word on the terminal.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            answer = pickle.dumps((True, task()))
        except Exception as error:
            answer = pickle.dumps((False, error))
        with os.fdopen(writer, "wb") as stream:
            stream.write(answer)
    finally:
        # Past every handler and destructor: files that the parent has open are the parent's.
        with contextlib.suppress(BaseException):
            os._exit(0)


def _receive(reader: int, deadline: float) -> bytes:
    blocks: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            raise CrashError("it does not end")
        block = os.read(reader, _BLOCK)
        if not block:
            return b"".join(blocks)
        blocks.append(block)
