"""Arguments and results of functions that were compiled for the CPU, as they lie in memory.

In: numpy arrays and numbers. Out: the slots of a call; later its results, copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy

from aot.model import ArrayType, Function, ScalarType

_DTYPES = {
    "i1": numpy.dtype(bool),
    "index": numpy.dtype("i8"),
    "bf16": numpy.dtype(ml_dtypes.bfloat16),
    "complex<f32>": numpy.dtype("c8"),
    "complex<f64>": numpy.dtype("c16"),
    "f8E4M3FN": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": numpy.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FNUZ": numpy.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": numpy.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": numpy.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E8M0FNU": numpy.dtype(ml_dtypes.float8_e8m0fnu),
    "f4E2M1FN": numpy.dtype(ml_dtypes.float4_e2m1fn),
}


def dtype(name: str) -> numpy.dtype[Any]:
    """The numpy type that stores elements of an MLIR type."""
    if name in _DTYPES:
        return _DTYPES[name]
    bits = int(name[1:])
    if name[0] == "i":
        return numpy.dtype(f"i{next(width for width in (1, 2, 4, 8) if bits <= 8 * width)}")
    return numpy.dtype(f"f{bits // 8}")


def slots(function: Function, arguments: Sequence[Any], place: Callable[[Any], int]) -> tuple[Any, list[Any]]:
    """Addresses of the arguments and of room for results, and what they point to; ``place`` says where an array is."""
    assert len(arguments) == len(function.args), f"{function.name} takes {len(function.args)} arguments"
    keep: list[Any] = []
    for value, argument in zip(arguments, function.args, strict=True):
        kind = dtype(argument.type.dtype)
        if isinstance(argument.type, ArrayType):
            assert value.dtype == kind, (function.name, argument, value.dtype)
            assert value.ndim == len(argument.type.shape), (function.name, argument, value.shape)
            address = place(value)
            words = [address, address, 0, *value.shape, *(s // kind.itemsize for s in value.strides)]
            keep.append((ctypes.c_int64 * len(words))(*words))
        else:
            keep.append(numpy.array([value]).astype(kind))
    keep += [numpy.zeros(1, dtype(result.type.dtype)) for result in function.results]
    addresses = [each.ctypes.data if isinstance(each, numpy.ndarray) else ctypes.addressof(each) for each in keep]
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses), keep


class _Result(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.c_int64 * 16),
    )


def results(table: tuple[ctypes.CDLL, str], function: Function, arguments: Sequence[Any], keep: list[Any]) -> list[Any]:
    """All results of a call; ``table``: a library and the name under which it has the arrays that were asked for."""
    found = (_Result * 32).in_dll(*table)
    return [_result(found[k], function, k, arguments, keep) for k in range(len(function.results))]


def _result(found: _Result, function: Function, k: int, arguments: Sequence[Any], keep: list[Any]) -> Any:
    result = function.results[k]
    if result.argument is not None:
        return arguments[result.argument]
    if isinstance(result.type, ScalarType):
        return keep[len(function.args) + k][0]
    assert found.memory, f"result {k} of {function.name} was never asked for"
    shape = tuple(found.extents[: found.rank])
    kind = dtype(result.type.dtype)
    assert found.bytes == kind.itemsize * int(numpy.prod(shape, dtype="i8")), (function.name, found.bytes, shape)
    assert len(shape) == len(result.type.shape)
    assert all(want in (None, have) for want, have in zip(result.type.shape, shape, strict=True)), shape
    return numpy.frombuffer(ctypes.string_at(found.memory, found.bytes), kind).reshape(shape).copy()
