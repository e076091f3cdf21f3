"""Read a user's trainer class: its networks and layers, checked against the environment.

Layers stand in the order of their calls, see `flowrl.composer.tracing`. The acting network is the
one that `get_action` calls; where that explores instead of asking a network, the first one that
reads an observation. All this is done on a trainer of its own: calls here change nothing elsewhere.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from torch import nn

from flowrl.composer.description import (
    Convolution,
    Dense,
    Layer,
    Network,
    TrainerDescription,
    side_by_side,
)
from flowrl.composer.tracing import LayerRecorder, declared_layers
from flowrl.composer.trainers import TRAINERS, Trainer
from flowrl.config import ConfigError, RunConfig
from flowrl.config.names import shown, suggestion

_METHODS = {
    "get_action": "def get_action(self, observation): return an action of the environment",
    "update_policy": "def update_policy(self, batch): make one step, return |TD errors| (n,)",
}
_ATTEMPTS = 32  # calls of get_action, which may explore instead of asking its network


@dataclass(frozen=True)
class Spaces:
    """Spaces of one agent of an environment."""

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]

    @property
    def n_observations(self) -> int:
        """Count the numbers of a flat observation."""
        return int(gymnasium.spaces.flatdim(self.observation))


def read_trainer(
    trainer_class: object,
    spaces: Spaces,
    options: Mapping[str, Any] | None = None,
    config: RunConfig | None = None,
) -> TrainerDescription:
    """Describe a trainer class; ConfigError in one line for what is missing or does not fit."""
    cls = checked_class(trainer_class)
    trainer = make_trainer(cls, spaces, options or {}, config)
    modules = find_networks(trainer)
    if not modules:
        raise ConfigError(
            f"{cls.__name__} must have an nn.Linear or nn.Conv2d in one of its attributes, got "
            "none; keep its networks as attributes, as in self.network = nn.Sequential(...)"
        )
    shape = _input_shape(cls.__name__, trainer, spaces)
    tracer = _Tracer(trainer, modules, shape, spaces)
    description = _described(cls, shape, tracer.networks())
    _check_outputs(description, spaces.action)
    _check_action(cls.__name__, tracer.action, spaces.action)
    return description


def make_trainer(
    cls: type[Any],
    spaces: Spaces,
    options: Mapping[str, Any],
    config: RunConfig | None = None,
) -> Any:
    """Construct a trainer, with the spaces, and for the project's the config, where it takes them.

    Raises ConfigError for options that it does not have, and where it needs others.
    """
    given = {"observation_space": spaces.observation, "action_space": spaces.action}
    if config is not None and issubclass(cls, Trainer):
        given["config"] = cast(Any, config)
    parameters = inspect.signature(cls).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in options:
        if name not in parameters and not takes_any:
            close = suggestion(name, parameters, f"it takes {', '.join(parameters) or 'none'}")
            raise ConfigError(
                f"options of {cls.__name__} must be its arguments, got {shown(name)}{close}"
            )
        _check_switch(cls, parameters.get(name), options[name])
    arguments = {name: value for name, value in given.items() if name in parameters}
    arguments |= options
    missing = [n for n, p in parameters.items() if _is_required(p) and n not in arguments]
    if missing:
        raise ConfigError(
            f"{cls.__name__} must be made from nothing, from (observation_space, action_space), "
            f"or from options; got no {', '.join(missing)}; give it a default, or set it: "
            f"set_train_function({cls.__name__}, {missing[0]}=...)"
        )
    return _built(cls, arguments)


def _check_switch(cls: type[Any], parameter: inspect.Parameter | None, value: object) -> None:
    """Refuse anything but a truth value for one: the text "False" would be true."""
    if parameter is None or not isinstance(parameter.default, bool) or isinstance(value, bool):
        return
    raise ConfigError(
        f"options of {cls.__name__}: {parameter.name} must be True or False, got {shown(value)}; "
        f"the default is {parameter.default}"
    )


def _built(cls: type[Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return cls(**arguments)
    except ConfigError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"{cls.__name__} must be made without an error, got {_line(error)}; look "
            "at its __init__"
        ) from error


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _is_required(parameter: inspect.Parameter) -> bool:
    is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return is_named and parameter.default is parameter.empty


def find_networks(trainer: object) -> dict[str, nn.Module]:
    """Return a trainer's networks by attribute: modules that hold an nn.Linear or nn.Conv2d.

    The modules of a list are networks of their own. A trainer that is a module with layers of its
    own is one network, named "self".
    """
    if isinstance(trainer, nn.Module):
        if any(isinstance(child, (nn.Linear, nn.Conv2d)) for child in trainer.children()):
            return {"self": trainer}
        attributes = dict(trainer.named_children())
    else:
        own = getattr(trainer, "__dict__", {})
        attributes = {n: m for n, m in own.items() if isinstance(m, nn.Module)}
    found: dict[str, nn.Module] = {}
    for name, module in attributes.items():
        parts: dict[str, nn.Module] = {name: module}
        if isinstance(module, nn.ModuleList):
            parts = {f"{name}.{i}": part for i, part in enumerate(module)}
        found |= {n: m for n, m in parts.items() if _has_layers(m)}
    return found


def native_algorithm(cls: type[Any]) -> str:
    """Return the project's algorithm that a class leaves as it is, or "torch"."""
    algo = str(getattr(cls, "algo", ""))
    base = TRAINERS.get(algo)
    if base is None or not issubclass(cls, base):
        return "torch"
    is_own = any(getattr(cls, name) is not getattr(base, name) for name in _METHODS)
    return "torch" if is_own else algo


