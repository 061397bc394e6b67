"""Asks the CUDA driver of this machine about itself: for ``aot doctor`` and the word ``native``.

In: nothing. Out: Driver, with its devices; a machine without one is described, not an error.
No context is made.

>>> ask().found   # doctest: +SKIP
True
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

LIBRARY = "libcuda.so.1"
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


@dataclass(frozen=True)
class Device:
    """One visible GPU."""

    index: int
    name: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Driver:
    """What the driver says."""

    found: bool
    cuda: tuple[int, int] = (0, 0)
    """Newest CUDA version it supports."""
    devices: tuple[Device, ...] = ()
    problem: str = ""
    """Why it cannot be used; empty when it can."""


def ask() -> Driver:
    """The driver and its devices."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return Driver(found=False, problem=f"{LIBRARY} cannot be opened: {error}")
    number = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    cuda = (number.value // 1000, number.value % 1000 // 10)
    code = library.cuInit(0)
    if code:
        return Driver(found=True, cuda=cuda, problem=f"cuInit failed with CUresult {code}")
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    return Driver(found=True, cuda=cuda, devices=tuple(_device(library, index) for index in range(count.value)))


def capabilities() -> tuple[tuple[int, int], ...]:
    """Compute capabilities of the visible devices, in their order; empty without a usable driver."""
    return tuple(device.capability for device in ask().devices)


def _device(library: ctypes.CDLL, index: int) -> Device:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    library.cuDeviceGet(ctypes.byref(handle), index)
    library.cuDeviceGetName(name, len(name), handle)
    capability = (_attribute(library, COMPUTE_MAJOR, handle), _attribute(library, COMPUTE_MINOR, handle))
    return Device(index, name.value.decode("utf-8", "replace"), capability)


def _attribute(library: ctypes.CDLL, which: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return value.value
