"""A match becomes a Problem: loops are put together, and every operand gets a view in the problem's form.

In: a Match, at the insertion point of its launch. Out: a Problem.

Loops of one part that are neighbours in all operands, in memory too, become one: a ``[batch, rows, k] x [k, n]`` is one
product of ``batch * rows`` rows. What cannot be put together is a loop around the product; only summed loops must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.analysis import literals, views
from aot.lower.contract.products import windows
from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.epilogue import Array, Epilogue, Input, Result, Step, Total, constant_index
from aot.lower.contract.products.matching import Elementwise, Match
from aot.lower.contract.products.problem import Factor, Problem
from aot.lower.fast.regions import hazards
from aot.lower.fast.regions.extents import value_of
from aot.lower.fast.regions.operations import ZERO
from aot.lower.fast.regions.places import Extent, is_plain
from aot.lower.hostmodule import rtcalls

Loops = tuple[int, ...]
_SINGLE = 32
"""Bits of f32."""


@dataclass(frozen=True)
class Groups:
    """Loops that are put together, outermost first in each."""

    batch: tuple[Loops, ...]
    m: Loops
    n: Loops
    k: Loops


def groups(match: Match, *, every: bool = True) -> Groups | str:
    """The loops of the problem, or why it is none.

    Those whose indices elementwise operations ask for are kept apart; with ``every``, all are where they ask at all.
    """
    contraction = match.contraction
    left, *operands = _operands(match)
    if not contraction.left.windows:
        operands.insert(0, left)
    asked = _asked(match)
    kept = asked if not every else tuple(range(len(contraction.extents))) if asked else ()
    together = [*operands, (None, kept)]
    k = merged(contraction.k, operands[: 1 if contraction.left.windows else 2])
    if len(k) != 1:
        return "it sums loops up that are not neighbours in memory"
    batch = merged(contraction.batch, together)
    m, n = (merged(loops, together) for loops in (contraction.m, contraction.n))
    if contraction.left.windows and (len(m) > 1 or len(n) > 1):
        return "the result of a convolution is not one matrix"
    return Groups((*batch, *m[:-1], *n[:-1]), m[-1] if m else (), n[-1], k[0])


def _operands(match: Match) -> list[tuple[ir.Value | None, Loops]]:
    contraction = match.contraction
    found: list[tuple[ir.Value | None, Loops]] = [
        (each.value, each.loops) for each in (contraction.left, contraction.right, contraction.out)
    ]
    for each in _elementwise(match):
        for number, operand in enumerate(each.operation.operands):
            if operand.is_memory and (operand.read or operand.written):
                found.append((operand.value, each.indices(number)))
    return found


def _elementwise(match: Match) -> list[Elementwise]:
    return [*((match.start,) if match.start else ()), *match.tails]


def _asked(match: Match) -> Loops:
    """Loops whose indices elementwise operations ask for."""
    return tuple(
        each.loops[ir.IntegerAttr(op.operation.attributes["dim"]).value]
        for each in _elementwise(match)
        for op in each.operation.body.operations
        if op.operation.name == "linalg.index"
    )


def merged(loops: Sequence[int], operands: Sequence[tuple[ir.Value | None, Loops]]) -> list[Loops]:
    """The loops, neighbours put together where every operand lets them."""
    found: list[Loops] = []
    for loop in loops:
        if found and all(_lets(value, axes, found[-1][-1], loop) for value, axes in operands):
            found[-1] = (*found[-1], loop)
        else:
            found.append((loop,))
    return found


def _lets(value: ir.Value | None, axes: Loops, outer: int, inner: int) -> bool:
    """Whether two loops can be one in an operand; no operand at all is one whose loops are kept."""
    if value is None:
        return outer not in axes and inner not in axes
    if outer not in axes and inner not in axes:
        return True
    if outer not in axes or inner not in axes or axes.index(inner) != axes.index(outer) + 1:
        return False
    if is_plain(value):
        return True
    kind = ir.MemRefType(value.type)
    strides, _ = kind.get_strides_and_offset()
    above, below, extent = strides[axes.index(outer)], strides[axes.index(inner)], kind.shape[axes.index(inner)]
    known = rtcalls.DYNAMIC_STRIDE not in (above, below) and extent != rtcalls.DYNAMIC
    return known and above == below * extent


def problem(match: Match, loops: Groups) -> Problem:
    """The problem, with its views made at the insertion point."""
    contraction = match.contraction
    views_ = _Views(contraction, loops)
    window = None
    if contraction.left.windows:
        window = windows.window(contraction, (loops.m, loops.k), lambda loop: views_.extent((loop,)))
        left = windows.pixels(contraction, window)
    else:
        left = views_.factor(contraction.left.value, contraction.left.loops, loops.m, contraction.conversions[0])
    right = views_.factor(contraction.right.value, contraction.right.loops, loops.n, contraction.conversions[1])
    element = ir.MemRefType(contraction.out.value.type).element_type
    batch = tuple(views_.extent(each) for each in loops.batch)
    m, n, k = (views_.extent(each) for each in (loops.m, loops.n, loops.k))
    return Problem(batch, m, n, k, left, right, element, _epilogue(match, views_), window, contraction.tf32)


@dataclass
class _Views:
    """Views of operands, each made once."""

    contraction: Contraction
    loops: Groups
    extents: dict[Loops, Extent] = field(default_factory=dict)
    arrays: dict[tuple[ir.Value, Loops], Array] = field(default_factory=dict)

    def extent(self, group: Loops) -> Extent:
        """Iterations of loops together."""
        if group not in self.extents:
            known, value = 1, rtcalls.index(1)
            for loop in group:
                key = self.contraction.extents[loop]
                value = value_of(key) if known == 1 else arith.MulIOp(value, value_of(key)).result
                known = known * key if isinstance(key, int) and known else 0
            static = known if all(isinstance(self.contraction.extents[loop], int) for loop in group) else None
            self.extents[group] = Extent(value if static is None else rtcalls.index(static), static)
        return self.extents[group]

    def factor(self, value: ir.Value, axes: Loops, outer: Loops, conversions: tuple[ir.Operation, ...]) -> Factor:
        turned = _is_along(value, axes, outer) and not _is_along(value, axes, self.loops.k)
        last = (self.loops.k, outer) if turned else (outer, self.loops.k)
        view, strides = self._view(value, axes, (*self.loops.batch, *last))
        *batch, one, other = strides
        return Factor(view, tuple(batch), other if turned else one, one if turned else other, conversions)

    def array(self, value: ir.Value, axes: Loops) -> Array:
        """An operand of the epilogue."""
        if not views.is_memref(value):
            return Array(value)
        if (value, axes) not in self.arrays:
            view, strides = self._view(value, axes, (*self.loops.batch, self.loops.m, self.loops.n))
            self.arrays[value, axes] = Array(view, strides)
        return self.arrays[value, axes]

    def _view(self, value: ir.Value, axes: Loops, order: Sequence[Loops]) -> tuple[ir.Value, tuple[Extent, ...]]:
        kind = ir.MemRefType(value.type)
        static, offset = kind.get_strides_and_offset()
        plain = is_plain(value)
        meta = memref.ExtractStridedMetadataOp(value).results
        sizes = [self.extent(group) for group in order]
        strides = []
        for group in order:
            axis = axes.index(group[-1]) if group and group[-1] in axes else None
            number = 0 if axis is None else static[axis]
            known = number != rtcalls.DYNAMIC_STRIDE
            strides.append(constant_index(number) if known else Extent(meta[2 + kind.rank + (axis or 0)], None))
        start = 0 if plain else offset
        layout = ir.StridedLayoutAttr.get(start, [_or(each, rtcalls.DYNAMIC_STRIDE) for each in strides])
        shape = [_or(each, rtcalls.DYNAMIC) for each in sizes]
        view = memref.ReinterpretCastOp(
            ir.MemRefType.get(shape, kind.element_type, layout),
            value,
            [] if start != rtcalls.DYNAMIC_STRIDE else [meta[1]],
            [each.value for each in sizes if each.static is None],
            [each.value for each in strides if each.static is None],
            [start],
            shape,
            [_or(each, rtcalls.DYNAMIC_STRIDE) for each in strides],
        ).result
        return view, tuple(strides)


def _is_along(value: ir.Value, axes: Loops, group: Loops) -> bool:
    """Whether neighbours in memory are neighbours along the loops."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return bool(group) and group[-1] in axes and strides[axes.index(group[-1])] == 1


