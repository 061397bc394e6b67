"""Where memory comes from: the operation or block argument that a memref value is a view of.

In: a memref value. Out: its root value, and whether that is memory of the host.

``%s`` of ``%s = memref.subview %x[0] [4] [1]`` has the root ``%x``.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir

VIEWS = frozenset(
    {
        "memref.subview",
        "memref.cast",
        "memref.reinterpret_cast",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.reshape",
        "memref.view",
        "memref.transpose",
        "memref.memory_space_cast",
        "memref.assume_alignment",
        "memref.extract_strided_metadata",
    }
)
"""Operations whose first result is the memory of their first operand."""

DEVICE_MARK = "aot.device"
"""Attribute of a function that only kernels call."""
HOST_MARK = "aot.host"
"""Attribute of an operation whose result is memory of the host."""


def is_memref(value: mlir.Value) -> bool:
    """Whether the value is a memref, ranked or not."""
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)


def root(value: mlir.Value) -> mlir.Value:
    """The value that owns the memory, as far as views lead back to it."""
    while True:
        op = mlir.owner(value)
        if isinstance(op, ir.Block) or op.name not in VIEWS:
            return value
        value = op.operands[0]


def root_name(value: mlir.Value) -> str:
    """Name of the operation that makes the root; "" for a block argument."""
    op = mlir.owner(root(value))
    return "" if isinstance(op, ir.Block) else str(op.name)


def global_of(value: mlir.Value) -> mlir.Operation | None:
    """The ``memref.global`` that the memory is, or None."""
    op = mlir.owner(root(value))
    if isinstance(op, ir.Block) or op.name != "memref.get_global":
        return None
    name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
    for parent in mlir.parents(op):
        for region in parent.regions if parent.name in ("builtin.module", "gpu.module") else ():
            for each in region.blocks[0].operations:
                if each.operation.name == "memref.global" and mlir.symbol_name(each) == name:
                    return each.operation
    return None


def is_constant(value: mlir.Value) -> bool:
    """Whether the memory is a ``memref.global constant``: a copy of it exists on host and device."""
    made_by = global_of(value)
    return made_by is not None and "constant" in made_by.attributes


def is_host(value: mlir.Value) -> bool:
    """Whether host code may access the memory: constants, stack memory, and what is marked so."""
    op = mlir.owner(root(value))
    if isinstance(op, ir.Block):
        return False
    return op.name == "memref.alloca" or HOST_MARK in op.attributes or is_constant(value)
