"""Products of matrices: packed panels, tiles in registers, blocks in caches.

In: linalg operations on buffers that are contractions (``products``). Out: the same work as loops, and the operation
itself beside them, for matrices that are too small to pack.

The right factor is packed once, into panels of as many columns as a tile has, by all threads. Then each item of a
parallel loop takes a block of rows: it packs the left factor's part, and multiplies panel by panel. A tile of the
result is summed up in vector registers over the terms of one block, and then added to the output. The order of the
sums depends on the extents only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf

from aot import mlir
from aot.lower.analysis import literals, overlap, views
from aot.lower.contract.products.matching import is_between
from aot.lower.cpu import products
from aot.lower.cpu.products import Contraction
from aot.lower.cpu.tile import Tile
from aot.lower.hostmodule import rtcalls
from aot.lower.launches.nests import at_least, loop, minimum, parallel, product, when
from aot.targets.cpuvariant import Variant

_INNER_BYTES = 1024
"""Of one row or column in a packed block: a panel of the right factor then fits in the first-level cache."""
_PANELS = 8
"""Panels of rows in one block: it fits in the second-level cache."""
_ITEMS = 16
"""Items that a parallel loop should have, if the matrices are large enough."""
_LEAST = (4, 8, 4)
"""Rows, columns and terms below which packing does not pay."""
_LEAST_PRODUCT = 1 << 14
_SHARED_PRODUCT = 1 << 21
"""Multiplications from which on the columns are cut up, too, to give more threads something to do."""
_ONCE = frozenset({"func.func", "builtin.module", "scf.if", "scf.for", "scf.while", "scf.index_switch"})


def lower(module: ir.Module, variant: Variant) -> int:
    """Rewrite all contractions of host code; their number."""
    count = 0
    for op in mlir.walk(module):
        if op.name.startswith("linalg.") and all(each.name in _ONCE for each in mlir.parents(op)):
            found = products.match(op)
            if found is not None:
                _lower(op, found, variant)
                count += 1
    return count


def _lower(op: ir.Operation, contraction: Contraction, variant: Variant) -> None:
    fill = _zero_fill(op, contraction.out.value)
    with ir.InsertionPoint(op), op.location:
        work = _Work.of(contraction, Tile.of(contraction.element, variant), empty=fill is not None)
        big = arith.CmpIOp(arith.CmpIPredicate.sge, product(work.sizes()), rtcalls.index(_LEAST_PRODUCT)).result
        for size, least in zip(work.sizes(), _LEAST, strict=True):
            enough = arith.CmpIOp(arith.CmpIPredicate.sge, size, rtcalls.index(least)).result
            big = arith.AndIOp(big, enough).result
        choice = scf.IfOp(big, has_else=True)
        with ir.InsertionPoint(choice.then_block):
            work.emit()
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            end = scf.YieldOp([]).operation
    op.move_before(end)
    if fill is not None:
        fill.move_before(op)


def _zero_fill(op: ir.Operation, out: ir.Value) -> ir.Operation | None:
    """The operation that sets the output to zero right before: large products need not, they overwrite it."""
    operations = [each.operation for each in op.block.operations]
    own = overlap.is_own(views.root(out))
    for each in reversed(operations[: operations.index(op)]):
        if any(views.is_memref(v) and views.root(v) == views.root(out) for o in mlir.walk(each) for v in o.operands):
            fills = each.name == "linalg.fill" and each.operands[1] == out
            return each if fills and literals.is_zero(each.operands[0]) else None
        if own and len(each.regions) and not each.name.startswith("linalg."):
            return None
        if not own and not is_between(each):
            # It may read the output under another name.
            return None
    return None


@dataclass(frozen=True)
class _Work:
    """One contraction being emitted."""

    of_: Contraction
    tile: Tile
    rows: ir.Value
    columns: ir.Value
    inner: ir.Value
    batch: tuple[ir.Value, ...]
    empty: bool
    """The output holds nothing yet."""

    @staticmethod
    def of(contraction: Contraction, tile: Tile, *, empty: bool) -> _Work:
        out, left = contraction.out, contraction.left
        return _Work(
            contraction,
            tile,
            out.extent(contraction.rows),
            out.extent(contraction.columns),
            left.extent(contraction.inner),
            tuple(out.extent(each) for each in contraction.batch),
            empty,
        )

    def sizes(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Rows, columns, terms."""
        return self.rows, self.columns, self.inner

    @property
    def depth(self) -> int:
        """Terms in one block."""
        return _INNER_BYTES // rtcalls.storage_bytes(self.of_.element)

    def emit(self) -> None:
        panels = arith.CeilDivUIOp(self.columns, rtcalls.index(self.tile.columns)).result
        packed = self._pack_right(panels)
        block = _PANELS * self.tile.rows
        blocks = arith.CeilDivUIOp(self.rows, rtcalls.index(block)).result
        items = at_least(product([blocks, *self.batch]), 1)
        parts = minimum(arith.CeilDivUIOp(rtcalls.index(_ITEMS), items).result, panels)
        large = arith.CmpIOp(arith.CmpIPredicate.sge, product(self.sizes()), rtcalls.index(_SHARED_PRODUCT)).result
        parts = arith.SelectOp(large, parts, rtcalls.index(1)).result
        share = arith.CeilDivUIOp(panels, at_least(parts, 1)).result
        strips = arith.CeilDivUIOp(panels, at_least(share, 1)).result
        with parallel([*self.batch, blocks, strips]) as places:
            *batch, number, strip = places
            first = arith.MulIOp(strip, share).result
            _Block(self, packed, tuple(batch), arith.MulIOp(number, rtcalls.index(block)).result).emit(
                first, minimum(arith.AddIOp(first, share).result, panels)
            )
        memref.DeallocOp(packed)

    def _pack_right(self, panels: ir.Value) -> ir.Value:
        """``[batch..., panel, term, column]``; columns that do not exist are zero."""
        dynamic = ir.ShapedType.get_dynamic_size()
        width = self.tile.columns
        kind = ir.MemRefType.get([*[dynamic] * (len(self.batch) + 2), width], self.of_.element)
        packed = memref.AllocOp(kind, [*self.batch, panels, self.inner], []).result
        with parallel([*self.batch, panels]) as places:
            *batch, panel = places
            start = arith.MulIOp(panel, rtcalls.index(width)).result

            def element(term: ir.Value, column: ir.Value) -> None:
                points = self.points(batch, self.of_.inner, term)
                points[self.of_.columns] = arith.AddIOp(start, column).result
                value = self.guarded(self.of_.right, points, self.of_.columns, self.columns)
                memref.StoreOp(value, packed, [*batch, panel, term, column])

            self.fill(element, self.inner, width, across=self.of_.right.is_along(self.of_.inner))
        return packed

    def fill(self, element: Callable[[ir.Value, ir.Value], None], terms: ir.Value, width: int, *, across: bool) -> None:
        """Two loops over a panel; ``across``: the terms are the inner one."""
        extents = [terms, rtcalls.index(width)]
        with loop(extents[1] if across else extents[0]) as outer, loop(extents[0] if across else extents[1]) as inner:
            element(*((inner, outer) if across else (outer, inner)))

    def points(self, batch: list[ir.Value], which: int, value: ir.Value) -> dict[int, ir.Value]:
        """Places in the iteration space: the batch, and one more loop."""
        return {**dict(zip(self.of_.batch, batch, strict=True)), which: value}

    def guarded(self, array: products.Array, points: dict[int, ir.Value], which: int, extent: ir.Value) -> ir.Value:
        """An element, or zero outside of the array along one loop. Outside, the last element is read."""
        place = points[which]
        inside = arith.CmpIOp(arith.CmpIPredicate.slt, place, extent).result
        last = arith.SubIOp(extent, rtcalls.index(1)).result
        value = array.load({**points, which: arith.MinSIOp(place, last).result})
        return arith.SelectOp(inside, value, self.tile.zero()).result


