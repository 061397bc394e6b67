"""Attention written with tensor operations: where it is.

In: a contraction in a block of host code, after buffers are settled. Out: the chain that begins with it, if it is

``scores = queries @ keys; what the source makes of them; largest; exp(scores - largest); total; weights = exp / total;
result = weights @ values``

with all intermediate results in memory that nobody else sees; or, as fused kernels are written, with ``weights = exp``
and results that are divided by the total.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.attention import divided
from aot.lower.contract.products import contraction, matching
from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.matching import Match
from aot.lower.fast.regions import hazards, operations
from aot.lower.fast.regions.extents import Extents
from aot.lower.fast.regions.operations import Operation
from aot.lower.tolinalg import maskedrows

_LARGEST = ("arith.maximumf", "arith.maxnumf")
_POWERS = {"math.exp": math.e, "math.exp2": 2.0}


@dataclass(frozen=True)
class Chain:
    """One attention."""

    scores: Match
    middle: tuple[ir.Operation, ...]
    """The softmax's operations."""
    output: Match
    zeros: bool
    """Rows without any key are zeros, not NaN."""
    base: float
    """What weights are powers of: e or 2."""
    divisor: int | None
    """Operand of the output's first operation by which it divides, if that is the total; else weights are divided."""

    @property
    def operations(self) -> list[ir.Operation]:
        return [*self.scores.operations, *self.middle, *self.output.operations]


def find(op: ir.Operation, tensors: Collection[ir.Value]) -> Chain | None:
    """The chain that begins with a contraction."""
    known = Extents()
    read = contraction.read(op, known)
    if isinstance(read, str):
        return None
    scores = matching.match(read, known, tensors)
    if len(scores.stores) != 1 or scores.start is None:
        return None
    chase = _Chase(scores, known)
    output = chase.to_output()
    if output is None:
        return None
    last = matching.match(output, known, tensors)
    divisor = divided.divisor(last, chase.total) if chase.total else None
    if chase.total and (divisor is None or chase.zeros):
        return None
    found = Chain(scores, tuple(chase.ops), last, chase.zeros, chase.base, divisor)
    fits = found.output.start is not None and _is_closed(found, chase.own) and not _overwrites(found, tensors)
    return found if fits else None


