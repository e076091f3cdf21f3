"""What each rank runs in test_comm: `mpirun -n N python -m tests.mpi.ranks polite|spin`."""

import sys

import numpy as np

from flowrl.comm import connect

comm = connect()
comm.wait_politely(sys.argv[1] == "polite")
text = comm.broadcast_text("hällo" if comm.rank == 0 else "")
assert text == "hällo"

values = np.array([comm.rank, 2**60 // comm.size, -1], np.int64)
comm.sum_integers(values)
expected = [comm.size * (comm.size - 1) // 2, comm.size * (2**60 // comm.size), -comm.size]
assert values.tolist() == expected

counts = np.arange(comm.size)  # rank 0 has nothing
rows = comm.all_gather(np.full((comm.rank, 2), float(comm.rank)), counts)
assert rows[:, 1].tolist() == np.repeat(np.arange(comm.size), counts).tolist()

gathered = comm.gather(np.full((comm.size - comm.rank - 1, 3), float(comm.rank)))
if comm.rank == 0:
    assert gathered is not None
    assert gathered[:, 0].tolist() == np.repeat(counts, counts[::-1]).tolist()
else:
    assert gathered is None
comm.barrier()
if comm.rank == 0:
    sys.stdout.write(f"ok {comm.size}\n")
