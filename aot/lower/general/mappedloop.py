"""A ``scf.forall`` with a mapping to blocks or threads: its bounds, and where an iteration runs.

In: the operation. Out: a Loop, or why it is none.

>>> read(op).axes                                                             # doctest: +SKIP
(1, 0)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith

from aot.lower.hostmodule import rtcalls

FORALL = "scf.forall"
BLOCK, THREAD = "block", "thread"
_MAPPING = re.compile(r"#gpu\.(\w+)<(?:(x|y|z)|linear_dim_(\d))>")
Bound: TypeAlias = "int | ir.Value"


@dataclass(frozen=True, eq=False)
class Loop:
    """One such loop."""

    op: ir.Operation
    kind: str
    """BLOCK or THREAD."""
    axes: tuple[int, ...]
    """Of each dimension: 0, 1, 2 for x, y, z; or its place in a linear number, 0 for the fastest."""
    linear: bool
    bounds: tuple[tuple[Bound, Bound, Bound], ...]
    """First, end and step of each dimension."""

    def static_extents(self) -> list[int] | None:
        """Iterations of each dimension; None where one is known at run time only."""
        found = []
        for low, high, step in self.bounds:
            if not (isinstance(low, int) and isinstance(high, int) and isinstance(step, int)):
                return None
            found.append(max(0, -(-(high - low) // step)))
        return found

    def count(self) -> int:
        """Iterations in all, where they are known."""
        total = 1
        for extent in self.static_extents() or []:
            total *= extent
        return total

    def extents(self) -> list[ir.Value]:
        """Iterations of each dimension, as values; none when the loop runs backwards."""
        known = self.static_extents()
        if known is not None:
            return [rtcalls.index(each) for each in known]
        found = []
        for low, high, step in self.bounds:
            span = arith.MaxSIOp(arith.SubIOp(_value(high), _value(low)).result, rtcalls.index(0)).result
            found.append(span if step == 1 else arith.CeilDivUIOp(span, _value(step)).result)
        return found

    def grid(self) -> list[ir.Value]:
        """Blocks along x, y, z."""
        extents, one = self.extents(), rtcalls.index(1)
        if self.linear:
            total = one
            for extent in extents:
                total = arith.MulIOp(total, extent).result
            return [total, one, one]
        found = [one, one, one]
        for axis, extent in zip(self.axes, extents, strict=True):
            found[axis] = extent
        return found

    def positions(self, ids: Sequence[ir.Value], sizes: Sequence[ir.Value]) -> list[ir.Value]:
        """The iteration's number in each dimension, from ids along x, y, z and how many there are."""
        if not self.linear:
            return [ids[axis] for axis in self.axes]
        number = ids[2]
        for axis in (1, 0):
            number = arith.AddIOp(arith.MulIOp(number, sizes[axis]).result, ids[axis]).result
        extents = self.extents()
        found = [number] * len(extents)
        order = sorted(range(len(extents)), key=lambda dimension: self.axes[dimension])
        for dimension in order[:-1]:
            found[dimension] = arith.RemUIOp(number, extents[dimension]).result
            number = arith.DivUIOp(number, extents[dimension]).result
        found[order[-1]] = number
        return found

    def indices(self, positions: Sequence[ir.Value]) -> list[ir.Value]:
        """The loop's own indices."""
        found = []
        for position, (low, _, step) in zip(positions, self.bounds, strict=True):
            scaled = position if step == 1 else arith.MulIOp(position, _value(step)).result
            found.append(scaled if low == 0 else arith.AddIOp(scaled, _value(low)).result)
        return found

    def inside(
        self, ids: Sequence[ir.Value], positions: Sequence[ir.Value], sizes: tuple[int, int, int]
    ) -> ir.Value | None:
        """Whether a thread of a block of that size has an iteration; None when every one has."""
        extents = self.static_extents() or []
        if self.linear:
            slowest = max(range(len(extents)), key=lambda dimension: self.axes[dimension])
            every = self.count() == sizes[0] * sizes[1] * sizes[2]
            return None if every else _below(positions[slowest], extents[slowest])
        parts = []
        for axis in range(3):
            mine = [extent for each, extent in zip(self.axes, extents, strict=True) if each == axis]
            wanted = mine[0] if mine else 1
            if wanted != sizes[axis]:
                parts.append(_below(ids[axis], wanted))
        total = None
        for part in parts:
            total = part if total is None else arith.AndIOp(total, part).result
        return total


def is_mapped(op: ir.Operation) -> bool:
    """Whether the operation is a parallel loop that says where it runs."""
    return bool(op.name == FORALL) and "mapping" in op.attributes and len(ir.ArrayAttr(op.attributes["mapping"])) > 0


def read(op: ir.Operation) -> Loop | str:
    """The loop; or what is wrong with its mapping."""
    words = [str(each) for each in ir.ArrayAttr(op.attributes["mapping"])]
    found = [_MAPPING.fullmatch(word) for word in words]
    unknown = next((word for word, match in zip(words, found, strict=True) if match is None), None)
    matches = [match for match in found if match is not None]
    kinds = {match[1] for match in matches}
    if unknown or not kinds <= {BLOCK, THREAD}:
        return f"mapping {unknown or ', '.join(words)} is not known"
    linear = {match[2] is None for match in matches}
    if len(kinds) > 1 or len(linear) > 1:
        return f"a loop is mapped in one way: {', '.join(words)}"
    axes = tuple("xyz".index(match[2]) if match[2] else int(match[3]) for match in matches)
    if len(set(axes)) < len(axes):
        return f"two dimensions are mapped to one: {', '.join(words)}"
    if len(op.results):
        return "a parallel loop with results"
    return Loop(op, kinds.pop(), axes, linear.pop(), bounds_of(op))


def bounds_of(op: ir.Operation) -> tuple[tuple[Bound, Bound, Bound], ...]:
    """First, end and step of each dimension of an ``scf.forall``."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    dynamic = ir.ShapedType.get_dynamic_size()
    columns = []
    for number, name in enumerate(("staticLowerBound", "staticUpperBound", "staticStep")):
        first = sum(segments[:number])
        values = iter(operands[first : first + segments[number]])
        columns.append(
            [next(values) if each == dynamic else each for each in ir.DenseI64ArrayAttr(op.attributes[name])]
        )
    return tuple(zip(*columns, strict=True))


def _value(bound: Bound) -> ir.Value:
    return rtcalls.index(bound) if isinstance(bound, int) else bound


def _below(value: ir.Value, limit: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ult, value, rtcalls.index(limit)).result
