"""Communication between ranks: one interface, serial and MPI.

Everything inside the training loop goes through the buffer calls, as contiguous arrays. Every
collective is reached by every rank or by none. mpi4py is imported only when a launcher started
this process, so a single process needs no MPI at all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from flowrl.config import ConfigError
from flowrl.envs.interface import EnvironmentFault
from flowrl.trajectory import Float64Array, IntArray

Bytes = npt.NDArray[np.uint8]

# Set by the launchers of MPICH, Open MPI, MVAPICH, PMIx (srun, prrte), Cray and Flux.
_LAUNCHER_VARIABLES = (
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
)


class CommunicatorError(ConfigError):
    """The launcher started several ranks, but they cannot talk to each other."""


class Transfer(Protocol):
    """A message on its way; its bytes must stay as they are until it is done."""

    def is_done(self) -> bool:
        """Tell whether the bytes have left, or have come; ask until they have."""

    def wait(self) -> None:
        """Wait until they have."""


class Communicator(Protocol):
    """What the training loop asks of its ranks."""

    rank: int
    size: int

    def wait_politely(self, polite: bool) -> None:
        """Choose how this rank waits: sleeping (True) or spinning (False)."""

    def broadcast_text(self, text: str) -> str:
        """Return the root's text on every rank."""

    def sum_integers(self, values: IntArray) -> None:
        """Replace `values` by its sum over all ranks: exact, in any order."""

    def all_gather(self, rows: Float64Array, counts: IntArray) -> Float64Array:
        """Return the rows (counts[rank], k) of all ranks, in rank order: (sum of counts, k)."""

    def gather(self, rows: Float64Array) -> Float64Array | None:
        """Return the rows (any number, k) of all ranks in rank order on root, None elsewhere."""

    def start_send(self, block: Bytes, to: int) -> Transfer:
        """Begin to send contiguous bytes to a rank; messages to one rank keep their order."""

    def start_receive(self, block: Bytes, source: int) -> Transfer:
        """Begin to receive a rank's next message, of exactly these bytes."""

    def has_message(self, source: int) -> bool:
        """Tell whether a message of a rank waits to be received."""

    def barrier(self) -> None:
        """Wait for every rank."""

    def abort(self, code: int) -> None:
        """End all ranks at once."""


class SerialCommunicator:
    """One rank, no MPI."""

    rank = 0
    size = 1

    def wait_politely(self, polite: bool) -> None:
        """Ignore the choice: nobody is waited for."""

    def broadcast_text(self, text: str) -> str:
        """Return the text."""
        return text

    def sum_integers(self, values: IntArray) -> None:
        """Leave the only rank's values as they are."""

    def all_gather(self, rows: Float64Array, counts: IntArray) -> Float64Array:  # noqa: ARG002
        """Return the rows."""
        return rows

    def gather(self, rows: Float64Array) -> Float64Array | None:
        """Return the rows."""
        return rows

    def start_send(self, block: Bytes, to: int) -> Transfer:  # noqa: ARG002
        """Refuse: there is nobody else."""
        raise CommunicatorError(f"rank {to} does not exist: one rank has nobody to send to")

    def start_receive(self, block: Bytes, source: int) -> Transfer:  # noqa: ARG002
        """Refuse: there is nobody else."""
        raise CommunicatorError(f"rank {source} does not exist: one rank has nobody to hear")

    def has_message(self, source: int) -> bool:  # noqa: ARG002
        """Return False: there is nobody else."""
        return False

    def barrier(self) -> None:
        """Return at once."""

    def abort(self, code: int) -> None:
        """End this process at once."""
        _flush()
        os._exit(code)


