"""Environments that offer a compiled step: one compiled call unrolls all of them, policy inside.

A vector environment takes part by two attributes of its unwrapped object. `compiled_step` is a
numba function

    step(state, group, actions, observations, final_observations, rewards)
        -> (terminated, truncated)

that advances one group of agents (usually one agent) by one action: actions (G, n_actions),
observations and final_observations (G, n_observations) float32, rewards (G,) float64, with
same-step reset inside: `final_observations` is always the true observation after the action,
`observations` the one to act on next. `compiled_state` is a NamedTuple of arrays and scalars with
all the state the step reads and writes. `agents_per_group` is G (one if absent).

Where it has `get_state()` and `set_state(state)`, a mapping of names to arrays (n_groups, ...) with
all that a step changes, checkpoints keep it.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from typing import Any

import gymnasium
import numba
import numpy as np
from numba import types

from flowrl.envs.interface import Interface, read_interface
from flowrl.policies import PolicyArrays, act
from flowrl.state import State, StateError, prefixed, take, within
from flowrl.trajectory import BoolArray, Float32Array, Float64Array, IntArray, Trajectory

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]

_GROUPS = "groups"  # what the environment itself tells, one row a group


def is_compiled(env: Any) -> bool:
    """Tell whether a vector environment offers a compiled step."""
    return hasattr(env.unwrapped, "compiled_step") and hasattr(env.unwrapped, "compiled_state")


def compiled_interface(env: VectorEnv) -> Interface:
    """Read the sizes of a compiled environment."""
    inner: Any = env.unwrapped
    return read_interface(
        inner.single_observation_space,
        inner.single_action_space,
        getattr(inner, "episode_steps", None),
        getattr(inner, "agents_per_group", 1),
    )


class CompiledEnvironments:
    """The films (or other compiled environments) of one rank."""

    def __init__(self, env: VectorEnv, seeds: Sequence[int], interface: Interface) -> None:
        self._env = env
        inner: Any = env.unwrapped
        self.interface = interface
        observations, _ = inner.reset(seed=list(seeds))
        self._observations = np.ascontiguousarray(observations, np.float32)
        self._step, self._state = inner.compiled_step, inner.compiled_state
        self._past_blow_ups: IntArray = np.zeros(self.n_envs, np.int64)  # before a restart
        self._policy_type: Any = None
        self._kernel: Any = None

    @property
    def n_envs(self) -> int:
        """Count the environments (agents) of this rank."""
        return len(self._observations)

    @property
    def parameters(self) -> dict[str, object]:
        """Return the numbers that the environment says it is made with, or nothing."""
        return dict(getattr(self._env.unwrapped, "parameters", {}))

    @property
    def n_blow_ups(self) -> IntArray:
        """Count, for each environment, the episodes that ended in a blow-up: (n_envs,)."""
        inner: Any = self._env.unwrapped
        counts = getattr(inner, "n_blow_ups", np.zeros(self.n_envs, np.int64))
        return np.array(counts, np.int64) + self._past_blow_ups

    def compile(self, policy: PolicyArrays) -> None:
        """Compile the rollout for this environment and policy, or load it from numba's cache."""
        policy_type = numba.typeof(policy)
        if policy_type != self._policy_type:
            self._policy_type = policy_type
            self._kernel = _build_rollout(numba.typeof(self._state), policy_type)
            # What the first call would do: compile the step for the type it is passed as.
            self._step.compile(_step_arguments(numba.typeof(self._state)))

    def unroll(self, policy: PolicyArrays, noise: Float32Array, trajectory: Trajectory) -> None:
        """Fill `trajectory` up to its lengths; noise is (n_envs, n_steps, n_choices)."""
        self.compile(policy)
        self._kernel(
            self._step,
            self._state,
            policy,
            self.interface.agents_per_group,
            noise,
            self._observations,
            trajectory.lengths,
            trajectory.observations,
            trajectory.next_observations,
            trajectory.actions,
            trajectory.rewards,
            trajectory.terminated,
            trajectory.truncated,
        )

    def state(self) -> State:
        """Return, with one row an environment or a group, all that an unroll changes."""
        return {
            "observations": self._observations,
            "n_blow_ups": self.n_blow_ups,
            **prefixed(_GROUPS, self._group_state()),
        }

    def _group_state(self) -> State:
        """Return what the environment tells of its groups; nothing where it tells nothing."""
        inner: Any = self._env.unwrapped
        if not (hasattr(inner, "get_state") and hasattr(inner, "set_state")):
            return {}
        state = {str(name): np.asarray(values) for name, values in inner.get_state().items()}
        n_groups = self.n_envs // self.interface.agents_per_group
        has_rows = all(values.shape[:1] == (n_groups,) for values in state.values())
        return state if has_rows else {}

    def load_state(self, state: State, seeds: Sequence[int]) -> BoolArray:
        """Go on from what `state` returned; mark what begins anew instead, by these seeds."""
        inner: Any = self._env.unwrapped
        groups = within(_GROUPS, state)
        if groups:
            try:
                inner.set_state(groups)
            except (ValueError, AttributeError) as error:
                raise StateError(f"the environment refuses its saved state: {error}") from error
            self._observations[:] = take(
                state, "observations", np.float32, self._observations.shape
            )
        else:
            self._observations[:] = inner.reset(seed=list(seeds))[0]
        past = take(state, "n_blow_ups", np.int64, (self.n_envs,))
        self._past_blow_ups = past - self.n_blow_ups
        return np.full(self.n_envs, not groups)

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()


