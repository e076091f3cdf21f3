"""Settings of all tests."""

import flowrl.startup  # isort: skip  # noqa: F401  (before NumPy and numba load)

import hypothesis

# A first call compiles: a time says nothing. Derandomised: the same examples everywhere.
hypothesis.settings.register_profile("flowrl", deadline=None, derandomize=True)
hypothesis.settings.load_profile("flowrl")
