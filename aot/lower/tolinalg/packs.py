"""``linalg.pack`` and ``linalg.unpack`` as one pass over the result, for static and dynamic tiles.

In: tensors. Out: a ``linalg.generic`` that reads each element from its place in the source.

``linalg.pack %x padding_value(%z) inner_dims_pos = [0, 1] inner_tiles = [8, 2] into %e`` gives the element at
``(a, b, c, d)`` of ``%e`` the value ``%x[8 * a + c, 2 * b + d]``, or ``%z`` where that is outside.
Upstream's lowering (pad, expand, transpose) makes three buffers, and refuses dynamic tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, tensor

from aot import mlir
from aot.lower.tolinalg.elementwise import extent, generate, index


def lower(module: ir.Module) -> None:
    """Replace all packs and unpacks of tensors."""
    for op in mlir.walk(module):
        if op.name in ("linalg.pack", "linalg.unpack") and len(op.results):
            with ir.InsertionPoint(op), op.location:
                made = _pack(op) if op.name == "linalg.pack" else _unpack(op)
            op.results[0].replace_all_uses_with(made)
            op.erase()


@dataclass(frozen=True)
class _Tiling:
    """How the dimensions of the unpacked tensor lie in the packed one."""

    outer: tuple[int, ...]
    """Dimension of the unpacked tensor that each outer dimension of the packed one stands for."""
    inner: tuple[int, ...]
    """The same for its inner dimensions."""
    tiles: tuple[ir.Value, ...]
    """Extent of each inner dimension."""

    @staticmethod
    def of(op: ir.Operation, rank: int, dynamic: Sequence[ir.Value]) -> _Tiling:
        attributes = op.attributes
        permuted = list(ir.DenseI64ArrayAttr(attributes["outer_dims_perm"])) if "outer_dims_perm" in attributes else []
        values = iter(dynamic)
        unknown = ir.ShapedType.get_dynamic_size()
        static = ir.DenseI64ArrayAttr(attributes["static_inner_tiles"])
        tiles = tuple(next(values) if tile == unknown else index(tile) for tile in static)
        inner = tuple(ir.DenseI64ArrayAttr(attributes["inner_dims_pos"]))
        return _Tiling(tuple(permuted or range(rank)), inner, tiles)

    def tile_of(self, dim: int) -> ir.Value | None:
        return self.tiles[self.inner.index(dim)] if dim in self.inner else None


def _pack(op: ir.Operation) -> ir.Value:
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    source, into = op.operands[0], op.operands[1]
    padding = op.operands[2] if segments[2] else None
    rank = ir.RankedTensorType(source.type).rank
    tiling = _Tiling.of(op, rank, list(op.operands)[2 + segments[2] :])
    extents = [extent(source, dim) for dim in range(rank)]

    def element(indices: Sequence[ir.Value]) -> ir.Value:
        position = []
        for dim in range(rank):
            place = indices[tiling.outer.index(dim)]
            tile = tiling.tile_of(dim)
            if tile is not None:
                first = arith.MulIOp(place, tile).result
                place = arith.AddIOp(first, indices[rank + tiling.inner.index(dim)]).result
            position.append(place)
        if padding is None:
            return tensor.ExtractOp(source, position).result
        return _padded(source, position, [(dim, extents[dim]) for dim in tiling.inner], padding)

    return generate(into, element)


def _padded(
    source: ir.Value, position: Sequence[ir.Value], bounds: Sequence[tuple[int, ir.Value]], padding: ir.Value
) -> ir.Value:
    inside = None
    for dim, bound in bounds:
        below = arith.CmpIOp(arith.CmpIPredicate.ult, position[dim], bound).result
        inside = below if inside is None else arith.AndIOp(inside, below).result
    choice = scf.IfOp(inside, [padding.type], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        scf.YieldOp([tensor.ExtractOp(source, position).result])
    with ir.InsertionPoint(choice.else_block):
        scf.YieldOp([padding])
    return choice.results[0]


def _unpack(op: ir.Operation) -> ir.Value:
    source, into = op.operands[0], op.operands[1]
    rank = ir.RankedTensorType(into.type).rank
    tiling = _Tiling.of(op, rank, list(op.operands)[2:])

    def element(indices: Sequence[ir.Value]) -> ir.Value:
        outer, inner = [], []
        for dim in tiling.outer:
            tile = tiling.tile_of(dim)
            outer.append(indices[dim] if tile is None else arith.DivUIOp(indices[dim], tile).result)
        for dim, tile in zip(tiling.inner, tiling.tiles, strict=True):
            inner.append(arith.RemUIOp(indices[dim], tile).result)
        return tensor.ExtractOp(source, [*outer, *inner]).result

    return generate(into, element)