def _rollout(
    step: Any,
    state: Any,
    policy: PolicyArrays,
    n_agents: int,
    noise: Float32Array,
    current: Float32Array,
    lengths: IntArray,
    observations: Float32Array,
    next_observations: Float32Array,
    actions: Float32Array,
    rewards: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
) -> None:
    """Unroll every group to its length, one after the other, so that its state stays in cache."""
    env_actions = np.empty((n_agents, policy.action_offset.size), np.float32)
    final = np.empty((n_agents, current.shape[1]), np.float32)
    step_rewards = np.empty(n_agents, np.float64)
    scratch = np.zeros((policy.layers.shape[0] + 2, policy.width), np.float32)
    for group in range(current.shape[0] // n_agents):
        first = group * n_agents
        for t in range(lengths[first]):
            for agent in range(n_agents):
                e = first + agent
                observations[e, t] = current[e]
                act(policy, current[e], noise[e, t], scratch, actions[e, t], env_actions[agent])
            ended, timed_out = step(
                state, group, env_actions, current[first : first + n_agents], final, step_rewards
            )
            for agent in range(n_agents):
                e = first + agent
                next_observations[e, t] = final[agent]
                rewards[e, t] = step_rewards[agent]
                terminated[e, t] = ended
                truncated[e, t] = timed_out


def _step_arguments(state_type: Any) -> tuple[Any, ...]:
    rows = types.float32[:, ::1]
    return (state_type, types.int64, rows, rows, rows, types.float64[::1])


def step_type(state_type: Any) -> Any:
    """Return the type under which a compiled step is passed to another compiled function."""
    outcome = types.UniTuple(types.boolean, 2)
    return types.FunctionType(outcome(*_step_arguments(state_type)))


@functools.cache
def _build_rollout(state_type: Any, policy_type: Any) -> Any:
    """Compile `_rollout` for one environment class, once a process.

    The step comes in as a first-class function with an explicit signature: that keeps the
    compiled rollout in numba's cache from one process to the next.
    """
    f32, f64, i64, flag = types.float32, types.float64, types.int64, types.boolean
    rows, cube = f32[:, ::1], f32[:, :, ::1]
    signature = types.void(
        *(step_type(state_type), state_type, policy_type, i64, cube, rows, i64[::1]),
        *(cube, cube, cube, f64[:, ::1], flag[:, ::1], flag[:, ::1]),
    )
    kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(_rollout)
    try:
        kernel.compile(signature)
    except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
        # An index that names classes an environment no longer has: make it anew.
        kernel._cache.flush()
        kernel.compile(signature)
    # Without this a call would compile once more, for the step as the very object it is.
    kernel.disable_compile()
    return kernel
