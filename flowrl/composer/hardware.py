"""Describe a machine: its devices and the links between them.

A hardware file, units in the keys; the first CPU is the host, the order is that of the file:

    [[devices]]                       # or a table [devices.gpu0] without name
    name = "gpu0"
    kind = "cuda"                     # cpu, cuda, sycl or fpga
    memory_bytes = 40_000_000_000
    idle_power_w = 50.0               # optional; both are needed to compose for power
    busy_power_w = 400.0

    [[links]]
    between = ["cpu", "gpu0"]
    latency_s = 10e-6
    bandwidth_bytes_per_s = 25e9
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any, Self

from flowrl.composer.costs import Origin
from flowrl.composer.tables import check_names, checked, read_tables, table
from flowrl.config import ConfigError
from flowrl.config.kinds import Choice, Option, Real, Switch, Text, Whole
from flowrl.config.names import shown, suggestion

_OPTION = "--hardware"
# Bounds of what is given in watts, seconds, hertz and bytes/s: no product of theirs overflows.
_LEAST, _MOST = 1e-30, 1e30
_BITS_PER_M20K, _BITS_PER_MLAB = 20480, 640  # blocks of on-chip memory in Agilex FPGAs


class Kind(StrEnum):
    """Kinds of device."""

    CPU = "cpu"
    CUDA = "cuda"
    SYCL = "sycl"
    FPGA = "fpga"


@dataclass(frozen=True)
class _Count(Whole):
    """A whole number, which a file may write as 16e9."""

    def convert(self, value: object) -> object:
        return super().convert(
            int(value) if isinstance(value, float) and value.is_integer() else value
        )


def _count(doc: str) -> dict[str, Option]:
    return {"option": _Count(doc, low=1, high=2**60)}


def _above(doc: str) -> Real:
    return Real(doc, low=_LEAST, high=_MOST, above=True)


def _from_0(doc: str) -> Real:
    return Real(doc, high=_MOST)


def _above_0(doc: str) -> dict[str, Option]:
    return {"option": _above(doc)}


@dataclass(frozen=True)
class Device:
    """One device; None is unknown."""

    name: str = field(metadata={"option": Text("name, each once")})
    kind: Kind = field(metadata={"option": Choice("kind of device", choices=tuple(Kind))})
    memory_bytes: int = field(metadata=_count("memory in which rows can be stored [bytes]"))
    cores: int | None = field(default=None, metadata=_count("cores that may be used"))
    simd: str | None = field(default=None, metadata={"option": Text("instruction set")})
    idle_power_w: float | None = field(default=None, metadata={"option": _from_0("idle power [W]")})
    busy_power_w: float | None = field(default=None, metadata=_above_0("power at work [W]"))
    clock_hz: float | None = field(default=None, metadata=_above_0("clock of an FPGA [Hz]"))
    n_dsps: int | None = field(default=None, metadata=_count("multipliers of an FPGA"))
    n_m20k_blocks: int | None = field(default=None, metadata=_count("memories of 20480 bits"))
    n_mlabs: int | None = field(default=None, metadata=_count("memories of 640 bits"))
    memory_latency_s: float | None = field(
        default=None, metadata={"option": _from_0("latency of an FPGA's own memory [s]")}
    )
    memory_bandwidth_bytes_per_s: float | None = field(
        default=None, metadata=_above_0("bandwidth of an FPGA's own memory [bytes/s]")
    )
    emulated: bool = field(
        default=False, metadata={"option": Switch("an FPGA that a processor emulates")}
    )
    backend_device: str = field(  # as the `device` of that backend's constructors
        default="", metadata={"option": Text("which of its accel backend's devices this is")}
    )

    @property
    def backend(self) -> str:
        """Return the accel backend that runs this device: "cpu", "cuda" or "sycl"."""
        return "sycl" if self.kind is Kind.FPGA else str(self.kind)

    @property
    def sram_bits(self) -> int:
        """Return the on-chip memory of an FPGA [bits]."""
        return (self.n_m20k_blocks or 0) * _BITS_PER_M20K + (self.n_mlabs or 0) * _BITS_PER_MLAB

    @property
    def is_modelled_fpga(self) -> bool:
        """Tell whether this is an FPGA that nothing here can run."""
        return self.kind is Kind.FPGA and not self.emulated


@dataclass(frozen=True)
class Link:
    """A way between two devices, equal in both directions."""

    between: tuple[str, str]
    latency_s: float
    bandwidth_bytes_per_s: float
    origin: Origin = Origin.GIVEN

    def seconds(self, n_bytes: float) -> float:
        """Return the time of one transfer [s]."""
        return self.latency_s + n_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True)
class HardwareSpec:
    """The devices of one machine, in order, and the links between them."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a hardware file; ConfigError in one line for what is wrong in it."""
        return cls.from_tables(read_tables(Path(path), _OPTION), str(path))

    @classmethod
    def from_tables(cls, tables: dict[str, Any], source: str) -> Self:
        """Return the machine that TOML values describe; `source` begins error messages."""
        check_names(source, tables, ("devices", "links"))
        devices = _read_devices(tables.get("devices"), source)
        links = _read_links(tables.get("links", []), source)
        _check(devices, links, source)
        return cls(devices, links)

    @classmethod
    def detect(cls) -> Self:
        """Find this machine's devices and measure their links."""
        from flowrl.composer.detection import find_devices
        from flowrl.composer.links import measure_link

        devices = find_devices()
        links = [measure_link(devices[0], device) for device in devices[1:]]
        return cls(devices, tuple(links))

    def to_tables(self) -> dict[str, Any]:
        """Return what `from_tables` reads."""
        return {
            "devices": [_device_table(device) for device in self.devices],
            "links": [_link_table(link) for link in self.links],
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices, in order."""
        return tuple(device.name for device in self.devices)

    @property
    def host(self) -> Device:
        """Return the first CPU: it runs the actors and relays what has no link."""
        return next(device for device in self.devices if device.kind is Kind.CPU)

    def device(self, name: str) -> Device:
        """Return the device of this name."""
        return self.devices[self.names.index(name)]

    def route(self, a: str, b: str) -> Link:
        """Return the link of two devices, or what it amounts to through the host.

        There, latencies and inverse bandwidths add. Within a device nothing is transferred.
        """
        if a == b:
            return Link((a, b), 0.0, inf)
        direct = self._link(a, b)
        if direct is not None:
            return direct
        host = self.host.name
        first, second = self._link(a, host), self._link(host, b)
        if first is None or second is None:
            raise ValueError(f"no route between {a} and {b}")
        return _in_series(a, b, first, second)

    def transfer_seconds(self, n_bytes: float, a: str, b: str) -> float:
        """Return the time of one transfer between two devices; 0 within one [s]."""
        return self.route(a, b).seconds(n_bytes)

    def _link(self, a: str, b: str) -> Link | None:
        return next((link for link in self.links if set(link.between) == {a, b}), None)


def _in_series(a: str, b: str, first: Link, second: Link) -> Link:
    inverse = 1 / first.bandwidth_bytes_per_s + 1 / second.bandwidth_bytes_per_s
    # A sum of a measured and a given number is not measured.
    origin = first.origin if first.origin == second.origin else Origin.GIVEN
    return Link((a, b), first.latency_s + second.latency_s, 1 / inverse, origin)


_DEVICE = {item.name: item.metadata["option"] for item in dataclasses.fields(Device)}
_LINK = {
    "latency_s": _from_0("latency [s]"),
    "bandwidth_bytes_per_s": _above("bandwidth [bytes/s]"),
    "origin": Choice("origin of the numbers", choices=(Origin.GIVEN, Origin.MEASURED)),
}


def _read_devices(values: object, source: str) -> tuple[Device, ...]:
    """Read [[devices]] with names, or tables [devices.NAME]."""
    if isinstance(values, dict):
        values = [
            {"name": name, **table(f"{source}: devices.{name}", value)}
            for name, value in values.items()
        ]
    if not isinstance(values, list) or not values:
        raise ConfigError(
            f"{source}: devices must be one [[devices]] table or more, got "
            f"{'nothing' if values in (None, []) else shown(values)}; begin with a CPU"
        )
    return tuple(_read_device(value, f"{source}: devices", i) for i, value in enumerate(values))


def _read_device(value: object, where: str, index: int) -> Device:
    values = table(f"{where}[{index}]", value)
    name = values.get("name")
    where = f"{where}.{name}" if isinstance(name, str) and name.isprintable() else (
        f"{where}[{index}]")  # fmt: skip
    if values.get("kind") == "gpu":  # What most people call it.
        values = {**values, "kind": Kind.CUDA}
    found = checked(where, values, _DEVICE, required=("name", "kind", "memory_bytes"))
    device = Device(**{**found, "kind": Kind(found["kind"])})
    _check_power(device, where)
    return device


def _check_power(device: Device, where: str) -> None:
    idle, busy = device.idle_power_w, device.busy_power_w
    if (idle is None) != (busy is None):
        missing = "idle_power_w" if idle is None else "busy_power_w"
        raise ConfigError(f"{where}.{missing} must be given with the other, got nothing; add it")
    if idle is not None and busy is not None and busy < idle:
        raise ConfigError(
            f"{where}.busy_power_w must be at least idle_power_w ({idle:g}), got {busy:g}"
            "; exchange them"
        )


def _read_links(values: object, source: str) -> tuple[Link, ...]:
    if not isinstance(values, list):
        raise ConfigError(
            f"{source}: links must be [[links]] tables, got {shown(values)}; "
            'write [[links]] and between = ["cpu", "gpu0"]'
        )
    return tuple(_read_link(value, f"{source}: links[{i}]") for i, value in enumerate(values))


def _read_link(value: object, where: str) -> Link:
    values = dict(table(where, value))
    between = values.pop("between", None)
    is_pair = isinstance(between, list) and len(between) == 2
    if not is_pair or not all(isinstance(name, str) for name in between or ()):
        raise ConfigError(
            f"{where}.between must be the names of two devices, got "
            f'{"nothing" if between is None else shown(between)}; write ["cpu", "gpu0"]'
        )
    found = checked(where, values, _LINK, required=("latency_s", "bandwidth_bytes_per_s"))
    origin = Origin(found.get("origin", Origin.GIVEN))
    return Link(tuple(between or ()), found["latency_s"], found["bandwidth_bytes_per_s"], origin)


def _check(devices: tuple[Device, ...], links: tuple[Link, ...], source: str) -> None:
    """Check devices and links against each other."""
    names = [device.name for device in devices]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{source}: devices must have names of their own, got {shown(name)} "
                f"{names.count(name)} times; rename one"
            )
    _check_links(names, links, source)
    host = next((device.name for device in devices if device.kind is Kind.CPU), None)
    if host is None:
        raise ConfigError(
            f"{source}: devices must include a CPU, which runs the actors, got "
            f'{", ".join(map(shown, names))}; add one of kind = "cpu"'
        )
    for name in names:
        if name != host and not any(set(link.between) == {name, host} for link in links):
            raise ConfigError(
                f"{source}: links must join {shown(name)} to the host {shown(host)}, got none; "
                f"add [[links]] between them"
            )


def _check_links(names: list[str], links: tuple[Link, ...], source: str) -> None:
    seen: set[frozenset[str]] = set()
    for i, link in enumerate(links):
        where = f"{source}: links[{i}].between"
        for name in link.between:
            if name not in names:
                close = suggestion(name, names, f"the devices are {', '.join(names)}")
                raise ConfigError(f"{where} must name devices, got {shown(name)}{close}")
        ends = frozenset(link.between)
        if len(ends) < 2 or ends in seen:
            what = "a second link of the same two" if ends in seen else "the same device twice"
            raise ConfigError(
                f"{where} must be two devices that no other link joins, got {what}, "
                f"{shown(list(link.between))}; remove it"
            )
        seen.add(ends)


def _device_table(device: Device) -> dict[str, Any]:
    values = {item.name: getattr(device, item.name) for item in dataclasses.fields(device)}
    usual = {item.name: item.default for item in dataclasses.fields(device)}
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in values.items()
        if value != usual[name]
    }


def _link_table(link: Link) -> dict[str, Any]:
    return {
        "between": list(link.between),
        "latency_s": link.latency_s,
        "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
        "origin": str(link.origin),
    }