class _Chase:
    """Follows the scores through their softmax."""

    def __init__(self, scores: Match, known: Extents) -> None:
        self.known = known
        self.ops: list[ir.Operation] = []
        self.block = [each.operation for each in scores.last.block.operations]
        self.place = self.block.index(scores.last)
        self.rank = ir.MemRefType(scores.stores[0].value.type).rank
        self.own = [store.value for store in scores.stores]
        self.zeros, self.base = False, math.e
        self.total: ir.Value | None = None
        """What results must be divided by, if weights are not."""

    def to_output(self) -> Contraction | None:
        """The contraction of the weights with the values, if all between it and the scores is their softmax."""
        scores = self.own[0]
        largest = self._reduced(scores, _LARGEST, _is_least)
        powers = self._made((scores, largest), self._is_power) if largest else None
        narrowed = self._made((powers,), self._is_narrowed) if powers else None
        total = self._reduced(powers, ("arith.addf",), lambda _, value: value == 0.0) if powers else None
        if powers is None or total is None or str(ir.MemRefType(total.type).element_type) != "f32":
            return None
        weights = narrowed or self._made((powers, total), self._is_quotient)
        if weights is None:
            weights = narrowed = self._made((powers,), self._is_narrowed)
        self.total = total if narrowed else None
        if weights is None:
            return None
        for op in self.block[self.place + 1 :]:
            if weights in list(op.operands) and op.name not in ("memref.dealloc", "memref.dim"):
                read = contraction.read(op, self.known)
                return read if not isinstance(read, str) and read.left.value == weights else None
        return None

    def _next(self, memory: ir.Value) -> Operation | None:
        """The next operation that reads some memory, row by row as it lies."""
        for number, op in enumerate(self.block[self.place + 1 :], self.place + 1):
            if op.name != "linalg.generic" or memory not in list(op.operands):
                continue
            read = operations.read(op, self.known)
            if isinstance(read, str) or len(read.outputs) != 1:
                return None
            self.place = number
            return read
        return None

    def _reduced(
        self, memory: ir.Value, names: tuple[str, ...], begins: Callable[[str, float], bool]
    ) -> ir.Value | None:
        """What the rows of some memory are reduced to, by one of these operations, and from where it may begin."""
        read = self._next(memory)
        if read is None or len(read.operands) != 2 or sum(read.reduces) != 1 or not read.reduces[-1]:
            return None
        source, target = read.operands
        order = tuple(range(self.rank))
        if (source.value, source.loops, target.loops) != (memory, order, order[:-1]):
            return None
        made = mlir.owner(read.yielded[0])
        if isinstance(made, ir.Block) or made.name not in names:
            return None
        if {_widened(each) for each in made.operands} != set(read.body.arguments):
            return None
        fill = self._filled(target.value, read.op)
        if fill is None or not begins(made.name, fill[1]):
            return None
        self.ops += [fill[0], read.op]
        self.own.append(target.value)
        return target.value

    def _filled(self, memory: ir.Value, reader: ir.Operation) -> tuple[ir.Operation, float] | None:
        """The operation that fills some memory before it is read, and the number."""
        for op in reversed(self.block[: self.block.index(reader)]):
            if memory in list(op.operands) and op.name not in ("memref.dim", "memref.dealloc"):
                value = _fill(op)
                return None if value is None else (op, value)
        return None

    def _made(self, sources: tuple[ir.Value, ...], matches: Callable[[Operation], bool]) -> ir.Value | None:
        """What the next operation makes of each element, and of its row's number if that is given."""
        before, order = self.place, tuple(range(self.rank))
        read = self._next(sources[0])
        if read is None or any(read.reduces) or len(read.operands) != len(sources) + 1:
            self.place = before
            return None
        *given, target = read.operands
        loops = [order, order[:-1]][: len(given)]
        alike = [each.value for each in given] == list(sources) and [each.loops for each in given] == loops
        if not alike or target.loops != order or not matches(read):
            self.place = before
            return None
        self.ops.append(read.op)
        self.own.append(target.value)
        return target.value

    def _is_power(self, read: Operation) -> bool:
        """``exp(element - row)``, or ``exp2`` of it."""
        one, other, _ = read.body.arguments
        power = mlir.owner(read.yielded[0])
        if isinstance(power, ir.Block) or power.name not in _POWERS:
            return False
        self.base = _POWERS[power.name]
        difference = mlir.owner(power.operands[0])
        if isinstance(difference, ir.Block) or difference.name != "arith.subf":
            return False
        base = maskedrows.base_of(difference.operands[1])
        self.zeros = base != difference.operands[1]
        return [difference.operands[0], base] == [one, other]

    def _is_narrowed(self, read: Operation) -> bool:
        """Whether it is the element, made narrow."""
        made = mlir.owner(read.yielded[0])
        return (
            not isinstance(made, ir.Block)
            and made.name == "arith.truncf"
            and made.operands[0] == read.body.arguments[0]
        )

    def _is_quotient(self, read: Operation) -> bool:
        """``element / row``, or ``element * (1 / row)``, made narrow or not."""
        one, other, _ = read.body.arguments
        value = read.yielded[0]
        narrowed = mlir.owner(value)
        if not isinstance(narrowed, ir.Block) and narrowed.name == "arith.truncf":
            value = narrowed.operands[0]
        quotient = maskedrows.quotient_of(value)
        made = mlir.owner(quotient)
        if isinstance(made, ir.Block) or self.zeros != (quotient != value):
            return False
        if made.name == "arith.mulf":
            return any(
                each == one and divided.is_inverse(of, other) for each, of in itertools.permutations(made.operands)
            )
        return made.name == "arith.divf" and [made.operands[0], divided.rounded(made.operands[1])] == [one, other]


def _widened(value: ir.Value) -> ir.Value:
    """What a value is a wider one of, or the value itself."""
    return _before(value, "arith.extf")


def _before(value: ir.Value, conversion: str) -> ir.Value:
    op = mlir.owner(value)
    return value if isinstance(op, ir.Block) or op.name != conversion else op.operands[0]


def _fill(op: ir.Operation) -> float | None:
    """The number that an operation fills memory with."""
    if op.name == "linalg.fill":
        value = op.operands[0]
    elif op.name == "linalg.generic" and len(op.operands) in (1, 2):
        body = op.regions[0].blocks[0]
        value, *others = list(body.operations)[-1].operation.operands
        if others:
            return None
        value = op.operands[0] if value == body.arguments[0] else value
    else:
        return None
    return literals.real(value)


def _is_least(name: str, value: float) -> bool:
    """Whether a search for the largest may begin there: below all numbers, or at a NaN that is left out."""
    return value <= -3.4e38 or (name == "arith.maxnumf" and math.isnan(value))


def _is_closed(chain: Chain, own: list[ir.Value]) -> bool:
    """Whether nobody else sees the memory between, and nothing else happens between the operations."""
    members = set(chain.operations)
    if any(not list(hazards.only_used_by(hazards.whole(memory), members)) for memory in own):
        return False
    block = [each.operation for each in chain.output.last.block.operations]
    first = min(block.index(op) for op in members)
    return all(op in members or matching.is_between(op) for op in block[first : block.index(chain.output.last)])


def _overwrites(chain: Chain, tensors: Collection[ir.Value]) -> bool:
    """Whether results may lie where other blocks still read queries, keys or masks."""
    scores = chain.scores.contraction
    read = [scores.left.value, scores.right.value, *(value for value, _ in matching.reads_of(chain.scores))]
    written = [store.value for store in chain.output.stores]
    return any(matching.may_overlap(one, other, tensors) for one in read for other in written)
