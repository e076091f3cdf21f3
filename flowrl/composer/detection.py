"""Find the devices of this machine."""

from __future__ import annotations

import os

from accel import variants
from accel.backends import BackendError, load
from flowrl.composer.cuda_driver import CudaDriver
from flowrl.composer.hardware import Device, Kind


def n_cores() -> int:
    """Count the cores that this process may use, of however many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_host() -> Device:
    """Return the processor."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Device("cpu", Kind.CPU, memory_bytes, cores=n_cores(), simd=variants()[0])


def find_devices() -> tuple[Device, ...]:
    """Return the host, the CUDA devices, and the processor and FPGA emulator as SYCL has them."""
    host = find_host()
    return (host, *_cuda_devices(), *_sycl_devices(host))


def absence(device: Device) -> str | None:
    """Return in a line why a device can't be used here, None where it can."""
    try:
        names = load(device.backend).devices()
    except BackendError as error:
        return " ".join(str(error).split())
    is_named = device.backend == "sycl" and device.backend_device
    if not is_named or device.backend_device in names:
        return None
    return f"there are only {', '.join(names)}"


def _device_names(backend: str) -> list[str]:
    try:
        return load(backend).devices()
    except BackendError:
        return []


def _cuda_devices() -> list[Device]:
    names = _device_names("cuda")
    if not names:
        return []
    driver = CudaDriver()
    return [
        Device(f"gpu{i}", Kind.CUDA, driver.memory_bytes(i), backend_device=str(i))
        for i in range(len(names))
    ]


def _sycl_devices(host: Device) -> list[Device]:
    """Return devices that compute on the host's cores, in the host's memory."""
    found = _device_names("sycl")
    devices = []
    if "cpu" in found:
        devices.append(
            Device("sycl_cpu", Kind.SYCL, host.memory_bytes, host.cores, backend_device="cpu")
        )
    if "fpga_emulator" in found:
        emulator = "fpga_emulator"
        devices.append(
            Device(emulator, Kind.FPGA, host.memory_bytes, emulated=True, backend_device=emulator)
        )
    return devices
