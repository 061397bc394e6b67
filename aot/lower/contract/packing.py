"""Factors that asynchronous copies cannot read are copied into memory that they can.

In: a factor, and whether it can be read as it is (a value of host code where the call decides). Out: a Factor: the
one given, or its elements, of the type that tensor cores multiply, in rows that begin at multiples of 16 bytes.

Without a need for it the buffer has no bytes and the copy is not launched; the kernel after it is one and the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.contract import epilogue, tiles
from aot.lower.contract.instructions import CHUNK, Kind
from aot.lower.contract.problem import Factor, any_of
from aot.lower.contract.words import Word
from aot.lower.fast import bodies
from aot.lower.fast.accesses import store_vector
from aot.lower.fast.places import Extent

_THREADS = 256


@dataclass(frozen=True, eq=False)
class Packed:
    """A factor, and the buffer that is to be freed after its last use."""

    factor: Factor
    buffer: ir.Value | None

    def free(self) -> None:
        if self.buffer is not None:
            memref.DeallocOp(self.buffer)


@dataclass(frozen=True, eq=False)
class _Copy:
    """Rows of a factor, and how they lie in the buffer; all extents are indices."""

    factor: Factor
    element: ir.Type
    """Of the buffer."""
    turned: bool
    batch: tuple[Word, ...]
    rows: Word
    columns: Word
    """Of the factor."""
    vectors: Word
    """Of a row of the buffer."""
    lanes: int

    @property
    def total(self) -> Word:
        """Vectors in all."""
        total = self.rows * self.vectors
        for each in self.batch:
            total = total * each
        return total


Extents = tuple[tuple[Extent, ...], Extent, Extent]
"""Of the loops around the product, of the factor's outer loop, and of ``k``."""


def packed(
    factor: Factor, extents: Extents, kind: Kind, ready: ir.Value | bool, unused: ir.Value | bool = False
) -> Packed:
    """The factor for asynchronous copies; ``unused``: whether nothing will read it."""
    if ready is True:
        return Packed(factor, None)
    copy = _planned(factor, extents, kind)
    needless = any_of([ready, unused])
    size = copy.total * copy.lanes
    if not isinstance(needless, bool):
        size = Word(rtcalls.index(0)).where(needless, size)
    buffer = memref.AllocOp(ir.MemRefType.get([rtcalls.DYNAMIC], copy.element), [size.value], []).result
    tiles.either(needless, lambda: None, lambda: _launch(copy, buffer))
    other = _of_buffer(copy, extents, buffer)
    return Packed(other if isinstance(ready, bool) else _either(ready, factor, other), buffer)


def _planned(factor: Factor, extents: Extents, kind: Kind) -> _Copy:
    batch, outer, k = extents
    turned = factor.turned and kind.bytes == 2
    rows, columns = (k, outer) if turned else (outer, k)
    lanes = CHUNK // kind.bytes
    own = [
        rtcalls.index(1) if stride.static == 0 else each.value for each, stride in zip(batch, factor.batch, strict=True)
    ]
    vectors = Word(columns.value).tiles(lanes)
    # What is wider in the buffer is widened there as it is in the source: exactly.
    same = rtcalls.storage_bytes(factor.element) == kind.bytes
    element = factor.element if same else ir.Type.parse(kind.name)
    outside = tuple(Word(each) for each in own)
    return _Copy(factor, element, turned, outside, Word(rows.value), Word(columns.value), vectors, lanes)


def _of_buffer(copy: _Copy, extents: Extents, buffer: ir.Value) -> Factor:
    pitch = _rounded(copy, extents)
    strides: list[Extent] = []
    step = Word(copy.rows.value) * Word(pitch.value)
    for extent, stride in zip(reversed(copy.batch), reversed(copy.factor.batch), strict=True):
        strides.insert(0, stride if stride.static == 0 else Extent(step.value, None))
        step = step * extent
    batch, outer, k = extents
    sizes = [*batch, *((k, outer) if copy.turned else (outer, k))]
    layout = [*strides, pitch, epilogue.constant_index(1)]
    view = memref.ReinterpretCastOp(
        _type(copy.element, sizes, layout, 0),
        buffer,
        [],
        [each.value for each in sizes if each.static is None],
        [each.value for each in layout if each.static is None],
        [0],
        [_or(each, rtcalls.DYNAMIC) for each in sizes],
        [_or(each, rtcalls.DYNAMIC_STRIDE) for each in layout],
    ).result
    one = epilogue.constant_index(1)
    places = (one, pitch) if copy.turned else (pitch, one)
    return Factor(view, tuple(strides), *places, copy.factor.conversions)


