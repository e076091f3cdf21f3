"""Device code: compiled once for each set of options, then kept.

Compiling SYCL source to SPIR-V takes 3 to 9 s of processor time, making a device's own code of that
1 to 7 s, loading the latter 0.02 s: both are kept. A file is named by a hash of all that it depends
on, and begins with a hash of what it holds: a torn or foreign one is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from accel.sycl import runtime

if TYPE_CHECKING:
    from accel._sycl import Device, Program

_KERNELS = Path(__file__).parent / "kernels"
_INCLUDE = Path(__file__).parent.parent / "include"
_INCLUDED = re.compile(r'^#include "(accel/[^"]+)"$', re.MULTILINE)
# Devices lack libraries of the standard's mathematics; SPIR-V that is loaded again must keep every
# argument, because the record of those left out stays behind in the compiler.
_OPTIONS = (
    "-fno-sycl-device-lib=all",
    "-fno-sycl-dead-args-optimization",
    "-fsycl-device-code-split=off",
)
_MAGIC = b"accel device code 1\n"


@dataclass(frozen=True)
class Source:
    """Kernels to compile: files in the order of their inclusion, definitions, and code behind."""

    files: tuple[str, ...]  # of the folder kernels
    definitions: tuple[tuple[str, int | str], ...]
    code: str  # what depends on sizes: one line a kernel
    kernel: str  # name of one of the kernels

    def text(self) -> str:
        """Return the whole translation unit."""
        lines = [f"#define {name} {value}" for name, value in self.definitions]
        seen: set[str] = set()
        return "\n".join([*lines, *(_read(_KERNELS / f, seen) for f in self.files), self.code, ""])


@cache
def device(kind: str) -> Device:
    """Open a device, once a process."""
    runtime.load()
    from accel._sycl import Device

    return Device(kind)


@cache
def program(kind: str, source: Source) -> Program:
    """Return the program of a source for a device, made once a process."""
    opened, text, directory = device(kind), source.text(), cache_directory()
    from accel._sycl import Program

    def compile_source() -> bytes:
        return opened.compile(text, list(_OPTIONS), source.kernel)

    def build() -> bytes:
        # SPIR-V is the same for every device.
        spirv = kept(directory, "spirv", (text, *_OPTIONS, runtime.versions()), compile_source)
        return Program(opened, spirv, False).binary()

    parts = (text, *_OPTIONS, runtime.versions(), kind, opened.driver, _processor())
    return Program(opened, kept(directory, kind, parts, build), True)


@cache
def _processor() -> str:
    """Name the processor that the devices' code is for: machines may share a cache directory."""
    from accel._sycl import list_devices

    names = dict(list_devices())
    return names.get("cpu", "") + platform.machine()


def cache_directory() -> Path:
    """Return where SPIR-V is kept: ACCEL_CACHE, or the platform's cache directory."""
    chosen = os.environ.get("ACCEL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "accel"
    except RuntimeError:  # an account without a home: nowhere, so that nothing is kept
        return Path(os.devnull) / "accel"


def kept(directory: Path, kind: str, parts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """Return what was made of the parts before, or make it now and keep it in the directory."""
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    path = directory / f"sycl-{digest}.{kind}"
    found = _load(path)
    if found is not None:
        return found
    with _turn(path):
        found = _load(path)  # another process may have made it meanwhile
        if found is None:
            found = make()
            _store(path, found)
        return found


def _load(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + hashlib.sha256().digest_size
    code = content[head:]
    return code if content[:head] == _MAGIC + hashlib.sha256(code).digest() else None


def _store(path: Path, code: bytes) -> None:
    """Write a file whole or not at all; without a directory to write to, do without."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(code).digest() + code)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Let one process compile while the others wait; where files can't be locked, all compile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(path.name + ".lock").open("wb")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path, seen: set[str]) -> str:
    """Return a file with our headers in the place of their inclusion, each once.

    So the text is all that the compiled code depends on, and no path gets into it.
    """

    def include(found: re.Match[str]) -> str:
        if found[1] in seen:
            return ""
        seen.add(found[1])
        return _read(_INCLUDE / found[1], seen)

    text = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
    return _INCLUDED.sub(include, text)
