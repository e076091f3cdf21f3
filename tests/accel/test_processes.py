"""What threads and processes may do to the primitives: fork, run out of threads."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FORK = """
import os

from tests.accel.off_policy_cases import make_case

case = make_case("sac")
learner = case.learner("cpu", n_pipelines=4, n_threads=3)
learner.learn(case.batch)
child = os.fork()
loss = learner.learn(case.batch).critic_loss
del learner  # the child has none of the threads to wait for
if child == 0:
    os._exit(int(1000 * loss) % 97)
print(int(1000 * loss) % 97, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_learner_has_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True
    )
    parent, child = done.stdout.split()
    assert parent == child


def test_too_few_threads_are_an_error() -> None:
    """And those that were made end: no std::terminate."""
    program = """
import resource
from tests.accel.off_policy_cases import make_case
case = make_case("dqn")
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    case.learner("cpu", n_pipelines=256, n_threads=256)
except (RuntimeError, MemoryError) as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("RuntimeError", "MemoryError")


@pytest.mark.parametrize("call", ["tree.sample_stratified(u, 0.4)", "learner.learn(case.batch)"])
def test_the_interpreter_ends_while_a_thread_is_inside_a_call(call: str) -> None:
    program = f"""
import threading, time
import numpy as np
from accel.cpu import SumTree
from tests.accel.off_policy_cases import make_case
case = make_case("sac", n_rows=256)
learner, tree, u = case.learner("cpu"), SumTree(100_000), np.random.default_rng(0).random(200_000)
tree.insert(0, 100_000)

def forever():
    while True:
        {call}

threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
