"""The communicators, with real ranks."""

import sys

import numpy as np
import pytest

from flowrl.comm import CommunicatorError, SerialCommunicator, connect, launched_by_mpi
from tests.launch import python


@pytest.mark.mpi
@pytest.mark.parametrize("n_ranks", [1, 2, 4])
@pytest.mark.parametrize("manner", ["polite", "spin"])
def test_collectives(n_ranks, manner):
    done = python(["-m", "tests.mpi.ranks", manner], n_ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ok", str(n_ranks)]


def test_alone_without_a_launcher(monkeypatch):
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert not launched_by_mpi()
    comm = connect()
    assert isinstance(comm, SerialCommunicator)
    rows = np.ones((2, 3))
    assert comm.gather(rows) is rows
    assert comm.all_gather(rows, np.array([2])) is rows


def test_a_launcher_without_mpi4py_is_an_error(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(CommunicatorError, match=r"pip install 'flowrl\[mpi\]'"):
        connect()
