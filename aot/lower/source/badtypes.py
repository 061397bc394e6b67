"""Types that MLIR has and no code is made for: scalable vectors, floats without arithmetic, buffers without strides.

In: a module, after the source's own passes. Out: LoweringError for values of such types. Some of them end the process
of the compiler, others are taken for what they are not (host code hands ``f128`` to functions of ``long double``).

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from aot import mlir
from aot.errors import LoweringError

_FLOATS = {
    "f80": "f64 is the widest float",
    "f128": "f64 is the widest float",
    "tf32": "products of f32 are tf32 with aot.precision, or tf32Enabled of nvgpu.mma.sync",
    "f6E2M3FN": "small floats are those of 8 bits, and f4E2M1FN",
    "f6E3M2FN": "small floats are those of 8 bits, and f4E2M1FN",
}
"""By their spelling, which is all that the bindings have of some: what to take instead."""


def check(module: mlir.Module) -> None:
    """Refuse them, each operation once."""
    known: dict[ir.Type, str] = {}
    problems = []
    for op in mlir.walk(module):
        found = next(filter(None, (_known(kind, known) for kind in _types(op))), "")
        if found:
            problems.append(mlir.diagnostic_at(op, f"'{op.name}': {found}"))
    if problems:
        raise LoweringError(f"{module.context.aot_path}: types that no code is made for", diagnostics=tuple(problems))


def _types(op: mlir.Operation) -> Iterator[ir.Type]:
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.arguments)


def _known(kind: ir.Type, known: dict[ir.Type, str]) -> str:
    if kind not in known:
        known[kind] = _problem(kind, kind)
    return known[kind]


def _problem(kind: ir.Type, whole: ir.Type) -> str:
    """What is wrong with a type, or with what it is made of; empty when nothing is."""
    if isinstance(kind, ir.VectorType) and kind.scalable:
        return f"'{whole}' has no length on this machine: write vectors of fixed length"
    if isinstance(kind, ir.MemRefType) and not _has_strides(kind):
        return f"'{whole}': only strided layouts are supported"
    if isinstance(kind, ir.ShapedType | ir.ComplexType):
        return _problem(kind.element_type, whole)
    advice = _FLOATS.get(str(kind))
    return f"no code computes with '{whole}': {advice}" if advice else ""


def _has_strides(kind: ir.MemRefType) -> bool:
    try:
        kind.get_strides_and_offset()
    except RuntimeError:
        return False
    return True
