"""Measure latency and bandwidth between the host and a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from flowrl.composer.costs import Origin
from flowrl.composer.cuda_driver import CudaDriver
from flowrl.composer.hardware import Device, Kind, Link

_SIZES = tuple(4**k for k in range(3, 13))  # [bytes] 64 to 16 Mi
_REPEATS = 15  # of which the median counts


def measure_link(host: Device, device: Device) -> Link:
    """Time copies of small and large arrays from the host to a device.

    What SYCL has here computes in the host's memory, so there a copy is one within it.
    """
    cuda = device.kind is Kind.CUDA
    seconds = _cuda_copies(int(device.backend_device)) if cuda else _host_copies()
    latency, bandwidth = fit(_SIZES, seconds)
    return Link((host.name, device.name), latency, bandwidth, Origin.MEASURED)


def fit(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return latency [s] and bandwidth [bytes/s] of t(n) = latency + n / bandwidth.

    Least squares of the relative error: small copies say as much as large ones. The least latency
    is 0, and the least inverse bandwidth that of the largest copy without a latency.
    """
    n, t = np.asarray(sizes, float), np.asarray(seconds, float)
    scale = n.max()  # of the second unknown, so that both columns are of one size
    columns = np.stack([1 / t, n / scale / t], axis=1)
    latency, slope = np.linalg.lstsq(columns, np.ones(len(n)), rcond=None)[0]
    inverse = slope / scale if slope > 0 else t[-1] / n[-1]
    return max(float(latency), 0.0), float(1 / inverse)


def _host_copies() -> list[float]:
    source = np.ones(max(_SIZES), np.uint8)
    target = np.empty_like(source)
    return [_median_seconds(partial(np.copyto, target[:n], source[:n])) for n in _SIZES]


def _cuda_copies(number: int) -> list[float]:
    driver = CudaDriver()
    with driver.buffers(number, max(_SIZES)) as (host, there):
        return [_median_seconds(partial(driver.copy_to_device, there, host, n)) for n in _SIZES]


def _median_seconds(copy: Callable[[], None]) -> float:
    copy()  # touches the memory
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        copy()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