def checked_class(trainer_class: object) -> type[Any]:
    """Return a class that has the methods of a trainer; ConfigError for what it has not."""
    if not inspect.isclass(trainer_class):
        raise ConfigError(
            f"set_train_function must get a class, got {shown(trainer_class)}; "
            "give the class itself, not an object of it"
        )
    for name, example in _METHODS.items():
        if not callable(getattr(trainer_class, name, None)):
            raise ConfigError(
                f"{trainer_class.__name__} must have a method {name}, got none; write {example}"
            )
    return trainer_class


def _has_layers(module: nn.Module) -> bool:
    return any(isinstance(part, (nn.Linear, nn.Conv2d)) for part in module.modules())


def _input_shape(name: str, trainer: object, spaces: Spaces) -> tuple[int, ...]:
    """Return the shape of one observation as the trainer wants it, from its attribute or the env.

    Raises ConfigError where it has not as many numbers as the environment's observation.
    """
    shape = getattr(trainer, "input_shape", None)
    if shape is None:
        return tuple(spaces.observation.shape or (spaces.n_observations,))
    try:
        sizes = tuple(int(n) for n in np.atleast_1d(shape))
    except (TypeError, ValueError, OverflowError):
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ConfigError(
            f"{name}.input_shape must be a tuple of sizes, got {shown(shape)}; "
            f"here it is ({spaces.n_observations},)"
        )
    if prod(sizes) != spaces.n_observations:
        raise ConfigError(
            f"{name}.input_shape must have the {spaces.n_observations} numbers of the "
            f"environment's observation, got {prod(sizes)} in {sizes}; "
            "make the network from observation_space"
        )
    return sizes