def _or(each: Extent, dynamic: int) -> int:
    return dynamic if each.static is None else each.static


def _epilogue(match: Match, views_: _Views) -> Epilogue:
    """The graph from the sum to the stores."""
    contraction = match.contraction
    made: dict[ir.Value, Input] = {}
    initial: Input | None = None
    steps: dict[Elementwise, Step] = {}
    narrow = all(_is_narrow(store.value) for store in match.stores)
    if match.start is None:
        initial = views_.array(contraction.out.value, contraction.out.loops)
    else:
        step = steps[match.start] = _step(match.start, made, views_, narrow=narrow)
        number = next(
            number
            for number, output in enumerate(match.start.operation.outputs)
            if match.start.operation.operands[output].value == contraction.out.value
        )
        initial = None if _is_zero(match.start, number) else Result(step, number)
    made[hazards.whole(contraction.out.value)] = total = Total()
    for tail in match.tails:
        step = steps[tail] = _step(tail, made, views_, narrow=narrow)
        for number, output in enumerate(tail.operation.outputs):
            made[hazards.whole(tail.operation.operands[output].value)] = Result(step, number)
    stores = tuple(
        (views_.array(store.value, store.loops), Result(steps[store.maker], store.number) if store.maker else total)
        for store in match.stores
    )
    return Epilogue(initial, stores)


def _is_narrow(value: ir.Value) -> bool:
    element = ir.MemRefType(value.type).element_type
    return isinstance(element, ir.FloatType) and element.width < _SINGLE


def _step(each: Elementwise, made: dict[ir.Value, Input], views_: _Views, *, narrow: bool) -> Step:
    inputs: list[Input | None] = []
    for number, operand in enumerate(each.operation.operands):
        if not operand.read:
            inputs.append(None)
        elif operand.is_memory and hazards.whole(operand.value) in made:
            inputs.append(made[hazards.whole(operand.value)])
        else:
            inputs.append(views_.array(operand.value, each.indices(number)))
    order = (*views_.loops.batch, views_.loops.m, views_.loops.n)
    places = tuple(next((n for n, group in enumerate(order) if loop in group), ZERO) for loop in each.loops)
    return Step(each.operation.body, tuple(each.operation.yielded), tuple(inputs), places, narrow)


def _is_zero(start: Elementwise, number: int) -> bool:
    """Whether it writes zeros."""
    value = start.operation.yielded[number]
    body = start.operation.body
    if value in list(body.arguments):
        value = start.operation.operands[list(body.arguments).index(value)].value
    return literals.is_zero(value)