@dataclass(frozen=True)
class _Block:
    """One item of the parallel loop: some rows, and some panels of columns."""

    work: _Work
    packed: ir.Value
    batch: tuple[ir.Value, ...]
    start: ir.Value
    """First row."""

    def emit(self, first: ir.Value, end: ir.Value) -> None:
        work, tile = self.work, self.work.tile
        left = memref.AllocaOp(ir.MemRefType.get([_PANELS, work.depth, tile.rows], work.of_.element), [], []).result
        rest = memref.AllocaOp(ir.MemRefType.get([tile.rows, tile.columns], work.of_.element), [], []).result
        height = minimum(arith.SubIOp(work.rows, self.start).result, rtcalls.index(_PANELS * tile.rows))
        panels = arith.CeilDivUIOp(height, rtcalls.index(tile.rows)).result
        with loop(work.inner, step=work.depth) as origin:
            terms = minimum(arith.SubIOp(work.inner, origin).result, rtcalls.index(work.depth))
            self._pack_left(left, panels, origin, terms)
            with loop(end, start=first) as column_panel, loop(panels) as row_panel:
                right = [*self.batch, column_panel]
                sums = tile.multiply(left, row_panel, (self.packed, right, origin), terms)
                row = arith.AddIOp(self.start, arith.MulIOp(row_panel, rtcalls.index(tile.rows)).result).result
                column = arith.MulIOp(column_panel, rtcalls.index(tile.columns)).result
                self._put_block(sums, rest, (row, column), origin)

    def _pack_left(self, left: ir.Value, panels: ir.Value, origin: ir.Value, terms: ir.Value) -> None:
        """``[panel, term, row]``; rows that do not exist are zero."""
        work, of_ = self.work, self.work.of_
        with loop(panels) as panel:
            start = arith.AddIOp(self.start, arith.MulIOp(panel, rtcalls.index(work.tile.rows)).result).result

            def element(term: ir.Value, row: ir.Value) -> None:
                points = work.points(list(self.batch), of_.inner, arith.AddIOp(origin, term).result)
                points[of_.rows] = arith.AddIOp(start, row).result
                value = work.guarded(of_.left, points, of_.rows, work.rows)
                memref.StoreOp(value, left, [panel, term, row])

            work.fill(element, terms, work.tile.rows, across=of_.left.is_along(of_.inner))

    def _put_block(
        self, sums: list[ir.Value], rest: ir.Value, corner: tuple[ir.Value, ir.Value], origin: ir.Value
    ) -> None:
        """The first terms overwrite what is in an empty output."""
        if not self.work.empty:
            self._put(sums, rest, corner, add=True)
            return
        with when(arith.CmpIOp(arith.CmpIPredicate.eq, origin, rtcalls.index(0)).result) as otherwise:
            self._put(sums, rest, corner, add=False)
            with otherwise:
                self._put(sums, rest, corner, add=True)

    def _put(self, sums: list[ir.Value], rest: ir.Value, corner: tuple[ir.Value, ir.Value], *, add: bool) -> None:
        """Write a tile, or add it to the output: by vectors where it is whole, through memory at the edges."""
        work, tile, out = self.work, self.work.tile, self.work.of_.out
        row, column = corner
        height = minimum(arith.SubIOp(work.rows, row).result, rtcalls.index(tile.rows))
        width = minimum(arith.SubIOp(work.columns, column).result, rtcalls.index(tile.columns))
        whole = arith.AndIOp(
            arith.CmpIOp(arith.CmpIPredicate.eq, height, rtcalls.index(tile.rows)).result,
            arith.CmpIOp(arith.CmpIPredicate.eq, width, rtcalls.index(tile.columns)).result,
        ).result

        def places(down: ir.Value, along: ir.Value) -> list[ir.Value]:
            points = work.points(list(self.batch), work.of_.rows, arith.AddIOp(row, down).result)
            points[work.of_.columns] = arith.AddIOp(column, along).result
            return [points[each] for each in out.loops]

        def by_elements() -> None:
            tile.store(sums, rest)
            with loop(height) as down, loop(width) as along:
                value = memref.LoadOp(rest, [down, along]).result
                place = places(down, along)
                value = tile.add(memref.LoadOp(out.value, place).result, value) if add else value
                memref.StoreOp(value, out.value, place)

        if not out.is_along(work.of_.columns):
            by_elements()
            return
        with when(whole) as otherwise:
            tile.put_rows(sums, out.value, places, add=add)
            with otherwise:
                by_elements()
