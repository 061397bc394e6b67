"""Values of a region without reductions, for one thread: neighbouring elements of all loops together.

In: a region whose columns are all loops, and its places. Out: values by the number of an element.

Memory with all loops and no gaps is read in vectors wherever these lie. Other operands are indexed by the loops, which
the element's number is divided into: in vectors, or one element for all, where the innermost loop is whole vectors
(``whole``); element by element elsewhere, counting on from the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.fast.region import Node, Source
from aot.lower.fast.regions import bodies, places
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise.chunks import Chunk, Evaluator
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches


@dataclass
class FlatEvaluator(Evaluator):
    """Evaluates nodes by the number of an element."""

    whole: ir.Value | bool = True
    """Whether vectors lie within the innermost loop."""

    def prefetch(self, nodes: Sequence[Source], chunks: Sequence[Chunk]) -> None:
        """Begin all loads before anything waits for one."""
        flat = [node for node in nodes if self.places[node].flat]
        others = [node for node in nodes if node not in flat]
        super().prefetch(flat, chunks)
        for chunk in chunks:
            if others:
                self._prefetch_indexed(others, chunk)

    def _prefetch_indexed(self, nodes: Sequence[Source], chunk: Chunk) -> None:
        values = self._indexed([self.places[node] for node in nodes], chunk)
        for node, value in zip(nodes, values, strict=True):
            if not isinstance(value.type, ir.VectorType):
                chunk.memo[("one", node)] = value
            chunk.memo[("raw", node)] = self._spread(value)

    def _spread(self, value: ir.Value) -> ir.Value:
        return value if isinstance(value.type, ir.VectorType) else bodies.broadcast(value, self.width)

    def _indexed(self, found: Sequence[Place], chunk: Chunk) -> list[ir.Value]:
        """Values of operands that are indexed by the loops."""
        column = chunk.column
        if chunk.valid is not None:
            column = arith.SelectOp(chunk.valid, column, rtcalls.index(0)).result
        digits = places.digits(column, self.space.column_loops)
        if self.width == 1 or self.whole is True:
            return [self._neighbours(place, digits) for place in found]
        if self.whole is False:
            return self._one_by_one(found, digits)
        kinds = [ir.VectorType.get([self.width], place.element) for place in found]
        return branches.chosen(
            self.whole,
            kinds,
            lambda: [self._spread(self._neighbours(place, digits)) for place in found],
            lambda: self._one_by_one(found, digits),
        )

    def _neighbours(self, place: Place, digits: Sequence[ir.Value]) -> ir.Value:
        """Elements that differ in the innermost loop; one where they are the same."""
        last = len(digits) - 1
        if last not in place.loops or self.width == 1:
            return _load(place, digits)
        if place.wide and place.loops[-1] == last:
            return load_vector(place.memory, _indices(place, digits), self.width, place.element)
        apart = [[*digits[:-1], bodies.plus(digits[-1], number)] for number in range(self.width)]
        return bodies.pack([_load(place, each) for each in apart])

    def _one_by_one(self, found: Sequence[Place], digits: Sequence[ir.Value]) -> list[ir.Value]:
        """In 32 bits along the innermost loop, whose extent has no more here: half as many instructions."""
        extents = [extent.value for extent in self.space.column_loops]
        word, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
        inner, extent = (arith.IndexCastUIOp(word, each).result for each in (digits[-1], extents[-1]))
        zero, one = (arith.ConstantOp(word, number).result for number in (0, 1))
        apart = [list(digits)]
        while len(apart) < self.width:
            more = arith.AddIOp(inner, one).result
            over = arith.CmpIOp(arith.CmpIPredicate.uge, more, extent).result
            inner = arith.SelectOp(over, zero, more).result
            outer = _next(apart[-1][:-1], extents[:-1], over)
            apart.append([*outer, arith.IndexCastUIOp(index, inner).result])
        return [bodies.pack([_load(place, each) for each in apart]) for place in found]

    def _argument(self, node: Node, chunk: Chunk, vectorial: bool) -> ir.Value:
        """One element for all, too, where an operand does not have the innermost loop."""
        if vectorial and ("one", node) in chunk.memo:
            return chunk.memo[("one", node)]
        return super()._argument(node, chunk, vectorial)

    def _has_lanes(self, body: ir.Block) -> bool:
        return self.whole is True or not bodies.asked(body)

    def _lanes(self, loop: int, chunk: Chunk) -> ir.Value:
        """Bodies that ask for indices have vectors only where these lie within the innermost loop."""
        last = len(self.space.column_loops) - 1
        number = places.digit(chunk.column, loop, self.space.column_loops)
        return bodies.steps(number, self.width) if loop == last else number


def _next(digits: Sequence[ir.Value], extents: Sequence[ir.Value], carry: ir.Value) -> list[ir.Value]:
    """The indices of outer loops after those within: innermost first, and what it carries."""
    found: list[ir.Value] = []
    for digit, extent in zip(reversed(digits), reversed(extents), strict=True):
        raised = arith.SelectOp(carry, arith.AddIOp(digit, rtcalls.index(1)).result, digit).result
        carry = arith.CmpIOp(arith.CmpIPredicate.uge, raised, extent).result
        found.append(arith.SelectOp(carry, rtcalls.index(0), raised).result)
    return found[::-1]


def _indices(place: Place, digits: Sequence[ir.Value]) -> list[ir.Value]:
    return [rtcalls.index(0) if loop < 0 else digits[loop] for loop in place.loops]


def _load(place: Place, digits: Sequence[ir.Value]) -> ir.Value:
    return memref.LoadOp(place.memory, _indices(place, digits)).result
