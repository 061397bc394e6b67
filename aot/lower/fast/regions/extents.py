"""Which extents are certainly equal, though not known: a union of equalities that linalg promises.

In: memrefs of host code and linalg operations on them. Out: keys of extents; equal keys mean equal extents.

``linalg.generic`` with maps ``(i) -> (i)`` for ``%a`` and ``%b`` makes the extents of both one key.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, memref

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.bufferization import expandshape
from aot.lower.hostmodule import rtcalls

Key = int | tuple[ir.Value, int]
"""A number when static; else a value and the axis of it, or a number of host code and -1."""


@dataclass
class Extents:
    """Equalities found so far."""

    parent: dict[Key, Key] = field(default_factory=dict)
    seen: dict[Key, int] = field(default_factory=dict)
    """When each key was first asked for: what came first is there for all that comes later."""

    def key(self, memory: ir.Value, axis: int) -> Key:
        """The key of an extent of a memref."""
        key = _origin(memory, axis)
        self.seen.setdefault(key, len(self.seen))
        return self.find(key)

    def find(self, key: Key) -> Key:
        """The one key that stands for all that are equal."""
        while key in self.parent:
            key = self.parent[key]
        return key

    def equal(self, one: Key, other: Key) -> None:
        """Two extents are the same; a static one stands for both, else the older one."""
        one, other = self.find(one), self.find(other)
        if one == other or (isinstance(one, int) and isinstance(other, int)):
            return
        if isinstance(one, int) or (not isinstance(other, int) and self.seen[one] < self.seen[other]):
            one, other = other, one
        self.parent[one] = other


def _origin(memory: ir.Value, axis: int) -> Key:
    """Where an extent comes from."""
    kind = ir.MemRefType(memory.type)
    if not kind.is_dynamic_dim(axis):
        return int(kind.shape[axis])
    made_by = mlir.owner(memory)
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc":
        position = sum(1 for before in range(axis) if kind.is_dynamic_dim(before))
        return _number(made_by.operands[position])
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.cast":
        return _origin(made_by.operands[0], axis)
    return memory, axis


def _number(value: ir.Value) -> Key:
    """Where a number of host code comes from, if it is an extent."""
    known = literals.whole(value)
    if known is not None:
        return known
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.dim":
        axis = literals.whole(made_by.operands[1])
        if axis is not None:
            return _origin(made_by.operands[0], axis)
    return value, -1


def value_of(key: Key) -> ir.Value:
    """The extent as a number, at the insertion point."""
    if isinstance(key, int):
        return rtcalls.index(key)
    memory, axis = key
    return memory if axis < 0 else _extent(memory, axis)


def _extent(memory: ir.Value, axis: int) -> ir.Value:
    """An extent of a memref; of a view as it was made: memory that kernels do without goes, and its views with it."""
    kind, made_by = ir.MemRefType(memory.type), mlir.owner(memory)
    if not kind.is_dynamic_dim(axis):
        return rtcalls.index(kind.shape[axis])
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.expand_shape":
        size = expandshape.read(made_by).sizes[axis]
        return size if isinstance(size, ir.Value) else rtcalls.index(size)
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.collapse_shape":
        group = ir.ArrayAttr(made_by.attributes["reassociation"])[axis]
        extents = [_extent(made_by.operands[0], ir.IntegerAttr(each).value) for each in group]
        return functools.reduce(lambda one, other: arith.MulIOp(one, other).result, extents)
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc":
        return made_by.operands[sum(kind.is_dynamic_dim(before) for before in range(axis))]
    return memref.DimOp(memory, rtcalls.index(axis)).result
