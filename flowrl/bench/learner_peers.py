"""Libraries whose gradient steps are timed beside the native learner's; each may be missing.

A peer gets its batch ready: nothing that draws rows from a replay buffer counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from flowrl.bench.workloads import Workload


class PeerMissing(Exception):
    """Report, in one line, why a peer can't be timed here."""


@dataclass(frozen=True)
class Steps:
    """A call that does a number of gradient steps."""

    run: Callable[[], object]
    n_steps: int


class _Spaces(gymnasium.Env[Any, Any]):
    """An environment that says how large observations and actions are, and does nothing."""

    def __init__(self, workload: Workload) -> None:
        n = workload.n_actions
        shape = (workload.n_observations,)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.action_space = (
            gymnasium.spaces.Discrete(n)
            if workload.algorithm == "dqn"
            else gymnasium.spaces.Box(-1.0, 1.0, (n,), np.float32)
        )


def library(name: str) -> Any:
    """Import a library; raise PeerMissing, in one line, where it can't be."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # an installed library may fail in any way on a newer dependency
        line = (str(error).strip().splitlines() or [""])[0]
        raise PeerMissing(f"{name} is left out: {type(error).__name__}: {line}") from error


def _ready_samples(workload: Workload, n_steps: int) -> Any:
    """Make what a replay buffer of Stable-Baselines3 returns for so many steps."""
    torch = library("torch")
    b = workload.batch(np.random.default_rng(0), workload.n_rows * n_steps)
    samples = SimpleNamespace(
        observations=torch.from_numpy(b.observations),
        actions=torch.from_numpy(b.actions),
        next_observations=torch.from_numpy(b.next_observations),
        dones=torch.from_numpy((b.discounts == 0).astype(np.float32)[:, None]),
        rewards=torch.from_numpy(b.rewards[:, None]),
        discounts=None,
    )
    if workload.algorithm == "dqn":
        samples.actions = samples.actions.long()
    return samples


def _of_library(name: str, workload: Workload, n_steps: int) -> Steps:
    """Time a model's own `train`, at the network sizes of the workload."""
    algorithms = library(name)
    logger = library("stable_baselines3.common.logger")
    options: dict[str, Any] = {"policy_kwargs": {"net_arch": [workload.width, workload.width]}}
    model = getattr(algorithms, workload.algorithm.upper())(
        "MlpPolicy", _Spaces(workload), buffer_size=1000, **options
    )
    model.set_logger(logger.configure(None, []))
    samples = _ready_samples(workload, n_steps)
    model.replay_buffer.sample = lambda *_arguments, **_options: samples
    return Steps(lambda: model.train(gradient_steps=n_steps, batch_size=workload.n_rows), n_steps)


def stable_baselines3(workload: Workload) -> Steps:
    """Two steps a call, so that TD3 updates its actor once."""
    samples = _of_library("stable_baselines3", workload, 1)
    return Steps(lambda: (samples.run(), samples.run()), 2)


def sbx(workload: Workload) -> Steps:
    """As many steps a call as make its dispatch small beside them."""
    return _of_library("sbx", workload, 64 if workload.width <= 64 else 8)


def _torch(workload: Workload, compiled: bool) -> Steps:
    library("torch")
    steps = importlib.import_module("flowrl.bench.torch_off_policy").TorchSteps(workload, compiled)
    return Steps(lambda: (steps.step(), steps.step()), 2)


def torch_eager(workload: Workload) -> Steps:
    """Plain torch with a fused Adam."""
    return _torch(workload, False)


def torch_compile(workload: Workload) -> Steps:
    """The same with compiled losses and gradients."""
    return _torch(workload, True)


PEERS: dict[str, Callable[[Workload], Steps]] = {
    "Stable-Baselines3": stable_baselines3,
    "torch eager": torch_eager,
    "torch.compile": torch_compile,
    "sbx": sbx,
}
