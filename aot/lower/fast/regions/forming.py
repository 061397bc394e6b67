"""Dispatch regions: which neighbouring linalg operations one kernel computes together.

In: a block of host code with linalg on buffers, deallocations inserted. Out: Regions, and why operations are in none.

``fill %m; generic max(%x) -> %m; generic exp(%x - %m) -> %e; ...`` becomes one region of rows: values that only its
members use never reach memory.

An operation joins when its space is that of the rows or of the whole, when what it reads of the region's products it
reads at its own element, and when it writes nothing that the region has read from memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mlir import ir

from aot.lower.analysis import views
from aot.lower.checks import asserts
from aot.lower.fast.region import COLUMN, FULL, PART, ROW, SCALAR, Member, Node, Product, Region, Source, Store, level
from aot.lower.fast.regions import bodyloads, hazards, loops, operations, reducers
from aot.lower.fast.regions.extents import Extents, Key
from aot.lower.fast.regions.operations import ZERO, Operand, Operation

_BETWEEN = frozenset({"memref.alloc", "memref.dim", "cf.assert", asserts.CARRIER}) | views.VIEWS
_QUIET_DIALECTS = frozenset({"arith", "index", "affine"})


@dataclass(frozen=True)
class Formed:
    """What a block gave."""

    regions: list[Region]
    refused: list[tuple[ir.Operation, str]]


def form(block: ir.Block, known: Extents, tensors: Collection[ir.Value]) -> Formed:
    """Regions of one block of host code."""
    regions: list[Region] = []
    refused: list[tuple[ir.Operation, str]] = []
    growing = _Growing(known, tensors)
    ops = [each.operation for each in block.operations]
    for op in ops:
        if op.name.startswith("linalg."):
            # All extents that later operations say are equal, are: what starts a reduction comes before it.
            loops.normalise(op)
            operations.read(op, known)
    for number, op in enumerate(ops):
        if op.name.startswith("linalg."):
            read = operations.read(op, known)
            growing.coming = next((each for each in ops[number + 1 :] if each.name.startswith("linalg.")), None)
            if isinstance(read, str):
                refused.append((op, read))
                growing = _close(growing, regions)
            elif not growing.add(read):
                growing = _close(growing, regions)
                growing.coming = None
                if not growing.add(read):
                    refused.append((op, growing.reason))
                    growing = _Growing(known, tensors)
        elif op.name == "memref.dealloc" and growing.members:
            growing.freed.append(op)
        elif op.name not in _BETWEEN and op.name.split(".")[0] not in _QUIET_DIALECTS:
            growing = _close(growing, regions)
    _close(growing, regions)
    return Formed(regions, refused)


def _close(growing: _Growing, regions: list[Region]) -> _Growing:
    if growing.members:
        regions.append(growing.finish())
    return _Growing(growing.known, growing.tensors)


@dataclass
class _Growing:
    """A region that operations still join."""

    known: Extents
    tensors: Collection[ir.Value]
    members: list[Operation] = field(default_factory=list)
    freed: list[ir.Operation] = field(default_factory=list)
    """Deallocations since the first member."""
    between: list[ir.Operation] = field(default_factory=list)
    """Those before the last one."""
    split: int | None = None
    """Loops that are rows, of a member that has all loops; None while no member tells."""
    space: tuple[Key, ...] = ()
    turned: bool = False
    """Whether the rows are reduced, and each column keeps a result."""
    coming: ir.Operation | None = None
    """What comes after the operation that is looked at."""
    reason: str = ""

    def add(self, new: Operation) -> bool:
        """Take an operation in, if it fits; else ``reason`` says why not."""
        before = (self.split, self.space, self.turned)
        self.reason = self._misfit(new)
        if self.reason:
            self.split, self.space, self.turned = before
            return False
        self.members.append(new)
        self.between = list(self.freed)
        return True

    def _misfit(self, new: Operation) -> str:
        split, turned = new.split
        if split is None:
            return "its reduced loops are neither the first nor the last ones"
        reduces = any(new.reduces)
        if reduces and bodyloads.has(new.body):
            return "a reduction whose body reads memory by itself"
        if reduces and isinstance(reducer := reducers.read(new), str):
            return reducer
        if self.members:
            if any(bodyloads.has(each.body) for each in [*self.members, new]):
                return "its body reads memory by itself"
            if not self._connected(new):
                return "it shares no data with the operations before it"
            fits = self._fits_turned(new, split, reduces) if turned or self.turned else self._fits(new, split, reduces)
            if not fits:
                return "its loops are not those of the operations before it"
        else:
            self.space, self.split = new.extents, split if reduces else None
        self.turned = self.turned or turned
        return hazards.find([*self.members, new], self.tensors) or self._unforwarded(new)

    def _fits_turned(self, new: Operation, split: int, reduces: bool) -> bool:
        """The same when rows are reduced: what is not a reduction is done once for each column."""
        space = tuple(self.known.find(key) for key in self.space)
        extents = tuple(self.known.find(key) for key in new.extents)
        if not reduces:
            return extents == space[self.split or 0 :]
        if self.turned:
            return extents == space and split == self.split
        if self.split is not None or space != extents[split:]:
            return False
        self.space, self.split = extents, split
        return True

    def _fits(self, new: Operation, split: int, reduces: bool) -> bool:
        """Whether the loops agree; learns rows and columns on the way."""
        space = tuple(self.known.find(key) for key in self.space)
        extents = tuple(self.known.find(key) for key in new.extents)
        if reduces:
            if self.split is not None:
                return extents == space and split == self.split
            # Parallel members so far: all of them have the same loops.
            if space not in (extents, extents[:split]):
                return False
            self.space, self.split = extents, split
            return True
        if extents == space:
            return True
        if self.split is not None:
            return extents == space[: self.split]
        shorter, longer = sorted((space, extents), key=len)
        if longer[: len(shorter)] != shorter:
            return False
        self.space, self.split = longer, len(shorter)
        return True

    def _connected(self, new: Operation) -> bool:
        """Whether it has to do with what is there."""
        starts = not new.reads_memory
        if starts and (self.split is not None or not any(each.reads_memory for each in self.members)):
            # A running value's start: what is to follow reads the region's data, too, or the other starts.
            kept = self.space[self.split :] if self.turned else self.space[: self.split]
            rows = tuple(self.known.find(key) for key in kept)
            return tuple(self.known.find(key) for key in new.extents) == rows
        if starts and self.split is None and self._begins_rows(new):
            return True
        mine = {hazards.whole(each.value) for member in self.members for each in member.operands if each.is_memory}
        return any(hazards.whole(each.value) in mine for each in new.operands if each.is_memory)

    def _begins_rows(self, new: Operation) -> bool:
        """Whether the next operation reduces rows of what is here, into what the new one starts."""
        read = operations.read(self.coming, self.known) if self.coming is not None else ""
        if isinstance(read, str) or not any(read.reduces):
            return False
        split, turned = read.split
        space, extents = (tuple(map(self.known.find, each)) for each in (self.space, read.extents))
        if turned or split is None or extents != space or extents[:split] != tuple(map(self.known.find, new.extents)):
            return False
        made, begun = (
            {hazards.whole(each.operands[n].value) for each in some for n in each.outputs}
            for some in (self.members, [new])
        )
        return all(
            any(each.read and hazards.whole(each.value) in wanted for each in read.operands if each.is_memory)
            for wanted in (made, begun)
        )

    def _unforwarded(self, new: Operation) -> str:
        """Products of the region are read at the element of the iteration only."""
        made: dict[ir.Value, str] = {}
        for member in [*self.members, new]:
            for each in member.operands:
                kind = made.get(hazards.whole(each.value))
                if each.read and kind is not None and kind != self._kind(each, member):
                    return "it reads other elements of what the operations before it compute"
            for number in member.outputs:
                output = member.operands[number]
                kind = self._kind(output, member)
                if kind not in ((COLUMN,) if self.turned else (FULL, ROW)):
                    return f"its result is indexed by {output.loops}"
                before = made.setdefault(hazards.whole(output.value), kind)
                if before != kind:
                    return "it writes a buffer of the operations before it in another way"
        return ""

    def _rows(self) -> int:
        return len(self.space) if self.split is None else self.split

    def _kind(self, operand: Operand, member: Operation) -> str:
        """How an operand lies in the region's space."""
        rows, loops = self._rows(), tuple(loop for loop in operand.loops if loop != ZERO)
        rank = len(self.space)
        if not operand.is_memory:
            return SCALAR
        if self.split is None:
            return FULL if loops == tuple(range(rank)) else PART if loops else SCALAR
        if self.turned and len(member.extents) < rank:
            return COLUMN if loops == tuple(range(rank - rows)) else PART if loops else SCALAR
        if not loops and rows:
            return SCALAR
        if loops == tuple(range(rank)) and rank != rows:
            return FULL
        if loops == tuple(range(rows)):
            return ROW
        return COLUMN if loops == tuple(range(rows, rank)) else PART

    def finish(self) -> Region:
        """The region's graph."""
        space = tuple(self.known.find(key) for key in self.space)
        if self.split is None:
            self.split = 0
        rows = self.split
        region = Region(space[:rows], space[rows:], self.turned)
        current: dict[ir.Value, Product] = {}
        sources: dict[tuple[ir.Value, tuple[int, ...]], Source] = {}
        for operation in self.members:
            nodes = tuple(self._node(each, operation, current, sources) for each in operation.operands)
            member = _member(operation, nodes, COLUMN if self.turned else ROW, len(space))
            region.members.append(member)
            for number, output in enumerate(operation.outputs):
                current[hazards.whole(operation.operands[output].value)] = Product(member, number)
        self._outputs(region, current)
        region.freed = [op for op in self.between if op not in region.dead]
        return region

    def _node(
        self,
        operand: Operand,
        operation: Operation,
        current: dict[ir.Value, Product],
        sources: dict[tuple[ir.Value, tuple[int, ...]], Source],
    ) -> Node | None:
        if not operand.read:
            return None
        product = current.get(hazards.whole(operand.value)) if operand.is_memory else None
        if product is not None:
            return product
        key = (operand.value, self._loops(operand, operation))
        if key not in sources:
            sources[key] = Source(operand.value, self._kind(operand, operation), key[1])
        return sources[key]

    def _loops(self, operand: Operand, operation: Operation) -> tuple[int, ...]:
        """The operand's loops in the region's space: what is done once for each column has none for the rows."""
        shift = self._rows() if self.turned and len(operation.extents) < len(self.space) else 0
        return tuple(loop if loop == ZERO else loop + shift for loop in operand.loops)

    def _outputs(self, region: Region, current: dict[ir.Value, Product]) -> None:
        ops = {member.operation.op for member in region.members}
        for memory, product in current.items():
            dead = list(hazards.only_used_by(memory, ops | set(self.freed)))
            if dead:
                region.dead += dead
                continue
            operation = product.member.operation
            operand = operation.operands[operation.outputs[product.number]]
            region.stores.append(Store(product, operand.value, self._loops(operand, operation)))


def _member(operation: Operation, nodes: tuple[Node | None, ...], kept: str, rank: int) -> Member:
    reduces = any(operation.reduces)
    reducer = reducers.read(operation) if reduces else None
    assert not isinstance(reducer, str)
    depth = max((level(node) for node in nodes), default=0) + reduces
    kind = FULL if not reduces and len(operation.extents) == rank else kept
    return Member(operation, kind, nodes, reducer, depth)
