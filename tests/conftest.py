"""Settings of all tests."""

import os

# One thread a process, before NumPy loads: tests start ranks of their own.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import hypothesis

# A first call compiles: a time says nothing. Derandomised: the same examples everywhere.
hypothesis.settings.register_profile("flowrl", deadline=None, derandomize=True)
hypothesis.settings.load_profile("flowrl")
