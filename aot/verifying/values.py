"""Random arguments for a call.

In: a signature, extents, ranges, a seed. Out: numpy arrays and numbers, the same for the same input.

Floats are normal, with scalars between 0.5 and 1.5. Integers that may be positions (``i32``, ``i64``, ``index``) lie
below the smallest extent of the other arguments; narrower ones use their whole range. ``--range`` says otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot import dtype
from aot.errors import ToolMissing
from aot.verifying.options import Range
from aot.verifying.signature import Dim, Parameter, Signature

Array = np.ndarray[Any, Any]
CODES = {"f4E2M1FN": (0, 16), "f6E2M3FN": (0, 64), "f6E3M2FN": (0, 64), "f8E8M0FNU": (120, 135)}
"""Element types that are made from their codes: [low, high)."""
POSITIONS = frozenset({"i32", "i64", "si32", "si64", "ui32", "ui64", "index"})
MOST_POSITION = 100


@dataclass(frozen=True)
class Request:
    """What arguments are asked for."""

    extents: Mapping[Dim, int]
    seed: int = 0
    ranges: Mapping[str, Range] = field(default_factory=dict)
    letters: Mapping[Dim, str] = field(default_factory=dict)


def numpy_dtype(mlir: str) -> np.dtype[Any]:
    """The type of numpy, or of ml_dtypes, that holds an element."""
    name = dtype.of(mlir).numpy
    if name in np.sctypeDict:
        own: np.dtype[Any] = np.dtype(name)
        return own
    try:
        import ml_dtypes
    except ImportError:
        raise ToolMissing(
            f"numpy alone has no {name}", hint="install it with: python -m pip install ml_dtypes"
        ) from None
    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return extended


def shape_of(signature: Signature, number: int, extents: Mapping[Dim, int]) -> tuple[int, ...]:
    """The extents of one array argument."""
    shape = signature.parameters[number].shape or ()
    return tuple(extents[number, axis] if extent is None else extent for axis, extent in enumerate(shape))


def without_positions(signature: Signature, request: Request) -> str:
    """Name of an argument that may hold positions though there are none: some other array is empty, and it is not."""
    for number, parameter in enumerate(signature.parameters):
        if parameter.shape is None or parameter.dtype not in POSITIONS or parameter.name in request.ranges:
            continue
        if 0 not in shape_of(signature, number, request.extents) and not _smallest(signature, number, request.extents):
            return parameter.name
    return ""


def make(signature: Signature, request: Request) -> tuple[Any, ...]:
    """All arguments, in order."""
    key = f"{signature.full_name} {sorted(request.extents.items())} {request.seed}"
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    return tuple(_argument(signature, number, request, rng) for number in range(len(signature.parameters)))


def _argument(signature: Signature, number: int, request: Request, rng: np.random.Generator) -> Any:
    parameter = signature.parameters[number]
    if parameter.shape is None:
        return _scalar(parameter, _bounds(signature, number, request), rng)
    shape = shape_of(signature, number, request.extents)
    return _array(parameter.dtype, shape, _bounds(signature, number, request), rng)


def _bounds(signature: Signature, number: int, request: Request) -> tuple[float, float] | None:
    """The range of an argument's values; None for what its type usually holds."""
    parameter = signature.parameters[number]
    asked = request.ranges.get(parameter.name) or request.ranges.get(f"{signature.full_name}.{parameter.name}")
    if asked is not None:
        named = {signature.dim_name(dim): extent for dim, extent in request.extents.items()}
        named |= {letter: request.extents[dim] for dim, letter in request.letters.items() if dim in request.extents}
        return asked.resolved(named)
    if parameter.shape is not None and parameter.dtype in POSITIONS:
        return 0, max(1, min(_smallest(signature, number, request.extents), MOST_POSITION))
    return None


def _smallest(signature: Signature, number: int, extents: Mapping[Dim, int]) -> int:
    """The smallest extent of the other arrays: every smaller number is a position in each of them."""
    others = [n for n, other in enumerate(signature.parameters) if other.shape is not None and n != number]
    return min((extent for n in others for extent in shape_of(signature, n, extents)), default=MOST_POSITION)


def _array(mlir: str, shape: tuple[int, ...], bounds: tuple[float, float] | None, rng: np.random.Generator) -> Array:
    """An array of rank 0, too, for which NumPy's generators and operators give numbers."""
    return np.asarray(_elements(mlir, shape, bounds, rng))


def _elements(mlir: str, shape: tuple[int, ...], bounds: tuple[float, float] | None, rng: np.random.Generator) -> Any:
    kind, row = numpy_dtype(mlir), dtype.of(mlir)
    if mlir in CODES and bounds is None:
        return rng.integers(*CODES[mlir], shape).astype("u1").view(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        low, high = bounds or _whole(row, signed=kind.kind == "i")
        return rng.integers(int(low), max(int(low) + 1, int(high)), shape, dtype=np.int64).astype(kind)
    drawn = rng.standard_normal(shape) if bounds is None else rng.uniform(*bounds, shape)
    if kind.kind == "c":
        return np.asarray(drawn + 1j * rng.standard_normal(shape)).astype(kind)
    return np.asarray(drawn).astype(kind)


def _whole(row: dtype.DType, *, signed: bool) -> tuple[int, int]:
    width = min(row.width, 31)
    return (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)


def _scalar(parameter: Parameter, bounds: tuple[float, float] | None, rng: np.random.Generator) -> Any:
    kind = dtype.of(parameter.dtype).python
    if kind == "bool":
        return bool(rng.random() < 0.5)
    low, high = bounds or ((1, 4) if kind == "int" else (0.5, 1.5))
    if kind == "int":
        return int(rng.integers(int(low), max(int(low) + 1, int(high))))
    number = float(np.float32(rng.uniform(low, high)))
    return complex(number, 0.25) if kind == "complex" else number
