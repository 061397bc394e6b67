"""Compares an array with what it should be.

In: got and expected, the length of the longest sum behind an element. Out: Difference: the largest errors, where the
worst one is, and whether all are within tolerance.

An element may be off by ``rtol`` of itself and by ``atol``, as much of the array's root mean square; both grow with the
square root of the sum's length, as rounding errors of a sum do. Integers and booleans must be equal; NaN equals NaN.

>>> compare(np.float32([1, 2]), np.float32([1, 2.5]), 1).where                   # doctest: +SKIP
'1'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ROUNDINGS = {2: 4.0, 4: 16.0, 8: 64.0}
"""How many units in the last place an element may be off, by bytes of the type."""
WIDE_EPS = 2.0**-23
"""Of f32."""
SMALL_FLOATS = {"bfloat16": (8, -126), "float16": (11, -14), "float32": (24, -126), "float64": (53, -1022)}
"""Bits of the significand, least exponent."""


@dataclass(frozen=True)
class Tolerance:
    """What a user may set; None: by type and length."""

    rtol: float | None = None
    atol: float | None = None


DEFAULT = Tolerance()


PIECE = 1 << 16
"""Elements that are compared at a time."""


@dataclass(frozen=True)
class Difference:
    """How far two arrays are apart."""

    ok: bool
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulps: float = 0.0
    share: float = 0.0
    """Largest error as a share of what is tolerated; wrong when above 1."""
    where: str = ""
    """Index of the worst element; empty when all agree exactly."""
    got: str = ""
    expected: str = ""
    wrong: int = 0
    """Elements out of tolerance."""
    total: int = 0
    problem: str = ""
    """Shape or type that differs."""


def compare(got: Array, expected: Array, length: int, tolerance: Tolerance = DEFAULT) -> Difference:
    """The difference; ``length`` is that of the longest sum behind one element."""
    if got.shape != expected.shape:
        return Difference(False, problem=f"has shape {got.shape}, expected {expected.shape}")
    if got.dtype != expected.dtype:
        if expected.dtype.kind not in "fiubc" or (got.dtype.kind in "biu" and expected.dtype.kind in "fc"):
            return Difference(False, problem=f"has elements of {got.dtype}, expected {expected.dtype}")
        expected = expected.astype(got.dtype)
    if not got.size:
        return Difference(True)
    one, other = np.ravel(got), np.ravel(expected)
    if got.dtype.kind in "biu":
        return _in_pieces(_exact, one, other, got.shape)
    step = _step(got.dtype, length)
    rtol = step if tolerance.rtol is None else tolerance.rtol
    atol = step * _scale(other) if tolerance.atol is None else tolerance.atol
    return _in_pieces(lambda a, b: _close(a, b, rtol, atol), one, other, got.shape)


def _in_pieces(
    of: Callable[[Array, Array], Difference], got: Array, expected: Array, shape: tuple[int, ...]
) -> Difference:
    """The difference of long arrays, piece by piece: a piece's intermediate values stay in the processor's cache."""
    parts = [of(got[at : at + PIECE], expected[at : at + PIECE]) for at in range(0, got.size, PIECE)]
    number = max(range(len(parts)), key=lambda each: parts[each].share)
    worst = parts[number]
    index = np.unravel_index(number * PIECE + int(worst.where), shape) if worst.where else ()
    return replace(
        worst,
        ok=all(each.ok for each in parts),
        max_abs=max(each.max_abs for each in parts),
        max_rel=max(each.max_rel for each in parts),
        max_ulps=max(each.max_ulps for each in parts),
        where=", ".join(str(int(each)) for each in index) or ("0" if worst.where else ""),
        wrong=sum(each.wrong for each in parts),
        total=int(got.size),
    )


def _exact(got: Array, expected: Array) -> Difference:
    away = np.abs(got.astype("f8") - expected.astype("f8"))
    share = np.where(got != expected, np.inf, 0.0)
    return _found(_Errors(got, expected, away, share), away / np.maximum(np.abs(expected.astype("f8")), 1), away)


@dataclass(frozen=True)
class _Errors:
    """Elementwise: the two arrays, their distance, and that as a share of what is tolerated."""

    got: Array
    expected: Array
    away: Array
    share: Array


def _close(got: Array, expected: Array, rtol: float, atol: float) -> Difference:
    wide = "c16" if got.dtype.kind == "c" else "f8"
    one, other = got.astype(wide), expected.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        away = np.where(same, 0.0, np.abs(one - other))
    away = np.where(np.isnan(away), np.inf, away)
    magnitude = _magnitude(other)
    allowed = rtol * magnitude + atol
    share = np.divide(away, allowed, out=np.where(away > 0, np.inf, 0.0), where=allowed > 0)
    relative = away / np.maximum(magnitude, np.finfo("f8").tiny)
    return _found(_Errors(got, expected, away, share), relative, away / _spacing(magnitude, got.dtype))


def _step(kind: np.dtype[Any], length: int) -> float:
    """What an element may be off by, relative to itself; sums of narrow floats are taken in f32, and rounded once."""
    once, size = _eps(kind) * ROUNDINGS.get(_real_bytes(kind), 2.0), max(4, _real_bytes(kind))
    return max(once, min(_eps(kind), WIDE_EPS) * ROUNDINGS[size] * math.sqrt(max(1, length)))


def _found(errors: _Errors, relative: Array, ulps: Array) -> Difference:
    worst = np.unravel_index(int(np.argmax(errors.share)), errors.away.shape)
    wrong = errors.share > 1
    exact = not errors.away.any()
    # An error of an element that should be 0 has no relative size.
    compared = errors.expected.astype(bool) if errors.expected.dtype.kind != "V" else np.ones(errors.away.shape, bool)
    return Difference(
        ok=not wrong.any(),
        max_abs=float(errors.away.max()),
        max_rel=float(np.max(relative, where=compared, initial=0.0)),
        max_ulps=float(ulps.max()),
        share=float(errors.share.max()),
        where="" if exact else ", ".join(str(int(index)) for index in worst),
        got="" if exact else str(errors.got[worst]),
        expected="" if exact else str(errors.expected[worst]),
        wrong=int(wrong.sum()),
        total=int(errors.got.size),
    )


def _magnitude(values: Array) -> Array:
    return np.where(np.isfinite(np.abs(values)), np.abs(values), 0.0)


def _scale(expected: Array) -> float:
    """Root mean square of what is finite."""
    wide = "c16" if expected.dtype.kind == "c" else "f8"
    pieces = (expected[at : at + PIECE].astype(wide) for at in range(0, expected.size, PIECE))
    return float(np.sqrt(sum(float(np.sum(np.square(_magnitude(each)))) for each in pieces) / expected.size))


def _real_bytes(kind: np.dtype[Any]) -> int:
    return kind.itemsize // 2 if kind.kind == "c" else kind.itemsize


def _significand(kind: np.dtype[Any]) -> tuple[int, int]:
    name = {"complex64": "float32", "complex128": "float64"}.get(kind.name, kind.name)
    if name in SMALL_FLOATS:
        return SMALL_FLOATS[name]
    import ml_dtypes

    info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    return int(info.nmant) + 1, int(info.minexp)


def _eps(kind: np.dtype[Any]) -> float:
    return math.ldexp(1.0, 1 - _significand(kind)[0])


def _spacing(magnitude: Array, kind: np.dtype[Any]) -> Array:
    """Distance to the next number of the type, at each magnitude."""
    bits, least = _significand(kind)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, least)
    return np.asarray(np.ldexp(1.0, exponent - (bits - 1)))
