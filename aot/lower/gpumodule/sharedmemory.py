"""Static shared memory of kernels begins at addresses that wide accesses can use, and dynamic shared memory behind it.

In: a module with a gpu.module. Out: the same module, where every workgroup attribution and workgroup global
of 16 bytes or more that asks for no alignment is aligned to 16 bytes. Left alone they are aligned to one
element, and an ldmatrix or a 16-byte asynchronous copy into the second of two of them faults.

Later, in the LLVM dialect, dynamic shared memory is an array without a length. As a symbol of the module's own it
would be one more static array, with the others behind it, and every store into it would reach them.
"""

from __future__ import annotations

import re

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk

ALIGNMENT = 16
"""Bytes: the widest access of one thread, and a row of ldmatrix."""
_SPACE = "#gpu.address_space<workgroup>"
_ALIGN = "llvm.align"
_SHARED_NUMBER = 3
"""The address space of shared memory in NVPTX."""
_EMPTY = re.compile(r"!llvm\.array<0 x ")
"""The bindings know this type as text only."""


def align(module: mlir.Module) -> None:
    """Align what kernels hold in shared memory."""
    for op in mlir.walk(module):
        if op.name == "gpu.func" and "workgroup_attributions" in op.attributes:
            _align_attributions(op)
        elif op.name == "memref.global" and "alignment" not in op.attributes:
            kind = ir.TypeAttr(op.attributes["type"]).value
            if _is_wide(kind):
                i64 = ir.IntegerType.get_signless(64, context=module.context)
                op.attributes["alignment"] = ir.IntegerAttr.get(i64, ALIGNMENT)


def leave_open(module: mlir.Module) -> None:
    """Let arrays without a length be what a launch adds to static shared memory (PTX: ``.extern .shared``)."""
    for op in opwalk.named(module, "llvm.mlir.global"):
        space = op.attributes.get("addr_space")
        if space is not None and space.value == _SHARED_NUMBER and _EMPTY.match(str(op.attributes["global_type"])):
            op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>", module.context)


def _align_attributions(op: mlir.Operation) -> None:
    count = ir.IntegerAttr(op.attributes["workgroup_attributions"]).value
    inputs = len(ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs)
    kinds = [argument.type for argument in op.regions[0].blocks[0].arguments][inputs : inputs + count]
    name = "workgroup_attrib_attrs"
    given = list(ir.ArrayAttr(op.attributes[name])) if name in op.attributes else [None] * count
    with op.context:
        aligned = [_aligned(kind, attributes) for kind, attributes in zip(kinds, given, strict=True)]
        op.attributes[name] = ir.ArrayAttr.get(aligned)


def _aligned(kind: ir.Type, given: ir.Attribute | None) -> ir.Attribute:
    attributes = {} if given is None else {each.name: each.attr for each in ir.DictAttr(given)}
    if _ALIGN not in attributes and _is_wide(kind):
        attributes[_ALIGN] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ALIGNMENT)
    return ir.DictAttr.get(attributes)


def _is_wide(kind: ir.Type) -> bool:
    """Whether it is shared memory of at least the alignment's size."""
    if not isinstance(kind, ir.MemRefType) or str(kind.memory_space) != _SPACE or not kind.has_static_shape:
        return False
    count = 1
    for extent in kind.shape:
        count *= extent
    # Elements that are vectors or pairs have no width of their own; they are wide enough.
    bits = getattr(kind.element_type, "width", 8 * ALIGNMENT)
    return count * int(bits) >= 8 * ALIGNMENT