def _rounded(copy: _Copy, extents: Extents) -> Extent:
    """Elements from one row of the buffer to the next."""
    columns = extents[1] if copy.turned else extents[2]
    if columns.static is not None:
        return epilogue.constant_index(-(-columns.static // copy.lanes) * copy.lanes)
    return Extent((copy.vectors * copy.lanes).value, None)


def _type(element: ir.Type, sizes: Sequence[Extent], strides: Sequence[Extent], offset: int) -> ir.MemRefType:
    layout = ir.StridedLayoutAttr.get(offset, [_or(each, rtcalls.DYNAMIC_STRIDE) for each in strides])
    return ir.MemRefType.get([_or(each, rtcalls.DYNAMIC) for each in sizes], element, layout)


def _or(each: Extent, dynamic: int) -> int:
    return dynamic if each.static is None else each.static


def _either(ready: ir.Value, one: Factor, other: Factor) -> Factor:
    """One factor or the other, whose indices are the same."""

    def choose(left: Extent, right: Extent) -> Extent:
        same = left.static is not None and left.static == right.static
        return left if same else Extent(arith.SelectOp(ready, left.value, right.value).result, None)

    kinds = [ir.MemRefType(each.memory.type) for each in (one, other)]
    strides = [choose(left, right) for left, right in zip(one.strides, other.strides, strict=True)]
    offset = 0 if kinds[0].get_strides_and_offset()[1] == 0 else rtcalls.DYNAMIC_STRIDE
    layout = ir.StridedLayoutAttr.get(offset, [_or(each, rtcalls.DYNAMIC_STRIDE) for each in strides])
    kind = ir.MemRefType.get(kinds[0].shape, one.element, layout)
    alike = [
        memref.CastOp(kind, each.memory).result if each.memory.type != kind else each.memory for each in (one, other)
    ]
    *batch, first, second = strides
    places = (second, first) if one.turned else (first, second)
    return Factor(arith.SelectOp(ready, *alike).result, tuple(batch), *places, one.conversions)


def _launch(copy: _Copy, buffer: ir.Value) -> None:
    blocks, one = copy.total.tiles(_THREADS).value, rtcalls.index(1)
    op = gpu.LaunchOp((blocks, one, one), (rtcalls.index(_THREADS), one, one)).operation
    tiling.mark(op, "contractions", 0, "pack", {"threads": _THREADS, "width": copy.lanes})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number = Word(body.arguments[0]) * _THREADS + Word(body.arguments[3])
        branch = scf.IfOp(number.below(copy.total))
        with ir.InsertionPoint(branch.then_block):
            _vector(copy, buffer, number)
            scf.YieldOp([])


def _vector(copy: _Copy, buffer: ir.Value, number: Word) -> None:
    """One vector of the buffer; neighbouring threads read neighbouring memory."""
    if copy.factor.turned == copy.turned:
        rest, vector = number // copy.vectors, number % copy.vectors
        row, outer = rest % copy.rows, rest // copy.rows
    else:
        rest, row = number // copy.rows, number % copy.rows
        vector, outer = rest % copy.vectors, rest // copy.vectors
    batch: list[ir.Value] = []
    plane = outer
    for extent in reversed(copy.batch):
        batch.insert(0, (outer % extent).value)
        outer = outer // extent
    values = [_element(copy, batch, row, vector * copy.lanes + lane) for lane in range(copy.lanes)]
    place = ((plane * copy.rows + row) * copy.vectors + vector) * copy.lanes
    store_vector(bodies.pack(values), buffer, [place.value])


def _element(copy: _Copy, batch: list[ir.Value], row: Word, column: Word) -> ir.Value:
    """An element of the buffer; zero behind the factor's last column."""
    kind = copy.element
    outer, k = (column, row) if copy.turned else (row, column)
    branch = scf.IfOp(column.below(copy.columns), [kind], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        at = copy.factor.indices(batch, outer.value, k.value)
        value = memref.LoadOp(copy.factor.memory, at).result
        if kind != copy.factor.element:
            value = arith.TruncFOp(kind, copy.factor.converted(value)).result
        scf.YieldOp([value])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([epilogue.zero(kind)])
    return branch.results[0]
