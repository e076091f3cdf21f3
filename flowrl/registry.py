"""Names on the command line to objects in Python, imported only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec

from flowrl.agents.interface import Agent
from flowrl.config import ConfigError, RunConfig
from flowrl.config.names import suggestion
from flowrl.envs.compiled import (
    CompiledEnvironments,
    VectorEnv,
    compiled_interface,
    is_compiled,
)
from flowrl.envs.idle import NoEnvironments
from flowrl.envs.interface import Interface, UnsupportedEnvironment
from flowrl.envs.python import Env, PythonEnvironments, flat, python_interface

_OFF_POLICY = "flowrl.parallel.trainer:make_trainer"
ALGORITHMS = {"ppo": "flowrl.on_policy:OnPolicyTrainer"} | dict.fromkeys(
    ("dqn", "ddpg", "td3", "sac"), _OFF_POLICY
)
AGENTS = {"ppo": "flowrl.agents.ppo:PpoAgent"} | dict.fromkeys(
    ("dqn", "ddpg", "td3", "sac"), "flowrl.agents.off_policy:OffPolicyAgent"
)
# Offered as the nearest names; the packages that hold them are not imported for that.
OWN_ENVIRONMENTS = ("shkadov:Shkadov-v0", "shkadov:ShkadovSeparable-v0")
LEARNERS = {
    "native": "flowrl.learners.native:NativeLearner",
    "torch": "flowrl.learners.torch_ppo:TorchLearner",
}

OFF_POLICY_LEARNERS = {
    "native": "flowrl.learners.off_policy:NativeOffPolicyLearner",
    "torch": "flowrl.learners.torch_off_policy:TorchOffPolicyLearner",
}

# Makes an array of zeros in memory that a CUDA device copies from directly.
PINNED_MEMORY = "flowrl.learners.torch_memory:pinned"

Environments = CompiledEnvironments | PythonEnvironments | NoEnvironments


def load(reference: str) -> Any:
    """Import the object that "module:object" names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def load_learner(learners: Mapping[str, str], name: str) -> Any:
    """Import a learner's class; raise ConfigError, with the way out, where it can't be."""
    try:
        return load(learners[name])
    except ImportError as error:
        raise ConfigError(
            f"--learner {name} cannot be loaded ({error}); "
            "install it with: pip install 'flowrl[torch]', or use --learner native"
        ) from error


def build_agent(config: RunConfig, interface: Interface) -> Agent:
    """Build the agent of the configured algorithm."""
    agent: Agent = load(AGENTS[config.algo]).build(config, interface)
    return agent


class EnvironmentSource:
    """Makes environments by name.

    `name` is a Gymnasium id ("Pendulum-v1"), an id in a module that registers it
    ("shkadov:Shkadov-v0") or a factory ("my_package:make_env") that returns a gymnasium.Env.
    An id with a vector entry point that offers a compiled step is rolled out compiled.
    Raises UnsupportedEnvironment with one line that says what is wrong.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self._name, self._arguments = name, dict(arguments)
        self._factory = _factory(name)
        self._spec = None if self._factory is not None else _spec(name)

    def interface(self, n_envs: int) -> Interface:
        """Read the sizes of the environments, as n_envs of them would be made."""
        env = self._make_compiled(n_envs)
        if env is None:
            single = flat(self.make_single())
            single.close()
            return python_interface(single)
        env.close()
        return compiled_interface(env)

    def make(self, seeds: Sequence[int], interface: Interface) -> Environments:
        """Make and reset one environment per seed, for policies of this interface."""
        if not seeds:
            return NoEnvironments(interface)
        env = self._make_compiled(len(seeds))
        if env is not None:
            return CompiledEnvironments(env, seeds, interface)
        return PythonEnvironments(self.make_single, seeds, interface)

    def held_out(self, n_envs: int) -> EnvironmentSource:
        """Return the same environments on starts that training never sees.

        An environment names the arguments for that in `held_out_arguments`; one that does not is
        told apart by its seeds alone.
        """
        env = self._make_compiled(n_envs) or self.make_single()
        arguments = getattr(env.unwrapped, "held_out_arguments", {})
        env.close()
        return EnvironmentSource(self._name, {**self._arguments, **arguments})

    def make_playable(self, n_envs: int) -> VectorEnv | None:
        """Make the vector environment to be played step by step, or None if there is none."""
        return self._make_compiled(n_envs)

    def _make_compiled(self, n_envs: int) -> VectorEnv | None:
        """Make the vector environment if there is one that can be rolled out compiled."""
        if self._spec is None or self._spec.vector_entry_point is None:
            return None
        with _reported(self._name):
            env = gymnasium.make_vec(
                self._spec,
                num_envs=n_envs,
                vectorization_mode="vector_entry_point",
                **self._arguments,
            )
        if is_compiled(env):
            return env
        env.close()
        return None

    def make_single(self) -> Env:
        """Make one gymnasium.Env."""
        with _reported(self._name):
            if self._spec is not None:
                return gymnasium.make(self._spec, **self._arguments)
            env = cast(Any, self._factory)(**self._arguments)
        if not isinstance(env, gymnasium.Env):
            raise UnsupportedEnvironment(
                f"environment {self._name} must be a gymnasium.Env, got a {type(env).__name__}"
            )
        return env


def _factory(name: str) -> Any | None:
    """Return the factory that "module:object" names, or None where the name is a Gymnasium id."""
    module, colon, attribute = name.rpartition(":")
    if not colon:
        return None
    try:
        found = importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise UnsupportedEnvironment(
            f"environment {name}: its module must be one that can be imported ({error}); "
            "install it, or run where Python finds it"
        ) from error
    factory = getattr(found, attribute, None)
    if factory is None and attribute.isidentifier():
        raise UnsupportedEnvironment(
            f"environment {name}: module {module} has no {attribute}"
            f"{suggestion(attribute, [n for n in vars(found) if not n.startswith('_')])}"
        )
    return factory


def _spec(name: str) -> EnvSpec:
    """Return what Gymnasium knows of an id; the module before a colon is imported already."""
    try:
        return gymnasium.spec(name.rpartition(":")[2])
    except gymnasium.error.Error as error:
        raise UnsupportedEnvironment(
            f"environment {name} must be a registered Gymnasium id or PACKAGE:FUNCTION"
            f"{suggestion(name, [*OWN_ENVIRONMENTS, *gymnasium.registry], str(error))}"
        ) from error


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Turn what an environment says of its arguments into a message for the user."""
    try:
        yield
    except (ValueError, TypeError, gymnasium.error.Error, ImportError) as error:
        kind = "" if isinstance(error, ValueError) else f" {type(error).__name__}:"
        raise UnsupportedEnvironment(f"environment {name} cannot be made:{kind} {error}") from error
