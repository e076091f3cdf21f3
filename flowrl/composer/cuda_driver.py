"""Ask the CUDA driver what composing needs: memory of a device, and copies to time."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

_LIBRARY = "libcuda.so.1"


class CudaDriver:
    """The driver's C interface; RuntimeError where a call fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        self._call("cuInit", 0)

    def memory_bytes(self, number: int) -> int:
        """Return the memory of a device [bytes]."""
        total = c_size_t()
        self._call("cuDeviceTotalMem_v2", byref(total), self._device(number))
        return total.value

    @contextmanager
    def buffers(self, number: int, n_bytes: int) -> Iterator[tuple[c_void_p, c_uint64]]:
        """Give pinned memory of the host and memory of a device, for `copy_to_device`."""
        device, context = self._device(number), c_void_p()
        host, there = c_void_p(), c_uint64()
        self._call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._call("cuCtxPushCurrent_v2", context)
        try:
            self._call("cuMemAllocHost_v2", byref(host), c_size_t(n_bytes))
            self._call("cuMemAlloc_v2", byref(there), c_size_t(n_bytes))
            yield host, there
        finally:
            if host:
                self._call("cuMemFreeHost", host)
            if there:
                self._call("cuMemFree_v2", there)
            self._call("cuCtxPopCurrent_v2", byref(c_void_p()))
            self._call("cuDevicePrimaryCtxRelease_v2", device)

    def copy_to_device(self, there: c_uint64, host: c_void_p, n_bytes: int) -> None:
        """Copy, and wait until all bytes have arrived."""
        self._call("cuMemcpyHtoD_v2", there, host, c_size_t(n_bytes))
        self._call("cuCtxSynchronize")

    def _device(self, number: int) -> c_int:
        device = c_int()
        self._call("cuDeviceGet", byref(device), number)
        return device

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"CUDA driver: {name} failed with status {status}")
