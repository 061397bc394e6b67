"""Arrays for the extension's tests: one class per way of handing an array over, all on the fake driver's memory.

In: numpy-like shapes and types. Out: objects with the C exchange API, ``__dlpack__`` or ``__cuda_array_interface__``.
Runs in a process that finds the fake libcuda; nothing here knows the tool.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_log.restype = ctypes.c_char_p
cuda.fake_count.restype = ctypes.c_long
cuda.fake_live.restype = ctypes.c_long
cuda.fake_bad_frees.restype = ctypes.c_long
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
CUDA, CPU = 2, 1


class Device(ctypes.Structure):
    _fields_: ClassVar = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DType(ctypes.Structure):
    _fields_: ClassVar = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("dtype", DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class ManagedOld(ctypes.Structure):
    _fields_: ClassVar = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
)
FROM_OBJECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
TO_OBJECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
TENSOR_FROM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Tensor))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class Exchange(ctypes.Structure):
    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("managed_from_object", FROM_OBJECT),
        ("object_from_managed", TO_OBJECT),
        ("tensor_from_object", TENSOR_FROM),
        ("current_stream", STREAM),
    ]


def check(code: int) -> None:
    assert code == 0, f"the fake driver says {code}"


def start(device: int = 0) -> None:
    """Makes a context current, as a framework would."""
    check(cuda.cuInit(0))
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))


def new_stream() -> int:
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    assert stream.value
    return stream.value


def log() -> list[str]:
    """Driver calls since the last look, without the queries."""
    lines = cuda.fake_log().decode().splitlines()
    cuda.fake_clear_log()
    quiet = ("cuCtxGet", "cuPointer", "cuStreamGetCtx", "cuStreamIsCapturing", "cuDevice", "cuGetError", "cuThread")
    return [line for line in lines if not line.startswith(quiet)]


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """What a framework does around its allocations: others may be capturing."""
    mode = ctypes.c_int(2)
    cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    yield
    cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


class Memory:
    """Device memory that frees itself."""

    def __init__(self, size: int) -> None:
        address = ctypes.c_uint64()
        with relaxed():
            check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(size, 1))))
        self.address = address.value

    def __del__(self) -> None:
        with relaxed():
            cuda.cuMemFree_v2(ctypes.c_uint64(self.address))


class Array:
    """An array without any protocol: what the classes below have in common."""

    def __init__(self, content: Any, dtype: Any = None, *, code: int | None = None, device: int = 0) -> None:
        host = np.array(content, dtype or (content.dtype if isinstance(content, np.ndarray) else "float32"))
        self.memory = Memory(host.nbytes)
        self.host_dtype, self.shape = host.dtype, host.shape
        self.strides = tuple(s // host.itemsize for s in host.strides)
        self.offset, self.device, self.readonly = 0, (CUDA, device), False
        self.code = CODES[host.dtype.kind] if code is None else code
        if host.size:
            self.numpy()[...] = host

    @classmethod
    def like(cls, other: Array, **changes: Any) -> Any:
        """Another array on the same memory."""
        made = cls.__new__(cls)
        made.__dict__.update({**other.__dict__, **changes})
        return made

    @property
    def address(self) -> int:
        return self.memory.address + self.offset * self.host_dtype.itemsize

    def numpy(self) -> Any:
        """The content, as a view of the memory."""
        size = self.host_dtype.itemsize
        reach = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        raw = (ctypes.c_char * max(reach * size, size)).from_address(self.address)
        flat = np.frombuffer(raw, self.host_dtype)
        if not math.prod(self.shape):
            return np.zeros(self.shape, self.host_dtype)
        return np.lib.stride_tricks.as_strided(flat, self.shape, [s * size for s in self.strides])

    def fill(self, tensor: Tensor) -> None:
        rank = len(self.shape)
        self.keep = ((ctypes.c_int64 * rank)(*self.shape), (ctypes.c_int64 * rank)(*self.strides))
        tensor.data, tensor.byte_offset = self.memory.address, self.offset * self.host_dtype.itemsize
        tensor.device, tensor.rank = Device(*self.device), rank
        tensor.dtype = DType(self.code, self.host_dtype.itemsize * 8, 1)
        tensor.shape = ctypes.cast(self.keep[0], ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.keep[1], ctypes.POINTER(ctypes.c_int64))


class CudaArray(Array):
    """__cuda_array_interface__ only, as numba has it."""

    extra: ClassVar[dict[str, Any]] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        size = self.host_dtype.itemsize
        dense = [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]
        strides = None if tuple(dense) == self.strides else tuple(s * size for s in self.strides)
        address = self.address if math.prod(self.shape) else 0
        return {
            "shape": self.shape,
            "typestr": self.host_dtype.str,
            "data": (address, self.readonly),
            "strides": strides,
            "version": 3,
            **self.extra,
        }


released: list[str] = []
"""What deleters were called."""


class DlpackArray(Array):
    """__dlpack__ with versioned capsules and all keywords."""

    seen: ClassVar[list[dict[str, Any]]] = []
    keywords: ClassVar[set[str]] = {"stream", "max_version", "dl_device", "copy"}
    versioned = True

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **words: Any) -> Any:
        if not set(words) <= self.keywords:
            raise TypeError("unexpected keyword")
        self.seen.append(words)
        managed = Managed(1, 0, None, None, int(self.readonly)) if self.versioned else ManagedOld()
        self.fill(managed.tensor)
        managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
        self.exported = managed
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return api.PyCapsule_New(ctypes.addressof(managed), name, ctypes.cast(_destructor, ctypes.c_void_p))


class OldDlpackArray(DlpackArray):
    """__dlpack__ as before DLPack 1.0."""

    keywords: ClassVar[set[str]] = {"stream"}
    versioned = False


@DELETER
def _deleter(address: int) -> None:
    released.append("deleter")


@DESTRUCTOR
def _destructor(capsule: int) -> None:
    released.append("capsule")


class Framework:
    """What a framework with the exchange API has besides its arrays."""

    stream = 0
    allocated: ClassVar[list[Any]] = []
    pending: ClassVar[dict[int, Any]] = {}
    error: bytes = b""
    kind: bytes = b"MemoryError"


@TENSOR_FROM
def _tensor_from(address: int, out: Any) -> int:
    ctypes.cast(address, ctypes.py_object).value.fill(out.contents)
    return 0


@STREAM
def _current_stream(kind: int, device: int, out: Any) -> int:
    out[0] = Framework.stream or None
    return 0


@ALLOCATE
def _allocate(prototype: Any, out: Any, context: int, set_error: int) -> int:
    if Framework.error:
        SET_ERROR(set_error)(context, Framework.kind, Framework.error)
        return -1
    wanted = prototype.contents
    shape = tuple(wanted.shape[i] for i in range(wanted.rank))
    kind = {value: key for key, value in CODES.items()}[wanted.dtype.code]
    made = ExchangeArray(np.zeros(shape, f"{kind}{wanted.dtype.bits // 8}"))
    managed = Managed(1, 0, None, None, 0)
    made.fill(managed.tensor)
    Framework.pending[ctypes.addressof(managed)] = (managed, made)
    out[0] = ctypes.addressof(managed)
    return 0


@TO_OBJECT
def _to_object(managed: int, out: Any) -> int:
    _, made = Framework.pending.pop(managed)
    Framework.allocated.append(made)
    api.Py_IncRef(ctypes.py_object(made))
    out[0] = id(made)
    return 0


@FROM_OBJECT
def _managed_from(address: int, out: Any) -> int:
    array = ctypes.cast(address, ctypes.py_object).value
    managed = Managed(1, 0, None, ctypes.cast(_deleter, ctypes.c_void_p).value, int(array.readonly))
    array.fill(managed.tensor)
    array.exported = managed
    out[0] = ctypes.addressof(managed)
    return 0


TABLE = Exchange(1, 3, None, _allocate, _managed_from, _to_object, _tensor_from, _current_stream)
NEWER = Exchange(2, 0, ctypes.addressof(TABLE), ALLOCATE(), FROM_OBJECT(), TO_OBJECT(), TENSOR_FROM(), STREAM())
MANAGED_ONLY = Exchange(1, 3, None, ALLOCATE(), _managed_from, TO_OBJECT(), TENSOR_FROM(), STREAM())


def capsule(table: Exchange) -> Any:
    return api.PyCapsule_New(ctypes.addressof(table), b"dlpack_exchange_api", None)


class ExchangeArray(Array):
    """The C exchange API, as torch.Tensor has it."""

    __dlpack_c_exchange_api__ = capsule(TABLE)
    conjugated, negated, asked = False, False, 0

    def is_conj(self) -> bool:
        type(self).asked += 1
        return self.conjugated

    def is_neg(self) -> bool:
        type(self).asked += 1
        return self.negated


class NewerArray(Array):
    """A table of a later major version, with the known one behind it."""

    __dlpack_c_exchange_api__ = capsule(NEWER)


class OldSpellingArray(Array):
    """The exchange API's first spelling: an int."""

    __c_dlpack_exchange_api__ = ctypes.addressof(TABLE)


class ManagedOnlyArray(Array):
    """An exchange API without borrowed tensors, allocator and stream."""

    __dlpack_c_exchange_api__ = capsule(MANAGED_ONLY)


class Stream:
    """An object with __cuda_stream__."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


class TorchStream:
    """torch's own spelling."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle
