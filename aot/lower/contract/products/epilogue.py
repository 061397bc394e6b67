"""What happens to the elements of a product before they are stored: the source's own bodies, on values.

In: the operations around a contraction, as a graph of steps, and the sum of one element or of neighbouring ones.
Out: the values to store, computed at the insertion point.

``%c = a * b; %d = max(%c + bias[n], 0)``: one step whose inputs are the sum and a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, memref, vector

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import load_vector, store_vector
from aot.lower.fast.regions.places import VECTOR_BYTES, Extent, is_wide
from aot.lower.hostmodule import rtcalls

_MOST = 8
"""Elements of a vector; more would only take registers."""


@dataclass(frozen=True, eq=False)
class Array:
    """Memory with the indices ``batch..., m, n``, or a number of host code (then without strides)."""

    memory: ir.Value
    strides: tuple[Extent, ...] = ()
    """In elements; 0: one element for all indices of the loop."""

    @property
    def is_memory(self) -> bool:
        return isinstance(self.memory.type, ir.MemRefType)

    @property
    def along_n(self) -> bool:
        """Whether neighbours along ``n`` can be one vector."""
        return self.is_memory and self.strides[-1].static == 1 and is_wide(ir.MemRefType(self.memory.type).element_type)

    @property
    def same_along_n(self) -> bool:
        return not self.is_memory or self.strides[-1].static == 0


@dataclass(frozen=True, eq=False)
class Total:
    """The finished sum."""


@dataclass(frozen=True, eq=False)
class Step:
    """One elementwise operation of the source."""

    body: ir.Block
    yielded: tuple[ir.Value, ...]
    inputs: tuple[Input | None, ...]
    """For each argument of the body; None where it is not used."""
    loops: tuple[int, ...]
    """For each of its loops the index, among ``batch..., m, n``, that it is."""
    narrow: bool = False
    """Whether nothing but narrow floats are stored in the end: divisions and exponentials may be the hardware's."""
    known: tuple[tuple[ir.Value, bool], ...] = ()
    """Conditions of the body that always hold, or never."""


@dataclass(frozen=True, eq=False)
class Result:
    """One value that a step yields."""

    step: Step
    number: int


Input = Array | Total | Result


@dataclass(frozen=True, eq=False)
class Place:
    """An element, or ``width`` of them along ``n``."""

    batch: tuple[ir.Value, ...]
    row: ir.Value
    column: ir.Value
    width: int = 1

    @property
    def indices(self) -> list[ir.Value]:
        return [*self.batch, self.row, self.column]


@dataclass(frozen=True, eq=False)
class Epilogue:
    """From sums to stores."""

    initial: Input | None
    """Added to the sum; None for a sum that begins at zero."""
    stores: tuple[tuple[Array, Input], ...]
    """Where each value goes."""

    def arrays(self) -> list[Array]:
        """All memory that is written or read, each once, in this order."""
        return list(dict.fromkeys([*(array for array, _ in self.stores), *self.read()]))

    def read(self) -> list[Array]:
        """All memory that is read."""
        found: list[Array] = []

        def visit(node: Input | None) -> None:
            if isinstance(node, Array) and node.is_memory:
                found.append(node)
            elif isinstance(node, Result):
                for each in node.step.inputs:
                    visit(each)

        visit(self.initial)
        for _, node in self.stores:
            visit(node)
        return found

    def may_exceed(self, limit: float) -> bool:
        """Whether finite numbers that it reads (of f16: none), or that stand in it, may be beyond ``limit``."""

        def visit(node: Input | None) -> bool:
            if isinstance(node, Array):
                kind = getattr(node.memory.type, "element_type", node.memory.type)
                return isinstance(kind, ir.FloatType) and not isinstance(kind, ir.F16Type)
            if not isinstance(node, Result):
                return False
            step, made = node.step, node.step.yielded[node.number]
            known = dict(step.known)
            ops = bodies.needed(step.body, [made], known)
            used = {made, *(value for op in ops for inner in mlir.walk(op) for value in _chosen(inner, known))}
            numbers = (literals.real(value) for value in used)
            return any(number is not None and limit <= abs(number) < float("inf") for number in numbers) or any(
                visit(given) for own, given in zip(step.body.arguments, step.inputs, strict=True) if own in used
            )

        return visit(self.initial) or any(visit(node) for _, node in self.stores)

    def values(self, total: ir.Value, at: Place) -> list[ir.Value]:
        """What is to be stored, for a sum (a vector if the place is wide) that has not got its initial value."""
        memo: dict[object, ir.Value] = {}
        if self.initial is not None:
            start = _spread(_value(self.initial, at, memo), at.width)
            is_float = isinstance(getattr(total.type, "element_type", total.type), ir.FloatType)
            total = (arith.AddFOp if is_float else arith.AddIOp)(start, total).result
        memo[Total] = total
        return [_spread(_value(node, at, memo), at.width) for _, node in self.stores]

    def store(self, values: Sequence[ir.Value], at: Place) -> None:
        """Store what ``values`` gave."""
        for (array, _), value in zip(self.stores, values, strict=True):
            if at.width > 1 and array.along_n:
                store_vector(value, array.memory, at.indices)
                continue
            for number, each in enumerate(bodies.unpack(value)):
                memref.StoreOp(each, array.memory, [*at.batch, at.row, bodies.plus(at.column, number)])


