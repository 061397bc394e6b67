"""Element types: ONE table from MLIR's spelling to DLPack, numpy, stubs and bytes in memory.

In: an element type as MLIR prints it. Out: everything else that the project calls it.

>>> of("bf16").numpy, of("complex<f32>").storage
('bfloat16', 8)
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.errors import LoweringError

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL, POINTER = "INT", "UINT", "FLOAT", "BFLOAT", "COMPLEX", "BOOL", "PTR"
"""Kinds, by the name of their code in templates/runtime/aot.h (``AOT_DL_<kind>``); each small float has its own."""


@dataclass(frozen=True)
class DType:
    """One element type."""

    mlir: str
    """As MLIR prints it: ``bf16``."""
    kind: str
    """Name of its DLPack code in aot.h, without ``AOT_DL_``."""
    bits: int
    """Of the element in the caller's array, as DLPack says it."""
    width: int
    """Of the value itself: 1 for i1, 4 for i4."""
    storage: int
    """Bytes per element in memory; types narrower than a byte take one."""
    numpy: str
    """Name in numpy or ml_dtypes; empty when neither has it."""
    python: str
    """Type of a number of it in a stub; empty when it cannot be passed as a number."""


def _row(mlir: str, kind: str, width: int, numpy: str, python: str) -> DType:
    bits = max(8, width)
    return DType(mlir, kind, bits, width, bits // 8, numpy, python)


_TABLE = {
    row.mlir: row
    for row in (
        _row("i1", BOOL, 1, "bool", "bool"),
        *(_row(f"i{width}", INT, width, "int8", "int") for width in range(2, 8)),
        *(_row(f"i{width}", INT, width, f"int{width}", "int") for width in (8, 16, 32, 64)),
        *(_row(f"si{width}", INT, width, f"int{width}", "int") for width in (8, 16, 32, 64)),
        *(_row(f"ui{width}", UINT, width, f"uint{width}", "int") for width in (8, 16, 32, 64)),
        _row("index", INT, 64, "int64", "int"),
        _row("f16", FLOAT, 16, "float16", "float"),
        _row("bf16", BFLOAT, 16, "bfloat16", "float"),
        _row("f32", FLOAT, 32, "float32", "float"),
        _row("f64", FLOAT, 64, "float64", "float"),
        _row("f8E3M4", "F8E3M4", 8, "float8_e3m4", ""),
        _row("f8E4M3", "F8E4M3", 8, "float8_e4m3", ""),
        _row("f8E4M3B11FNUZ", "F8E4M3B11FNUZ", 8, "float8_e4m3b11fnuz", ""),
        _row("f8E4M3FN", "F8E4M3FN", 8, "float8_e4m3fn", ""),
        _row("f8E4M3FNUZ", "F8E4M3FNUZ", 8, "float8_e4m3fnuz", ""),
        _row("f8E5M2", "F8E5M2", 8, "float8_e5m2", ""),
        _row("f8E5M2FNUZ", "F8E5M2FNUZ", 8, "float8_e5m2fnuz", ""),
        _row("f8E8M0FNU", "F8E8M0FNU", 8, "float8_e8m0fnu", ""),
        # No framework holds these one per byte under their own name on a GPU: the caller passes their codes as uint8.
        _row("f4E2M1FN", UINT, 8, "uint8", ""),
        _row("f6E2M3FN", UINT, 8, "uint8", ""),
        _row("f6E3M2FN", UINT, 8, "uint8", ""),
        _row("complex<f16>", COMPLEX, 32, "", ""),
        _row("complex<f32>", COMPLEX, 64, "complex64", "complex"),
        _row("complex<f64>", COMPLEX, 128, "complex128", "complex"),
        _row("ptr", POINTER, 64, "", ""),
    )
}


def of(mlir: str) -> DType:
    """The element type that MLIR spells so; LoweringError when a caller could not hold arrays of it."""
    found = _TABLE.get(mlir)
    if found is None:
        raise LoweringError(
            f"element type '{mlir}' cannot cross the boundary of a function",
            hint=f"arguments and results may be of: {', '.join(name for name in _TABLE if name != 'ptr')}",
        )
    return found


def known(mlir: str) -> bool:
    """Whether a caller can hold arrays of it."""
    return mlir in _TABLE and mlir != "ptr"
