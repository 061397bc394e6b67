"""Factors that asynchronous copies cannot read are copied into memory that they can.

In: factors, and whether each can be read as it is (a value of host code where the call decides). Out: a Factor for
each: the one given, or its elements, of the type that tensor cores multiply, in rows that begin at multiples of 16
bytes, long ones of whole lines.

One launch copies all that need it, but for rows that are columns in memory, which ``turning`` copies. Where none
does it is not launched, and buffers have no bytes; the kernel after it is one and the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf
from mlir.dialects import vector as vector_dialect

from aot.lower.contract import turning
from aot.lower.contract.codegen import operand, unaligned
from aot.lower.contract.codegen.instructions import CHUNK, Kind
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import epilogue, problem
from aot.lower.contract.products.problem import Factor, address, all_of, any_of
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import store_vector
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.tiling import CONTRACTIONS

_THREADS = 256
_LINE, _LONG = 128, 1024
"""Bytes of a line of memory, and of rows that begin at one: TMA reads fewer lines then."""
Extents = tuple[tuple[Extent, ...], Extent, Extent]
"""Of the loops around the product, of the factor's outer loop, and of ``k``."""


@dataclass(frozen=True, eq=False)
class Given:
    """A factor as the source has it."""

    factor: Factor
    extents: Extents
    ready: ir.Value | bool
    """Whether it can be read as it is."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A factor, and the buffer that is to be freed after its last use."""

    factor: Factor
    buffer: ir.Value | None

    def free(self) -> None:
        if self.buffer is not None:
            memref.DeallocOp(self.buffer)


@dataclass(frozen=True, eq=False)
class _Copy(turning.Copy):
    """Rows of a factor, and how they lie in the buffer; all extents are indices."""

    address: ir.Value | None
    """Of the factor's first element, in bytes; None: rows of the buffer are no rows of it, and read one by one."""
    element: ir.Type
    """Of the buffer."""
    turned: bool
    needless: ir.Value | bool

    @property
    def turns(self) -> bool:
        """Whether rows of the buffer are columns in memory."""
        return self.factor.turned and not self.turned

    @property
    def outside(self) -> Word:
        """Rows in all batches."""
        total = self.rows
        for each in self.batch:
            total = total * each
        return total

    def if_needed(self, number: Word) -> Word:
        """The number, or 0 if nothing is copied."""
        return number if isinstance(self.needless, bool) else Word(rtcalls.index(0)).where(self.needless, number)


def packed(given: Sequence[Given], kind: Kind, unused: ir.Value | bool = False) -> list[Packed]:
    """The factors for asynchronous copies; ``unused``: whether nothing will read them."""
    copies = [None if each.ready is True else _planned(each, kind, any_of([each.ready, unused])) for each in given]
    buffers = [None if copy is None else _buffer(copy) for copy in copies]
    pairs = [(copy, buffer) for copy, buffer in zip(copies, buffers, strict=True) if copy and buffer]
    along = [(copy, buffer) for copy, buffer in pairs if not copy.turns]
    if along:
        branches.either(all_of([copy.needless for copy, _ in along]), lambda: None, lambda: _launch(along))
    for copy, buffer in pairs:
        if copy.turns:
            branches.either(copy.needless, lambda: None, partial(turning.launch, copy, buffer))
    return [_packed(*each) for each in zip(given, copies, buffers, strict=True)]


def _packed(given: Given, copy: _Copy | None, buffer: ir.Value | None) -> Packed:
    if copy is None or buffer is None:
        return Packed(given.factor, None)
    other = _of_buffer(copy, given.extents, buffer)
    return Packed(other if isinstance(given.ready, bool) else _either(given.ready, given.factor, other), buffer)


def _buffer(copy: _Copy) -> ir.Value:
    size = copy.if_needed(copy.outside * Word(copy.pitch.value))
    return memref.AllocOp(ir.MemRefType.get([rtcalls.DYNAMIC], copy.element), [size.value], []).result