def _chosen(op: ir.Operation, known: Mapping[ir.Value, bool]) -> Sequence[ir.Value]:
    """What an operation makes its result of: of a choice whose condition is known, one value."""
    if op.name == "arith.select" and op.operands[0] in known:
        return [op.operands[1 if known[op.operands[0]] else 2]]
    return list(op.operands)


def _value(node: Input, at: Place, memo: dict[object, ir.Value]) -> ir.Value:
    if isinstance(node, Total):
        return memo[Total]
    if isinstance(node, Array):
        if node not in memo:
            memo[node] = _loaded(node, at)
        return memo[node]
    if (node.step, node.number) not in memo:
        results = _step(node.step, at, memo)
        memo.update(((node.step, number), value) for number, value in enumerate(results))
    return memo[node.step, node.number]


def _loaded(array: Array, at: Place) -> ir.Value:
    """A vector along ``n``, or one value for all of it."""
    if not array.is_memory:
        return array.memory
    kind = ir.MemRefType(array.memory.type)
    if at.width == 1 or array.same_along_n:
        return memref.LoadOp(array.memory, at.indices).result
    if array.along_n:
        return load_vector(array.memory, at.indices, at.width, kind.element_type)
    places = [[*at.batch, at.row, bodies.plus(at.column, number)] for number in range(at.width)]
    return bodies.pack([memref.LoadOp(array.memory, place).result for place in places])


def _step(step: Step, at: Place, memo: dict[object, ir.Value]) -> list[ir.Value]:
    arguments = [None if each is None else _value(each, at, memo) for each in step.inputs]
    if at.width == 1:
        return bodies.evaluate(
            step.body, arguments, lambda loop: at.indices[step.loops[loop]], step.yielded, dict(step.known)
        )
    if bodies.is_vectorial(step.body, step.yielded):
        return bodies.evaluate_vector(
            *(step.body, arguments, lambda loop: _lanes(at, step.loops[loop]), step.yielded, at.width),
            approximate=step.narrow,
            known=dict(step.known),
        )
    rows = []
    for number in range(at.width):
        mine = [None if each is None else _lane(each, number) for each in arguments]
        here = Place(at.batch, at.row, bodies.plus(at.column, number))
        rows.append(bodies.evaluate(step.body, mine, _indices(step, here), step.yielded, dict(step.known)))
    return [bodies.pack([row[number] for row in rows]) for number in range(len(step.yielded))]


def _indices(step: Step, at: Place) -> bodies.Index:
    return lambda loop: at.indices[step.loops[loop]]


def _lanes(at: Place, index: int) -> ir.Value:
    return bodies.steps(at.column, at.width) if index == len(at.batch) + 1 else at.indices[index]


def _lane(value: ir.Value, number: int) -> ir.Value:
    return vector.ExtractOp(value, [], [number]).result if isinstance(value.type, ir.VectorType) else value


def _spread(value: ir.Value, width: int) -> ir.Value:
    return value if isinstance(value.type, ir.VectorType) else bodies.broadcast(value, width)


def width(stores: Epilogue) -> int:
    """Neighbouring elements that fill a vector of the narrowest memory."""
    sizes = [rtcalls.storage_bytes(ir.MemRefType(each.memory.type).element_type) for each in stores.arrays()]
    return max(1, min(_MOST, VECTOR_BYTES // min(sizes)))


def accumulated(total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    """``total + left * right`` of vectors, rounded once if these are floats."""
    if isinstance(total.type.element_type, ir.FloatType):
        return math.FmaOp(left, right, total).result
    return arith.AddIOp(total, arith.MulIOp(left, right).result).result


def zero(kind: ir.Type) -> ir.Value:
    """A sum's neutral element, as a number or a vector."""
    element = getattr(kind, "element_type", kind)
    attribute: ir.Attribute = (
        ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    )
    if isinstance(kind, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
    return arith.ConstantOp(kind, attribute).result


def constant_index(value: int) -> Extent:
    """A known extent or stride."""
    return Extent(rtcalls.index(value), value)