class _Tracer:
    """Calls get_action, then what it did not call, and records the layers."""

    def __init__(
        self,
        trainer: Any,
        modules: Mapping[str, nn.Module],
        shape: tuple[int, ...],
        spaces: Spaces,
    ) -> None:
        self._trainer, self._modules, self._shape, self._spaces = trainer, modules, shape, spaces
        self._recorder = LayerRecorder(modules)
        self._outputs: dict[str, tuple[tuple[int, ...], ...]] = {}
        rng = np.random.default_rng(0)
        self._observation = rng.uniform(-0.1, 0.1, shape).astype(np.float32)
        self.action: Any = None  # the last one

    def networks(self) -> tuple[Network, ...]:
        """Return the networks, in the order of the attributes."""
        with self._hooks():
            error = self._act()
            acting = {name for name in self._modules if self._recorder.layers(name)}
            found = [self._network(name, name in acting) for name in self._modules]
        if error is not None:
            raise ConfigError(self._refusal(found, error)) from error
        if acting:
            return tuple(found)
        place = next((i for i, n in enumerate(found) if self._reads_observation(n)), None)
        if place is None:
            raise ConfigError(self._refusal(found, None))
        found[place] = replace(found[place], role="acting")
        return tuple(found)

    def _act(self) -> Exception | None:
        """Ask for actions until a layer is called; return the error that this made."""
        try:
            with torch.no_grad(), self._recorder:
                for _ in range(_ATTEMPTS):
                    self.action = self._trainer.get_action(self._observation)
                    if any(self._recorder.layers(name) for name in self._modules):
                        break
        except Exception as error:  # the user's code may raise anything
            return error
        return None

    def _network(self, name: str, is_acting: bool) -> Network:
        module = self._modules[name]
        if not is_acting:
            self._call(module)
        layers = self._recorder.layers(name)
        if not layers:
            return Network(name, self._role(name, ()), declared_layers(module), is_traced=False)
        role = "acting" if is_acting else self._role(name, layers)
        return Network(name, role, layers, output_shapes=self._outputs.get(name, ()))

    def _call(self, module: nn.Module) -> None:
        """Call a network with what its first layer or its signature asks for, if that works."""
        first = next(m for m in module.modules() if isinstance(m, (nn.Linear, nn.Conv2d)))
        n_actions = int(np.prod(self._spaces.action.shape or (1,)))
        observation, action = torch.zeros(2, *self._shape), torch.zeros(2, n_actions)
        attempts: list[tuple[torch.Tensor, ...]] = [(observation,), (observation, action)]
        if isinstance(first, nn.Linear):
            attempts.insert(0, (torch.zeros(2, first.in_features),))
        for inputs in attempts:
            with contextlib.suppress(Exception), torch.no_grad():
                module(*inputs)
                with self._recorder:
                    module(*inputs)
                return

    @staticmethod
    def _role(name: str, layers: tuple[Layer, ...]) -> str:
        if "target" in name.lower():
            return "target"
        last = layers[-1] if layers else None
        return "critic" if isinstance(last, Dense) and last.n_out == 1 else "other"

    def _reads_observation(self, network: Network) -> bool:
        first = network.layers[0]
        if isinstance(first, Convolution):
            return first.n_in == self._shape[0]
        return network.role != "target" and first.n_in == self._spaces.n_observations

    def _refusal(self, networks: list[Network], error: Exception | None) -> str:
        name, n = type(self._trainer).__name__, self._spaces.n_observations
        first = networks[0].layers[0]
        is_acting = any(network.role == "acting" for network in networks)
        if isinstance(first, Dense) and first.n_in != n and not is_acting:
            return (
                f"{name}.{networks[0].name} must read the {n} numbers of the environment's "
                f"observation, got nn.Linear({first.n_in}, {first.n_out}) first; make it from "
                "observation_space"
            )
        if error is not None:
            return (
                f"{name}.get_action must take an observation of shape {self._shape}, got "
                f"{_line(error)}; it gets a float32 array, one observation"
            )
        return f"{name}.get_action must ask one of its networks, got no call; use one"

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        """Note the shapes of what the networks return."""
        handles = [m.register_forward_hook(self._noting(n)) for n, m in self._modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _noting(self, name: str) -> Callable[..., None]:
        def note(module: nn.Module, inputs: object, output: Any) -> None:  # noqa: ARG001
            outputs = output if isinstance(output, (tuple, list)) else (output,)
            tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
            # One observation may come without a batch around it.
            shapes = [tuple(o.shape[1:] if o.dim() > 1 else o.shape) for o in tensors]
            self._outputs[name] = tuple(shapes)

        return note


def _described(
    cls: type[Any], shape: tuple[int, ...], networks: tuple[Network, ...]
) -> TrainerDescription:
    algo = native_algorithm(cls)
    actor = side_by_side([n for n in networks if n.role == "acting"])
    critic = side_by_side([n for n in networks if n.role == "critic"])
    notes: list[str] = []
    if algo == "torch":
        notes.append(f"{cls.__name__} has an update of its own")
    elif actor is None or critic is None:
        algo = "torch"
        notes.append("its networks are not perceptrons of relu, tanh and sigmoid with biases")
    return TrainerDescription(cls.__name__, algo, shape, networks, actor, critic, tuple(notes))


def _check_outputs(description: TrainerDescription, space: gymnasium.Space[Any]) -> None:
    """Compare what the acting network makes with the actions; ConfigError with both numbers."""
    acting = description.acting
    shapes = acting.output_shapes
    if len(shapes) != 1 or (description.algo == "dqn" and isinstance(space, gymnasium.spaces.Box)):
        return  # several heads, which only get_action understands, or levels of a box
    right: tuple[int, ...]
    if isinstance(space, gymnasium.spaces.Discrete):
        right, rule = (int(space.n),), f"a number for each of {space.n} actions"
    else:
        n = int(np.prod(space.shape or (1,)))
        right, rule = (n, 2 * n), f"{n} numbers for an action, or {2 * n} with deviations"
    if not any(size in right for size in shapes[0]):
        raise ConfigError(
            f"{description.name}.{acting.name} must make {rule}, got {shapes[0][-1]}; "
            "make it from action_space"
        )


def _check_action(name: str, action: Any, space: gymnasium.Space[Any]) -> None:
    """Compare what get_action returned with the action space."""
    try:
        values = np.asarray(action.cpu() if isinstance(action, torch.Tensor) else action)
        if isinstance(space, gymnasium.spaces.Discrete):
            fits = values.size == 1 and 0 <= int(values.reshape(-1)[0]) - space.start < space.n
        else:
            size = int(np.prod(space.shape or (1,)))
            fits = values.size == size and bool(np.isfinite(values.astype(float)).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ConfigError(
            f"{name}.get_action must return an action of {space}, got {shown(action)}; "
            "return what env.step takes"
        )