def _planned(given: Given, kind: Kind, needless: ir.Value | bool) -> _Copy:
    factor, (batch, outer, k) = given.factor, given.extents
    turned = factor.turned and kind.bytes == 2
    turns = factor.turned and not turned
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
    place = (outside, Word(rows.value), Word(columns.value), vectors, _pitch(columns, kind.bytes))
    plain = same and turned == factor.turned and factor.strides[-1].static == 1 and factor.has_address
    start = address(factor.memory) if plain else None
    wide = turns and all_of([problem.is_multiple(rows, lanes), problem.is_wide(factor.memory, factor.strides)])
    return _Copy(factor, *place, lanes, wide, start, element, turned, needless)


def _pitch(columns: Extent, size: int) -> Extent:
    """Elements from one row of a buffer to the next: as in the factor, where only its address is in the way."""
    lanes, line, long = CHUNK // size, _LINE // size, _LONG // size
    if columns.static is not None:
        step = line if columns.static >= long and columns.static % lanes else lanes
        return epilogue.constant_index(-(-columns.static // step) * step)
    count = Word(columns.value)
    short = count.below(long)
    return Extent((count.tiles(lanes) * lanes).where(short, count.tiles(line) * line).value, None)


def _of_buffer(copy: _Copy, extents: Extents, buffer: ir.Value) -> Factor:
    pitch = copy.pitch
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


def _launch(copies: Sequence[tuple[_Copy, ir.Value]]) -> None:
    one = rtcalls.index(1)
    counts = [copy.if_needed((copy.outside * copy.vectors).tiles(_THREADS)) for copy, _ in copies]
    total = counts[0] if len(counts) == 1 else counts[0] + counts[1]
    op = gpu.LaunchOp((total.value, one, one), (rtcalls.index(_THREADS), one, one)).operation
    tiling.mark(op, CONTRACTIONS, 0, "pack", {"threads": _THREADS, "width": copies[0][0].lanes})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        block, thread = (Word(body.arguments[place]) for place in (0, 3))
        first, *others = copies
        if not others:
            _part(*first, block, thread)
            return
        branches.either(
            block.below(counts[0]),
            lambda: _part(*first, block, thread),
            lambda: _part(*others[0], block - counts[0], thread),
        )


def _part(copy: _Copy, buffer: ir.Value, block: Word, thread: Word) -> None:
    number = block * _THREADS + thread
    with branches.guard(number.below(copy.outside * copy.vectors)):
        _vector(copy, buffer, number)


def _vector(copy: _Copy, buffer: ir.Value, number: Word) -> None:
    """One vector of the buffer; neighbouring threads read neighbouring memory."""
    rest, vector = number // copy.vectors, number % copy.vectors
    row, outer = _within(rest, copy.rows, copy)
    batch: list[ir.Value] = []
    plane = outer
    for extent in reversed(copy.batch):
        batch.insert(0, (outer % extent).value)
        outer = outer // extent
    place = (plane * copy.rows + row) * Word(copy.pitch.value) + vector * copy.lanes

    def one_by_one() -> None:
        values = [_element(copy, batch, row, vector * copy.lanes + lane) for lane in range(copy.lanes)]
        store_vector(bodies.pack(values), buffer, [place.value])

    if copy.address is None:
        one_by_one()
        return
    start = operand.start(copy.address, batch, copy.factor.batch, CHUNK // copy.lanes)
    granules = unaligned.granules(
        unaligned.Plane(start, copy.factor.pitch, copy.rows, copy.columns, copy.lanes), row, vector
    )
    kind = ir.VectorType.get([copy.lanes], copy.element)
    branches.either(
        granules.inside,
        lambda: store_vector(vector_dialect.BitCastOp(kind, granules.shifted()).result, buffer, [place.value]),
        one_by_one,
    )


def _within(number: Word, extent: Word, copy: _Copy) -> tuple[Word, Word]:
    """Number in a batch, and the batch's."""
    return (number % extent, number // extent) if copy.batch else (number, Word(rtcalls.index(0)))


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
