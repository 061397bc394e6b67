"""The innermost part of a product of matrices: one tile of the result in vector registers.

In: packed panels of both factors. Out: the tile's sums as vectors, rows first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from aot.lower.hostmodule import rtcalls
from aot.targets.cpuvariant import Variant

_SHAPES = {(16, False): (4, 2), (16, True): (6, 2), (32, True): (12, 2)}
"""(registers, fused multiply-add) -> rows and vectors of columns of a tile: as many sums as fit beside the factors."""


@dataclass(frozen=True)
class Tile:
    """Size of a tile, and arithmetic on it."""

    rows: int
    vectors: int
    lanes: int
    element: ir.Type
    fma: bool

    @staticmethod
    def of(element: ir.Type, variant: Variant) -> Tile:
        rows, vectors = _SHAPES[variant.registers, variant.fma]
        return Tile(rows, vectors, variant.vector_bytes // rtcalls.storage_bytes(element), element, variant.fma)

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def vector(self) -> ir.Type:
        return ir.VectorType.get([self.lanes], self.element)

    @property
    def is_float(self) -> bool:
        return isinstance(self.element, ir.FloatType)

    def zero(self) -> ir.Value:
        """Of the element type."""
        attribute = ir.FloatAttr.get(self.element, 0.0) if self.is_float else ir.IntegerAttr.get(self.element, 0)
        return arith.ConstantOp(self.element, attribute).result

    def add(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Of elements or vectors."""
        return (arith.AddFOp if self.is_float else arith.AddIOp)(one, other).result

    def _multiply_add(self, one: ir.Value, other: ir.Value, total: ir.Value) -> ir.Value:
        if self.is_float and self.fma:
            return vector.FMAOp(one, other, total).result
        return self.add((arith.MulFOp if self.is_float else arith.MulIOp)(one, other).result, total)

    def multiply(
        self, left: ir.Value, panel: ir.Value, right: tuple[ir.Value, Sequence[ir.Value], ir.Value], terms: ir.Value
    ) -> list[ir.Value]:
        """Sums of ``terms`` products. ``right``: packed array, its leading indices, and its first term."""
        packed, leading, origin = right
        zero = vector.BroadcastOp(self.vector, self.zero()).result
        sums = scf.ForOp(rtcalls.index(0), terms, rtcalls.index(1), [zero] * (self.rows * self.vectors))
        with ir.InsertionPoint(sums.body):
            term = sums.induction_variable
            place = arith.AddIOp(origin, term).result
            columns = [
                vector.LoadOp(self.vector, packed, [*leading, place, rtcalls.index(each * self.lanes)]).result
                for each in range(self.vectors)
            ]
            totals = list(sums.inner_iter_args)
            for row in range(self.rows):
                factor = memref.LoadOp(left, [panel, term, rtcalls.index(row)]).result
                spread = vector.BroadcastOp(self.vector, factor).result
                for each, column in enumerate(columns):
                    number = row * self.vectors + each
                    totals[number] = self._multiply_add(spread, column, totals[number])
            scf.YieldOp(totals)
        return list(sums.results)

    def put_rows(
        self,
        sums: Sequence[ir.Value],
        out: ir.Value,
        places: Callable[[ir.Value, ir.Value], list[ir.Value]],
        *,
        add: bool,
    ) -> None:
        """Write the tile, or add it, to an array whose last index runs along the columns.

        ``places``: indices from row and column.
        """
        for number, value in enumerate(sums):
            row, each = divmod(number, self.vectors)
            place = places(rtcalls.index(row), rtcalls.index(each * self.lanes))
            total = self.add(vector.LoadOp(self.vector, out, place).result, value) if add else value
            vector.StoreOp(total, out, place)

    def store(self, sums: Sequence[ir.Value], memory: ir.Value) -> None:
        """Write the tile into an array of its own size."""
        for number, value in enumerate(sums):
            row, each = divmod(number, self.vectors)
            vector.StoreOp(value, memory, [rtcalls.index(row), rtcalls.index(each * self.lanes)])
