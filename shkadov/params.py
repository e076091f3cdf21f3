"""Every number of the film and of its control, with its unit, checked when it is made.

Lengths are over the height of the flat film scaled as in Shkadov (1967), times over the matching
time: all quantities are dimensionless, written [-], and [L] or [T] where they are a length or a
time in those scales.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Final

from shkadov.stability import (
    allowed_growth,
    largest_stable_dt,
    smallest_stable_dx,
    step_growth,
)

Number = int | float

POSITIVE: Final = (
    "delta", "L0", "jet_spacing", "jet_width", "jet_amplitude", "dx", "dt", "dt_action",
    "dt_ramp", "episode_time", "l_obs", "obs_spacing", "l_rwd", "reward_scale", "q_max",
    "start_spacing", "n_jets", "n_starts", "n_realisations",
)  # fmt: skip
NOT_NEGATIVE: Final = ("inlet_noise", "l_obs_downstream", "start_time", "start_seed")
MIN_NODES: Final = 32  # the solver cuts a film into four pieces of a few nodes each
# (whole, part): the part must fit into the whole a whole number of times.
MULTIPLES: Final = (
    ("dt_action", "dt"), ("dt_ramp", "dt"), ("episode_time", "dt_action"),
    ("start_time", "dt_action"), ("start_spacing", "dt_action"), ("l_obs", "obs_spacing"),
    ("l_obs_downstream", "obs_spacing"), ("obs_spacing", "dx"), ("l_rwd", "dx"),
    ("jet_spacing", "dx"), ("L0", "dx"), ("first_jet", "dx"), ("length", "dx"),
)  # fmt: skip

# Bounds of what a film may be asked for; 1e9 for all others.
LARGEST: Final[Mapping[str, float]] = {
    "L0": 1e5,
    "n_jets": 1000,
    "n_realisations": 10_000,
    "n_starts": 100_000,
    "start_seed": 2**63 - 1,
    "start_time": 1e5,
}
SMALLEST: Final = 1e-9


@dataclass(frozen=True)
class FilmParams:
    """Hold the parameters of a falling film and of its control; the defaults are `paper`'s."""

    n_jets: int = 1
    """Number of jets [-]."""
    delta: float = 0.1
    """Reduced Reynolds number (3 Re^2 / W)^(1/3) / 15 [-]."""
    L0: float = 150.0
    """Length of the film ahead of the jets [L]; the domain is L0 + (n_jets + 2) jet_spacing."""
    dx: float = 0.5
    """Spacing of the nodes [L]."""
    dt: float = 0.005
    """Numerical time step [T]."""
    inlet_noise: float = 5e-4
    """Half width of the uniform noise on the height at the inlet, drawn at every step [-]."""

    first_jet: float = 150.0
    """Position of the first jet's centre [L]."""
    jet_spacing: float = 10.0
    """Distance between the centres of two jets [L]."""
    jet_width: float = 4.0
    """Width of a jet [L]."""
    jet_amplitude: float = 5.0
    """Largest q_t a jet adds, at its centre, for an action of 1 [1/T]."""
    jet_sign: int = 1
    """Sign of q_t for a positive action: +1 or -1 [-]."""

    dt_action: float = 0.05
    """Time one action lasts [T]."""
    dt_ramp: float = 0.01
    """Time over which a jet goes linearly from the old action to the new one [T]."""
    episode_time: float = 20.0
    """Time one episode lasts [T]."""
    l_obs: float = 10.0
    """Length observed upstream of each jet [L]."""
    l_obs_downstream: float = 0.0
    """Length observed downstream of each jet: what earlier actions have made of the film [L]."""
    obs_spacing: float = 1.0
    """Distance between two observed values of q [L]."""
    l_rwd: float = 10.0
    """Length downstream of each jet over which the reward is taken [L]."""
    reward_scale: float = 1.0
    """Factor on the mean of (h - 1)^2 in the reward [-]."""

    h_max: float = 10.0
    """Height from which the film counts as blown up [-]."""
    q_max: float = 100.0
    """Flow rate, either way, from which the film counts as blown up [-]."""
    blow_up_reward: float = -5.0
    """Reward of the action that blew the film up [-]."""

    start_time: float = 200.0
    """Time the film develops before the first start state is taken [T]."""
    start_spacing: float = 20.0
    """Time between two start states of one realisation [T]."""
    n_starts: int = 256
    """Number of start states, in the training set and in the held-out set each [-]."""
    n_realisations: int = 8
    """Number of independent films the start states are taken from [-]."""
    start_seed: int = 0
    """Seed the start states are made from [-]."""

    def __post_init__(self) -> None:
        """Refuse values no film can be made of."""
        _check_types(self)
        _check_sizes(self)
        _check_ranges(self)
        _check_stability(self)
        _check_multiples(self)
        _check_jets(self)

    @classmethod
    def preset(cls, name: str, **overrides: Number) -> FilmParams:
        """Make the parameters of a named preset, with some fields changed."""
        if name not in PRESETS:
            known = ", ".join(PRESETS)
            raise ValueError(
                f"film.preset must be one of {known}, got {name!r}{nearest(str(name), PRESETS)}"
            )
        names = [field.name for field in dataclasses.fields(cls)]
        for key in overrides:
            if key not in names:
                raise ValueError(
                    f"film.{key} is no parameter of the film{nearest(key, names)}; "
                    f"known are {', '.join(names)}"
                )
        return _make(cls, {**PRESETS[name], **overrides})

    @property
    def length(self) -> float:
        """Length of the domain [L]."""
        return self.L0 + (self.n_jets + 2) * self.jet_spacing

    @property
    def n_nodes(self) -> int:
        """Number of nodes; node i is at x = i dx."""
        return round(self.length / self.dx)

    @property
    def n_steps(self) -> int:
        """Number of numerical steps in an action."""
        return round(self.dt_action / self.dt)

    @property
    def n_ramp_steps(self) -> int:
        """Number of numerical steps over which a jet follows a new action."""
        return round(self.dt_ramp / self.dt)

    @property
    def episode_steps(self) -> int:
        """Number of actions in an episode."""
        return round(self.episode_time / self.dt_action)

    @property
    def n_obs_per_jet(self) -> int:
        """Number of observed values per jet."""
        return self.n_obs_upstream + round(self.l_obs_downstream / self.obs_spacing)

    @property
    def n_obs_upstream(self) -> int:
        """Number of those that stand upstream of the jet."""
        return round(self.l_obs / self.obs_spacing)

    @property
    def jet_positions(self) -> tuple[float, ...]:
        """Centres of the jets [L]."""
        return tuple(self.first_jet + j * self.jet_spacing for j in range(self.n_jets))


