"""A contraction and the elementwise operations around it that its kernel can do, too.

In: a contraction in a block of host code. Out: a Match: what begins the sum, what becomes of it, which memory is
written, and what is left to erase.

``fill 0 -> %c; matmul %a, %b -> %c; generic max(%c + %bias, 0) -> %d; dealloc %c`` is one match, which stores ``%d``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views
from aot.lower.checks import asserts
from aot.lower.contract.products.contraction import Contraction
from aot.lower.fast.regions import hazards, operations
from aot.lower.fast.regions.extents import Extents
from aot.lower.fast.regions.operations import ZERO, Operation

_BETWEEN = frozenset({"memref.alloc", "memref.dealloc", "memref.dim", "cf.assert", asserts.CARRIER}) | views.VIEWS
_WIDENING = frozenset({"arith.extf", "arith.extsi", "arith.extui"})
_QUIET_DIALECTS = frozenset({"arith", "index", "affine"})


@dataclass(frozen=True)
class Elementwise:
    """An operation whose loops are the result's."""

    operation: Operation
    loops: tuple[int, ...]
    """For each loop, the contraction's."""

    def indices(self, number: int) -> tuple[int, ...]:
        """The contraction's loop of each index of an operand."""
        return tuple(ZERO if loop == ZERO else self.loops[loop] for loop in self.operation.operands[number].loops)


@dataclass(frozen=True)
class Store:
    """Memory that other code may see."""

    value: ir.Value
    loops: tuple[int, ...]
    maker: Elementwise | None
    """None: the sum itself."""
    number: int = 0
    """Of the maker's results."""


@dataclass(frozen=True)
class Match:
    """All that one launch does."""

    contraction: Contraction
    start: Elementwise | None
    """What the sum begins with; None: with what lies in the result's memory."""
    tails: tuple[Elementwise, ...] = ()
    stores: tuple[Store, ...] = ()
    dead: tuple[ir.Operation, ...] = field(default=())
    """Allocations, and what frees them, that nothing else uses."""
    freed: tuple[ir.Operation, ...] = field(default=())
    """Deallocations among the operations: they belong after the launch."""

    @property
    def last(self) -> ir.Operation:
        """The operation at whose place the kernel is launched."""
        return self.tails[-1].operation.op if self.tails else self.contraction.op

    @property
    def operations(self) -> list[ir.Operation]:
        elementwise = [*((self.start,) if self.start else ()), *self.tails]
        return [self.contraction.op, *(each.operation.op for each in elementwise)]


def match(contraction: Contraction, known: Extents, tensors: Collection[ir.Value]) -> Match:
    """The largest match around a contraction."""
    ops = [each.operation for each in contraction.op.block.operations]
    place = ops.index(contraction.op)
    start = _start(contraction, ops[:place], known)
    tails = _tails(contraction, ops[place + 1 :], known)
    while True:
        found = _complete(Match(contraction, start, tuple(tails)), ops)
        if not _hazard(found, tensors) and not _ends_widened(found):
            return found
        if tails:
            tails.pop()
        else:
            start = None


def _ends_widened(found: Match) -> bool:
    """Whether the last operation only stores in a wider type what is stored as it is, too: who reads it can do that."""
    if not found.tails:
        return False
    last = found.tails[-1].operation
    steps = [each.operation for each in last.body.operations]
    reads = [each.value for each in last.operands if each.is_memory and each.read]
    narrow = len(steps) == 2 and steps[0].name in _WIDENING and len(reads) == 1
    return narrow and any(store.value == reads[0] for store in found.stores)


def is_between(op: ir.Operation) -> bool:
    """Whether an operation may stand among those of one job: it makes no values of arrays."""
    return op.name in _BETWEEN or op.name.split(".")[0] in _QUIET_DIALECTS


def _start(contraction: Contraction, before: Sequence[ir.Operation], known: Extents) -> Elementwise | None:
    """What writes the result's memory before; only right before, unless nobody else can see that memory."""
    memory = contraction.out.value
    own = overlap.is_own(views.root(memory))
    adjacent = True
    for op in reversed(before):
        if touches(op, views.root(memory)):
            found = _elementwise(op, memory, contraction.out.loops, known, written=True)
            # Of several results only the sum's start would be kept.
            if found is None or len(found.operation.outputs) != 1 or _looks_at_results(found.operation):
                return None
            reads = any(each.is_memory and each.read for each in found.operation.operands)
            return found if adjacent or (own and not reads) else None
        adjacent = adjacent and is_between(op)
    return None


def _looks_at_results(operation: Operation) -> bool:
    """Whether it reads what it is about to overwrite."""
    return any(operation.operands[number].read for number in operation.outputs)


def touches(op: ir.Operation, root: ir.Value) -> bool:
    """Whether an operation reads or writes some memory."""
    return any(
        views.is_memref(value) and views.root(value) == root
        for inner in mlir.walk(op)
        if inner.name not in views.VIEWS and inner.name not in ("memref.dim", "memref.dealloc")
        for value in inner.operands
    )


