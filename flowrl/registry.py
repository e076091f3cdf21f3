"""Names on the command line to objects in Python, imported only when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from flowrl.envs.compiled import (
    CompiledEnvironments,
    VectorEnv,
    compiled_interface,
    is_compiled,
)
from flowrl.envs.idle import NoEnvironments
from flowrl.envs.interface import Interface, UnsupportedEnvironment
from flowrl.envs.python import Env, PythonEnvironments, flat, python_interface

ALGORITHMS = {"ppo": "flowrl.on_policy:train"}
LEARNERS = {
    "native": "flowrl.learners.native:NativeLearner",
    "torch": "flowrl.learners.torch_ppo:TorchLearner",
}

Environments = CompiledEnvironments | PythonEnvironments | NoEnvironments


def load(reference: str) -> Any:
    """Import the object that "module:object" names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


class EnvironmentSource:
    """Makes environments by name.

    `name` is a Gymnasium id ("Pendulum-v1"), an id in a module that registers it
    ("shkadov:Shkadov-v0") or a factory ("my_package:make_env") that returns a gymnasium.Env.
    An id with a vector entry point that offers a compiled step is rolled out compiled.
    Raises UnsupportedEnvironment with one line that says what is wrong.
    """

    def __init__(self, name: str, arguments: Mapping[str, object]) -> None:
        self._name, self._arguments = name, dict(arguments)
        self._factory = _factory(name)

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
        """Make and reset one environment per seed."""
        if not seeds:
            return NoEnvironments(interface)
        env = self._make_compiled(len(seeds))
        if env is not None:
            return CompiledEnvironments(env, seeds)
        return PythonEnvironments(self.make_single, seeds)

    def held_out(self, n_envs: int) -> EnvironmentSource:
        """Return the same environments on starts that training never sees.

        An environment names the arguments for that in `held_out_arguments`; one that does not is
        told apart by its seeds alone.
        """
        env = self._make_compiled(n_envs) or self.make_single()
        arguments = getattr(env.unwrapped, "held_out_arguments", {})
        env.close()
        return EnvironmentSource(self._name, {**self._arguments, **arguments})

    def _make_compiled(self, n_envs: int) -> VectorEnv | None:
        """Make the vector environment if there is one that can be rolled out compiled."""
        if self._factory is not None or gymnasium.spec(self._name).vector_entry_point is None:
            return None
        env = gymnasium.make_vec(
            self._name,
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
        if self._factory is not None:
            env: Env = self._factory(**self._arguments)
            return env
        return gymnasium.make(self._name, **self._arguments)


def _factory(name: str) -> Any | None:
    """Return the factory that "module:object" names, or None where the name is a Gymnasium id."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return None
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedEnvironment(
            f"env: module {module!r} of {name!r} cannot be imported ({error}); "
            "install it or run where Python finds it"
        ) from error
    factory = getattr(found, attribute, None)
    if factory is None and attribute.isidentifier():
        raise UnsupportedEnvironment(f"env: module {module!r} has no {attribute!r}")
    return factory