PRESETS: Final[Mapping[str, Mapping[str, Number]]] = {
    # The text of Viquerat & Hachem (2023).
    "paper": {},
    # Their published code of the same time. Its reward is a sum divided by a number of points and
    # multiplied by dx: 0.2 times the mean.
    "beacon": {"dx": 0.2, "dt": 0.001, "dt_ramp": 0.02, "jet_sign": -1, "reward_scale": 0.2},
}


def _make(cls: type[FilmParams], values: Mapping[str, Number]) -> FilmParams:
    # The types are checked value by value in __post_init__: overrides come from command lines.
    return cls(**values)  # type: ignore[arg-type]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the hint "; did you mean ...?" naming the nearest of names, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_types(film: FilmParams) -> None:
    for field in dataclasses.fields(film):
        value: object = getattr(film, field.name)
        whole = field.type == "int"
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            wanted = "a whole number" if whole else "a number"
            raise ValueError(
                f"film.{field.name} must be {wanted}, got {value!r} of type {type(value).__name__}"
            )
        # NumPy's numbers, and whole ones given for a length: one type, so equal films hash alike.
        plain = int(value) if isinstance(value, Integral) else float(value)
        if not math.isfinite(plain):
            raise ValueError(f"film.{field.name} must be finite, got {plain}")
        object.__setattr__(film, field.name, plain if whole else float(plain))


