"""Kernels take of an array what they use: where it lies, and some strides.

A memref parameter is a whole descriptor, seven numbers for a matrix. Every launch stores them, and every multiprocessor
waits for the lines of constant memory that hold them before the kernel does anything; most of it is never looked at.

In: ``gpu.launch`` operations that use memrefs of host code. Out: the same with pointers and strides from outside, and
the memrefs put together in their bodies.

``gpu.launch { memref.load %x[%i, %j] : memref<?x?xf32> }`` becomes, with ``%p`` and ``%s`` made by host code,
``gpu.launch { %y = builtin.unrealized_conversion_cast {%p, %s}; memref.load %y[%i, %j] }``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, llvm, memref

from aot import mlir
from aot.lower.analysis import literals, opwalk, views
from aot.lower.hostmodule import llvmops

_ADDRESS = "memref.extract_aligned_pointer_as_index"
_INDICES = {_ADDRESS: 1, "memref.load": 1, "memref.store": 2, "vector.load": 1, "vector.store": 2}
"""Operations that need an address and strides only -> the first of their indices among the operands."""
_SAME_ADDRESS = ("memref.cast", "memref.reinterpret_cast")

_Use = tuple[ir.Operation, int]
"""An operation, and which of its operands."""


def slim(module: ir.Module) -> None:
    """Do so for all launches."""
    for launch in opwalk.named(module, "gpu.launch"):
        _Launch(launch).slim()


@dataclass
class _Launch:
    """One launch, and what its body has been given."""

    op: ir.Operation
    pointers: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """By the value that an array is a view of."""

    def slim(self) -> None:
        for value, uses in self._captured().items():
            kind = ir.MemRefType(value.type)
            plain = all(user.name in _INDICES and place == _INDICES[user.name] - 1 for user, place in uses)
            if not plain or kind.memory_space is not None or views.root_name(value) == "memref.get_global":
                continue
            with ir.InsertionPoint(self.op), self.op.location:
                given = self._given(value, kind, uses)
            with ir.InsertionPoint.at_block_begin(self.op.regions[0].blocks[0]), self.op.location:
                inside = _memref(kind, *given)
            for user, place in uses:
                user.operands[place] = inside

    def _captured(self) -> dict[ir.Value, list[_Use]]:
        """Memrefs from outside, and where the body uses them."""
        found: dict[ir.Value, list[_Use]] = {}
        for op in mlir.walk(self.op):
            if op == self.op:
                continue
            for place, value in enumerate(op.operands):
                if isinstance(value.type, ir.MemRefType) and (value in found or self._is_outside(value)):
                    found.setdefault(value, []).append((op, place))
        return found

    def _is_outside(self, value: ir.Value) -> bool:
        made_by = mlir.owner(value)
        inner = made_by.owner.operation if isinstance(made_by, ir.Block) else made_by
        return inner != self.op and self.op not in mlir.parents(inner)

    def _given(
        self, value: ir.Value, kind: ir.MemRefType, uses: Sequence[_Use]
    ) -> tuple[ir.Value, ir.Value | None, dict[int, ir.Value]]:
        """Address, offset and strides, each where it is used and not part of the type."""
        base = value
        while not isinstance(made_by := mlir.owner(base), ir.Block) and made_by.name in _SAME_ADDRESS:
            base = made_by.operands[0]
        if base not in self.pointers:
            number = arith.IndexCastOp(llvmops.integer(64), memref.ExtractAlignedPointerAsIndexOp(base).result).result
            self.pointers[base] = llvm.IntToPtrOp(llvmops.pointer(), number).res
        strides, offset = kind.get_strides_and_offset()
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        moving = [axis for axis in range(kind.rank) if strides[axis] == unknown and _moves(axis, uses)]
        if offset != unknown and not moving:
            return self.pointers[base], None, {}
        numbers = _Layout(value, kind)
        return (
            self.pointers[base],
            numbers.offset() if offset == unknown else None,
            {axis: numbers.stride(axis) for axis in moving},
        )


def _moves(axis: int, uses: Sequence[_Use]) -> bool:
    """Whether an index along the axis is ever anything but 0."""
    indexed = [user for user, _ in uses if user.name != _ADDRESS]
    return any(literals.whole(user.operands[_INDICES[user.name] + axis]) != 0 for user in indexed)


@dataclass
class _Layout:
    """The dynamic offset and strides of an array, in host code."""

    value: ir.Value
    kind: ir.MemRefType
    found: Sequence[ir.Value] = ()
    """Results of ``memref.extract_strided_metadata``."""

    def offset(self) -> ir.Value:
        return self._metadata()[1]

    def stride(self, axis: int) -> ir.Value:
        """Where a view was made with it, the same value: launches pass it once."""
        made_by = mlir.owner(self.value)
        if not isinstance(made_by, ir.Block) and made_by.name == "memref.reinterpret_cast":
            strides = list(ir.DenseI64ArrayAttr(made_by.attributes["static_strides"]))
            given = [stride == ir.ShapedType.get_dynamic_stride_or_offset() for stride in strides]
            if given[axis]:  # which the type need not say of those that are not
                return made_by.operands[len(made_by.operands) - sum(given[axis:])]
        return self._metadata()[2 + self.kind.rank + axis]

    def _metadata(self) -> Sequence[ir.Value]:
        if not self.found:
            self.found = list(memref.ExtractStridedMetadataOp(self.value).results)
        return self.found


def _memref(kind: ir.MemRefType, pointer: ir.Value, offset: ir.Value | None, strides: dict[int, ir.Value]) -> ir.Value:
    """An array put together; what is not given is multiplied by 0, if anything."""
    arrays = f", array<{kind.rank} x i64>" * (2 if kind.rank else 0)
    struct = ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64{arrays})>")
    whole = ir.Operation.create("llvm.mlir.zero", results=[struct]).results[0]
    fields = [([0], pointer), ([1], pointer)]
    fields += [([2], _word(offset))] if offset is not None else []
    fields += [([4, axis], _word(stride)) for axis, stride in strides.items()]
    for place, value in fields:
        whole = llvm.InsertValueOp(whole, value, place).res
    return ir.Operation.create("builtin.unrealized_conversion_cast", results=[kind], operands=[whole]).results[0]


def _word(number: ir.Value) -> ir.Value:
    return arith.IndexCastOp(llvmops.integer(64), number).result
