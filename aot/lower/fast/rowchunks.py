"""Which columns of a row a thread has.

In: a tile, the thread's place among those of its row, and an evaluator. Out: chunks, and how many turns reach the end.

Neighbouring threads have neighbouring vectors: chunk ``k`` of thread ``t`` is vector ``k * threads + t`` of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower import rtcalls
from aot.lower.fast import bodies
from aot.lower.fast.chunks import EXACT, SHIFTED, Chunk, Evaluator
from aot.lower.fast.rowjob import Tile


@dataclass(frozen=True)
class Deal:
    """How columns are dealt out to the threads of a row."""

    tile: Tile
    code: Evaluator
    lane: ir.Value
    """The thread among those of its row."""
    threads: ir.Value
    """How many there are."""

    def turns(self) -> ir.Value:
        """Iterations that reach the end of the longest row."""
        extra = self.tile.reach - 1 + (self.tile.width - 1 if self.tile.mode == SHIFTED else 0)
        total = arith.AddIOp(self.code.space.columns.value, rtcalls.index(extra)).result
        return arith.DivUIOp(total, rtcalls.index(self.tile.reach)).result

    def chunks(self, turn: ir.Value | None) -> list[Chunk]:
        """The thread's chunks of one turn; of the only one without a turn."""
        tile = self.tile
        first = arith.MulIOp(self.lane, rtcalls.index(tile.width)).result
        if turn is not None:
            first = arith.AddIOp(first, arith.MulIOp(turn, rtcalls.index(tile.reach)).result).result
        if not tile.flexible:
            return [self._chunk(bodies.plus(first, k * tile.group * tile.width)) for k in range(tile.vectors)]
        stride, found = arith.MulIOp(self.threads, rtcalls.index(tile.width)).result, [first]
        while len(found) < tile.vectors:
            found.append(arith.AddIOp(found[-1], stride).result)
        return [self._chunk(each) for each in found]

    def _chunk(self, position: ir.Value) -> Chunk:
        columns = self.code.space.columns.value
        if self.tile.mode == EXACT:
            return Chunk(position, position)
        if self.tile.mode != SHIFTED:
            return Chunk(position, position, arith.CmpIOp(arith.CmpIPredicate.ult, position, columns).result)
        assert self.code.shift is not None
        column = arith.SubIOp(position, self.code.shift).result
        valid = arith.CmpIOp(arith.CmpIPredicate.slt, column, columns).result
        begins = arith.CmpIOp(arith.CmpIPredicate.sge, column, rtcalls.index(0)).result
        end = arith.SubIOp(columns, rtcalls.index(self.tile.width)).result
        ends = arith.CmpIOp(arith.CmpIPredicate.sle, column, end).result
        return Chunk(column, position, valid, arith.AndIOp(begins, ends).result)

    def mask(self, chunk: Chunk) -> ir.Value:
        """Which columns of a chunk are in the row. As unsigned numbers, those before it are large."""
        columns = bodies.broadcast(self.code.space.columns.value, self.tile.width)
        return arith.CmpIOp(arith.CmpIPredicate.ult, bodies.steps(chunk.column, self.tile.width), columns).result