def _check_sizes(film: FilmParams) -> None:
    """Refuse numbers that would fill any memory, take for ever or leave the range of floats."""
    for field in dataclasses.fields(film):
        value, largest = getattr(film, field.name), LARGEST.get(field.name, 1e9)
        if abs(value) > largest:
            raise ValueError(f"film.{field.name} must be at most {largest:g}, got {value:g}")
        if field.name in POSITIVE and 0 < value < SMALLEST:
            raise ValueError(f"film.{field.name} must be at least {SMALLEST:g}, got {value:g}")


def _check_ranges(film: FilmParams) -> None:
    for name in POSITIVE:
        if getattr(film, name) <= 0:
            raise ValueError(f"film.{name} must be positive, got {getattr(film, name)}")
    for name in NOT_NEGATIVE:
        if getattr(film, name) < 0:
            raise ValueError(f"film.{name} must not be negative, got {getattr(film, name)}")
    if film.inlet_noise >= 1.0:
        raise ValueError(
            f"film.inlet_noise must be below the film's height 1, got {film.inlet_noise}"
        )
    if film.jet_sign not in (-1, 1):
        raise ValueError(f"film.jet_sign must be -1 or 1, got {film.jet_sign}")
    if film.h_max <= 1.0 + film.inlet_noise:
        raise ValueError(
            f"film.h_max must be above the flat film's height 1 and its noise, got {film.h_max}"
        )
    if film.q_max <= 1.0:
        raise ValueError(f"film.q_max must be above the flat film's flow rate 1, got {film.q_max}")
    if film.dt_ramp > film.dt_action:
        raise ValueError(
            f"film.dt_ramp must not exceed film.dt_action = {film.dt_action}, got {film.dt_ramp}"
        )


def _check_multiples(film: FilmParams) -> None:
    for whole_name, part_name in MULTIPLES:
        whole, part = getattr(film, whole_name), getattr(film, part_name)
        count = max(round(whole / part), 1)
        if abs(whole - count * part) > 1e-9 * max(whole, part) and whole != 0.0:
            raise ValueError(
                f"film.{whole_name} must be a whole multiple of film.{part_name} = {part:g}, got "
                f"{whole:g}; take {count * part:g}, or film.{part_name} = {whole / count:.9g}"
            )


def _check_jets(film: FilmParams) -> None:
    if film.n_nodes < MIN_NODES:
        raise ValueError(
            f"film.L0 must be at least {film.L0 + MIN_NODES * film.dx - film.length:g}, so that "
            f"the film has {MIN_NODES} nodes, got {film.L0:g}"
        )
    half = 0.5 * film.jet_width
    first, last = film.jet_positions[0], film.jet_positions[-1]
    if film.jet_width > film.jet_spacing and film.n_jets > 1:
        raise ValueError(
            f"film.jet_width must not exceed film.jet_spacing = {film.jet_spacing:g}, or the jets "
            f"overlap, got {film.jet_width:g}"
        )
    upstream = max(half + film.dx, film.l_obs)
    if first < upstream:
        raise ValueError(
            f"film.first_jet must be at least {upstream:g}, or the jet or its observation lies "
            f"outside the domain, got {first:g}"
        )
    downstream = film.length - max(half + 2.0 * film.dx, film.l_rwd, film.l_obs_downstream)
    if last > downstream:
        raise ValueError(
            f"film.first_jet must be at most {downstream - (last - first):g}, or the last of "
            f"{film.n_jets} jets (at {last:g}), its reward or its observation lies outside the "
            f"domain of length {film.length:g}, got {first:g}"
        )


def _check_stability(film: FilmParams) -> None:
    if step_growth(film.dx, film.dt, film.delta) <= allowed_growth(film.delta):
        return
    largest = largest_stable_dt(film.dx, film.delta)
    if largest > 0.0:
        raise ValueError(
            f"film.dt must be at most {largest:.3g}, the largest stable time step for film.dx = "
            f"{film.dx:g} and film.delta = {film.delta:g}, got {film.dt:g}"
        )
    raise ValueError(
        f"film.dx must be at least {smallest_stable_dx(film.delta):.3g} for film.delta = "
        f"{film.delta:g}: on a finer grid waves of the grid's own grow at any film.dt, "
        f"got {film.dx:g}"
    )
