"""Arrays in GPU memory without a framework: the driver's own calls and DLPack.

In: numpy arrays. Out: DeviceCopy, which generated packages take as any array with ``__dlpack__``; and back again.

>>> gpu = Gpu(0); array = gpu.to_device(numpy.ones(3, "f4"))                      # doctest: +SKIP
>>> gpu.to_host(array, numpy.dtype("f4"))                                        # doctest: +SKIP
array([1., 1., 1.], dtype=float32)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from aot import driver, dtype
from aot.errors import AotError

Array = np.ndarray[Any, Any]
CUDA = 2
"""DLPack's device type."""
CODES = {
    "INT": 0, "UINT": 1, "FLOAT": 2, "BFLOAT": 4, "COMPLEX": 5, "BOOL": 6, "F8E3M4": 7, "F8E4M3": 8, "F8E4M3B11FNUZ": 9,
    "F8E4M3FN": 10, "F8E4M3FNUZ": 11, "F8E5M2": 12, "F8E5M2FNUZ": 13, "F8E8M0FNU": 14,
}  # fmt: skip
"""DLPack's codes by ``aot.dtype``'s kinds."""


class GpuError(AotError):
    """A call of the driver failed; after a wild kernel all of them do."""


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_NAME = b"dltensor"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class DeviceCopy:
    """GPU memory that lives as long as this object."""

    def __init__(self, gpu: Gpu, mlir: str, host: Array) -> None:
        self.shape, self.mlir, self.nbytes = host.shape, mlir, host.nbytes
        self._gpu = gpu
        self.address = gpu.allocate(host.nbytes)
        self._extents = (ctypes.c_int64 * max(1, len(host.shape)))(*host.shape)
        row = dtype.of(mlir)
        kind, rank = CODES[row.kind], len(host.shape)
        self._managed = _Managed(
            _Tensor(self.address, CUDA, gpu.device, rank, kind, row.bits, 1, self._extents, None, 0)
        )
        gpu.write(self.address, host)

    def __dlpack__(self, **request: Any) -> Any:
        return _new_capsule(ctypes.addressof(self._managed), _NAME, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._gpu.device

    def __del__(self) -> None:
        self._gpu.free(self.address)


class Gpu:
    """One device through the driver, in its primary context."""

    def __init__(self, device: int) -> None:
        self.device = device
        self._library = ctypes.CDLL(driver.LIBRARY)
        self._context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address: int) -> None:
        """Also after a kernel has broken the context, when every call fails: nothing is left to free then."""
        self._library.cuMemFree_v2(ctypes.c_uint64(address))

    def write(self, address: int, host: Array) -> None:
        """Copies an array, row-major, to the address, and waits for it."""
        data = np.ascontiguousarray(host)
        if data.nbytes:
            self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), _at(data), ctypes.c_size_t(data.nbytes), None)
            self.synchronize()

    def synchronize(self) -> None:
        """Waits for everything in the context, on whatever stream."""
        self._call("cuCtxSynchronize")

    def copy(self, to: int, source: int, size: int) -> None:
        """Device to device; does not wait."""
        self._call("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), None)

    def to_device(self, host: Array, mlir: str) -> DeviceCopy:
        """A copy of an array, whose elements have the type that MLIR spells so."""
        return DeviceCopy(self, mlir, host)

    def to_host(self, array: Any, kind: np.dtype[Any]) -> Array:
        """Anything with ``__dlpack__`` that is row-major, after all work is done."""
        self.synchronize()
        capsule = array.__dlpack__(stream=-1) if not isinstance(array, DeviceCopy) else array.__dlpack__()
        tensor = ctypes.cast(_pointer_of(capsule, _NAME), ctypes.POINTER(_Managed)).contents.tensor
        shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
        host = np.empty(shape, kind)
        if host.nbytes:
            address = ctypes.c_uint64((tensor.data or 0) + tensor.byte_offset)
            self._call("cuMemcpyDtoHAsync_v2", _at(host), address, ctypes.c_size_t(host.nbytes), None)
            self.synchronize()
        return host

    def _call(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        code = function(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise GpuError(f"{name} failed: {(text.value or b'unknown error').decode()}")


def _at(data: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(data.ctypes.data)
