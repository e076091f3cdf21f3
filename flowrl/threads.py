"""One thread a rank, unless the environment variables ask otherwise.

Import this before any library that starts threads when it loads: ranks are the parallelism here,
and N ranks of N threads each fight for the cores.
"""

from __future__ import annotations

import os

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
):
    os.environ.setdefault(_variable, "1")