class MpiCommunicator:
    """All ranks of MPI's world communicator.

    Ranks wait sleeping where they outnumber the cores of their host, and spinning otherwise.
    """

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi: Any = MPI
        self._world: Any = MPI.COMM_WORLD
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self._polite = self._oversubscribed()

    def _oversubscribed(self) -> bool:
        """Tell whether any host runs more ranks than it has cores for them."""
        host = self._world.Split_type(self._mpi.COMM_TYPE_SHARED)
        cores: set[int] = set()
        for affinity in host.allgather(_affinity()):
            cores |= affinity
        crowded = host.Get_size() > len(cores)
        host.Free()
        return bool(self._world.allreduce(crowded, op=self._mpi.LOR))

    def wait_politely(self, polite: bool) -> None:
        """Choose how this rank waits: sleeping (True) or spinning (False)."""
        self._polite = polite

    def _wait(self, request: Any) -> None:
        """Wait for a request: spinning where each rank has its core, sleeping where it has not.

        A waiting rank that spins takes the core from the rank it waits for.
        """
        if not self._polite:
            request.Wait()
            return
        pause = 0.0
        while not request.Test():
            time.sleep(pause)
            pause = min(pause + 2e-5, 5e-4)

    def broadcast_text(self, text: str) -> str:
        """Return the root's text on every rank."""
        length = np.array([len(text.encode())], np.int64)
        self._wait(self._world.Ibcast(length))
        data = bytearray(text.encode()) if self.rank == 0 else bytearray(int(length[0]))
        self._wait(self._world.Ibcast([data, self._mpi.BYTE]))
        return data.decode()

    def sum_integers(self, values: IntArray) -> None:
        """Replace `values` by its sum over all ranks: exact, in any order."""
        self._wait(self._world.Iallreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM))

    def all_gather(self, rows: Float64Array, counts: IntArray) -> Float64Array:
        """Return the rows (counts[rank], k) of all ranks, in rank order: (sum of counts, k)."""
        width = rows.shape[1]
        rows = np.ascontiguousarray(rows)
        out = np.empty((int(counts.sum()), width))
        received = [out, (counts * width).tolist()]
        self._wait(self._world.Iallgatherv(rows, received))
        return out

    def gather(self, rows: Float64Array) -> Float64Array | None:
        """Return the rows (any number, k) of all ranks in rank order on root, None elsewhere."""
        rows = np.ascontiguousarray(rows)
        counts = np.zeros(self.size, np.int64)
        self._wait(self._world.Igather(np.array([rows.shape[0]], np.int64), counts))
        if self.rank != 0:
            self._wait(self._world.Igatherv(rows, None))
            return None
        out = np.empty((int(counts.sum()), rows.shape[1]))
        self._wait(self._world.Igatherv(rows, [out, (counts * rows.shape[1]).tolist()]))
        return out

    def start_send(self, block: Bytes, to: int) -> Transfer:
        """Begin to send contiguous bytes to a rank; messages to one rank keep their order."""
        return _MpiTransfer(self._world.Isend([block, self._mpi.BYTE], to), self._wait)

    def start_receive(self, block: Bytes, source: int) -> Transfer:
        """Begin to receive a rank's next message, of exactly these bytes."""
        return _MpiTransfer(self._world.Irecv([block, self._mpi.BYTE], source), self._wait)

    def has_message(self, source: int) -> bool:
        """Tell whether a message of a rank waits to be received."""
        return bool(self._world.Iprobe(source))

    def barrier(self) -> None:
        """Wait for every rank."""
        self._wait(self._world.Ibarrier())

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        _flush()
        # Give the launcher the time to pass on what this rank has just said: it drops the rest.
        time.sleep(0.3)
        self._world.Abort(code)
        os._exit(code)  # Abort may come back before the launcher ends this rank.


class _MpiTransfer:
    """A request of MPI's, waited for as its communicator does."""

    def __init__(self, request: Any, wait: Callable[[Any], None]) -> None:
        self._request, self._wait = request, wait

    def is_done(self) -> bool:
        """Tell whether the bytes have left, or have come."""
        return bool(self._request.Test())

    def wait(self) -> None:
        """Wait until they have."""
        self._wait(self._request)


def launched_by_mpi() -> bool:
    """Tell whether an MPI launcher started this process."""
    return any(variable in os.environ for variable in _LAUNCHER_VARIABLES)


def _launched_size() -> int | None:
    """Return how many ranks the launcher says it started, where it says so."""
    for variable in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"):
        if os.environ.get(variable, "").isdigit():
            return int(os.environ[variable])
    return None


def connect() -> Communicator:
    """Join the other ranks, if a launcher started any.

    Raises CommunicatorError where the ranks of a launcher cannot talk to each other.
    """
    if not launched_by_mpi():
        return SerialCommunicator()
    try:
        comm = MpiCommunicator()
    except (ImportError, RuntimeError) as error:
        raise CommunicatorError(
            f"mpirun started this process, but mpi4py cannot be used ({error}); "
            "install it with: pip install 'flowrl[mpi]', or run without mpirun"
        ) from error
    launched = _launched_size()
    if launched not in (None, comm.size):
        raise CommunicatorError(
            f"mpirun started {launched} ranks, but mpi4py sees {comm.size}: they belong to "
            "different MPI libraries; use the mpirun of mpi4py's, or set MPI4PY_LIBMPI"
        )
    return comm


def abort_on_error(comm: Communicator, error: BaseException) -> None:
    """Say what ended this rank and end the job: the others may wait for this rank for ever."""
    label = f"rank {comm.rank} of {comm.size}: " if comm.size > 1 else ""
    code = 1
    if isinstance(error, KeyboardInterrupt):
        text, code = "interrupted\n", 130
    elif isinstance(error, EnvironmentFault):
        text = f"{error}\n"
    else:
        text = "ended by an exception\n" + "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody may listen
        sys.stderr.write(f"flowrl: {label}{text}")
    comm.abort(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A full disk, a closed pipe or no stream at all must not keep this rank from ending.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))