def _tails(contraction: Contraction, behind: Sequence[ir.Operation], known: Extents) -> list[Elementwise]:
    made = {hazards.whole(contraction.out.value): (contraction.out.value, contraction.out.loops)}
    tails: list[Elementwise] = []
    for op in behind:
        if is_between(op):
            continue
        found = next((tail for each in made.values() if (tail := _elementwise(op, *each, known, written=False))), None)
        if found is None or not _forwards(found, made):
            break
        tails.append(found)
        for number in found.operation.outputs:
            value = found.operation.operands[number].value
            made[hazards.whole(value)] = (value, found.indices(number))
    return tails


def _elementwise(
    op: ir.Operation, memory: ir.Value, loops: tuple[int, ...], known: Extents, *, written: bool
) -> Elementwise | None:
    """The operation, when it reads or writes the memory and all its loops are those of the memory's indices."""
    read = operations.read(op, known) if op.name == "linalg.generic" else ""
    if isinstance(read, str) or any(read.reduces) or len(read.extents) != len(loops):
        return None
    for operand in read.operands:
        used = operand.written if written else operand.read
        if used and operand.value == memory and sorted(operand.loops) == list(range(len(loops))):
            return Elementwise(read, tuple(loops[operand.loops.index(loop)] for loop in range(len(loops))))
    return None


def _forwards(tail: Elementwise, made: dict[ir.Value, tuple[ir.Value, tuple[int, ...]]]) -> bool:
    """Whether what it reads of the products before it is their own element, and its results have all loops."""
    for number, operand in enumerate(tail.operation.operands):
        product = made.get(hazards.whole(operand.value)) if operand.is_memory else None
        mine = (operand.value, tail.indices(number))
        if operand.written and sorted(mine[1]) != sorted(tail.loops):
            return False
        if product is not None and (operand.read or operand.written) and product != mine:
            return False
    return True


def _complete(found: Match, ops: Sequence[ir.Operation]) -> Match:
    """With stores, and what is to be erased or moved."""
    first = found.start.operation.op if found.start else found.contraction.op
    frees = [op for op in ops[ops.index(first) : ops.index(found.last)] if op.name == "memref.dealloc"]
    members = set(found.operations)
    dead: list[ir.Operation] = []
    stores: dict[ir.Value, Store] = {}
    stores[hazards.whole(found.contraction.out.value)] = Store(
        found.contraction.out.value, found.contraction.out.loops, None
    )
    for tail in found.tails:
        for number, output in enumerate(tail.operation.outputs):
            value = tail.operation.operands[output].value
            stores[hazards.whole(value)] = Store(value, tail.indices(output), tail, number)
    kept = []
    for memory, store in stores.items():
        unseen = list(hazards.only_used_by(memory, members | set(frees)))
        dead += unseen
        if not unseen:
            kept.append(store)
    freed = tuple(op for op in frees if op not in dead)
    return replace(found, stores=tuple(kept), dead=tuple(dict.fromkeys(dead)), freed=freed)


def _hazard(found: Match, tensors: Collection[ir.Value]) -> bool:
    """Whether a store may change what another thread of the launch still reads."""
    contraction = found.contraction
    reads = reads_of(found)
    for store in found.stores:
        own = hazards.whole(store.value)
        for value, loops in [*reads, *((each.value, each.loops) for each in found.stores if each != store)]:
            if hazards.whole(value) == own and (value, loops) == (store.value, store.loops):
                continue
            if may_overlap(value, store.value, tensors):
                return True
        # Of the operation alone linalg promises that its result is not among its operands.
        promised = store.maker is None and own == hazards.whole(contraction.out.value)
        for factor in (contraction.left, contraction.right):
            if not promised and may_overlap(factor.value, store.value, tensors):
                return True
    return False


def reads_of(found: Match) -> list[tuple[ir.Value, tuple[int, ...]]]:
    """Memory that is read besides the factors, and how; values of operations of the match stay in registers."""
    made: set[ir.Value] = set()
    reads = []
    for each in [*((found.start,) if found.start else ()), None, *found.tails]:
        if each is None:
            made.add(hazards.whole(found.contraction.out.value))
            continue
        for number, operand in enumerate(each.operation.operands):
            if operand.is_memory and operand.read and hazards.whole(operand.value) not in made:
                reads.append((operand.value, each.indices(number)))
        made |= {hazards.whole(each.operation.operands[number].value) for number in each.operation.outputs}
    if found.start is None:
        reads.append((found.contraction.out.value, found.contraction.out.loops))
    return reads


def may_overlap(one: ir.Value, other: ir.Value, tensors: Collection[ir.Value]) -> bool:
    """Whether two arrays may share memory; ``tensors`` as in ``overlap``."""
    roots = views.root(one), views.root(other)
    return roots[0] == roots[1] or not overlap.separate(*roots, tensors)
