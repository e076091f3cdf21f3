"""What goes on in the replay manager while a batch is learnt, by mode of iteration."""

import threading
from collections.abc import Callable

import pytest

from flowrl.config import ConfigError, ParallelConfig
from flowrl.learners.off_policy import NativeOffPolicyLearner
from flowrl.learning import Learning
from tests.flowrl.parallel_runs import assert_same_bits, config, run

PATIENCE = 20.0  # [s]
MODES = ("strict", "relaxed", "pipelined")
RELAYED = {"workers": 1, "setting": "relayed", "priorities": "prioritized"}


def _nothing(number: int) -> None:
    del number


class Events:
    """Draws, settlements and updates of a run in their order, with a wait for any of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self._news = threading.Condition()
        self._counts: dict[str, int] = {}
        self.before_learning: Callable[[int], object] = _nothing
        for owner, name in ((Learning, "draw"), (Learning, "settle")):
            self._record_after(monkeypatch, owner, name)
        learn = NativeOffPolicyLearner.learn

        def learn_and_tell(*arguments):
            number = self._count("learn")
            self.before_learning(number)
            step = learn(*arguments)
            self._tell(f"learn {number}")
            return step

        monkeypatch.setattr(NativeOffPolicyLearner, "learn", learn_and_tell)

    def _record_after(self, monkeypatch, owner, name):
        call = getattr(owner, name)

        def call_and_tell(*arguments):
            result = call(*arguments)
            self._tell(f"{name} {self._count(name)}")
            return result

        monkeypatch.setattr(owner, name, call_and_tell)

    def _count(self, name):
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    def _tell(self, event):
        with self._news:
            self.names.append(event)
            self._news.notify_all()

    def wait_for(self, event):
        with self._news:
            assert self._news.wait_for(lambda: event in self.names, PATIENCE), self.names

    def is_before(self, first, second):
        return self.names.index(first) < self.names.index(second)


def test_strict_draws_a_batch_after_the_last_ones_priorities(monkeypatch):
    events = Events(monkeypatch)
    n = int(run(config(n_transitions=203, **RELAYED)).last["updates"])
    for i in range(2, n + 1):
        assert events.is_before(f"settle {i - 1}", f"draw {i}")


def test_relaxed_sets_priorities_while_the_next_batch_is_learnt(monkeypatch):
    events = Events(monkeypatch)
    # An update waits for the priorities of the one before: the replay manager sets them meanwhile.
    events.before_learning = lambda i: None if i == 1 else events.wait_for(f"settle {i - 1}")
    n = int(run(config(n_transitions=203, iteration="relaxed", **RELAYED)).last["updates"])
    assert sum(events.is_before(f"draw {i}", f"settle {i - 1}") for i in range(2, n + 1)) > n // 2


def test_pipelined_draws_the_next_batch_while_one_is_learnt(monkeypatch):
    events = Events(monkeypatch)
    # Five updates a collection: the first of them waits until the second is drawn.
    events.before_learning = lambda i: events.wait_for(f"draw {i + 1}") if i % 5 == 1 else None
    outcome = run(config(n_transitions=205, iteration="pipelined", **RELAYED))
    assert outcome.last["updates"] == 145


@pytest.mark.parametrize("iteration", MODES)
def test_every_mode_makes_the_same_number_of_updates(iteration):
    rest = {**RELAYED, "workers": 2, "updates_per_transition": 0.7, "lag": 3}
    outcome = run(config(iteration=iteration, **rest))
    assert outcome.last["updates"] == int(0.7 * (403 - 60))
    assert outcome.last["replay_size"] == 403


@pytest.mark.parametrize("iteration", ["relaxed", "pipelined"])
def test_a_mode_without_a_lag_is_repeatable(iteration):
    runs = [run(config(iteration=iteration, lag=0, **RELAYED)) for _ in range(2)]
    assert_same_bits(*runs)


def test_modes_need_two_threads():
    with pytest.raises(ConfigError, match=r"--parallel\.iteration"):
        ParallelConfig(iteration="relaxed", setting="joined")
