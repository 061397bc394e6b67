"""Where a region's memory lies for its kernel: views of rows and columns, made on the host.

In: sources and stores of a region. Out: for each a Place: a memref with an index for the row and one for the column,
or the operand itself with the loop of each index; and what is known of its vectors.

A ``memref<?x4x8xf32>`` with all loops of a space of rows ``?`` and columns ``4 x 8`` becomes a ``memref<?x32xf32>``.
Memory with gaps, or in another order, is indexed by the loops, which are found by division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.bufferization import constants
from aot.lower.fast.region import COLUMN, FULL, Region, Source, Store
from aot.lower.fast.regions import accesses
from aot.lower.fast.regions.division import Divisor
from aot.lower.fast.regions.extents import Key, value_of
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

VECTOR_BYTES = accesses.VECTOR_BYTES
_WIDE_INTEGERS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Extent:
    """An extent as a value of host code, and as a number when it is static."""

    value: ir.Value
    static: int | None
    divisor: Divisor | None = None
    """Where numbers are divided by it, and it is not static."""

    def quotient(self, number: ir.Value) -> ir.Value:
        """The number divided by the extent, in a kernel."""
        return arith.DivUIOp(number, self.value).result if self.divisor is None else self.divisor.quotient(number)


@dataclass(frozen=True)
class Space:
    """Rows x columns."""

    rows: Extent
    columns: Extent
    row_loops: tuple[Extent, ...]
    column_loops: tuple[Extent, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """How the kernel reaches a source or a store."""

    memory: ir.Value
    """A number of host code for scalars that are none."""
    kind: str
    loops: tuple[int, ...]
    flat: bool
    """Indexed by row and column (FULL) or by column (COLUMN), not by the loops."""
    wide: bool
    """Neighbouring columns can be one vector."""
    gaps: bool = False
    """Rows do not follow each other without gaps."""
    inner: bool = False
    """Columns are neighbours along the innermost loop only: vectors may not reach beyond."""

    @property
    def element(self) -> ir.Type:
        return ir.MemRefType(self.memory.type).element_type


def space(region: Region) -> Space:
    """Extents at the insertion point."""
    rows, columns = ([_extent(key) for key in keys] for keys in (region.rows, region.columns))
    total = _product(rows), _product(columns)
    return Space(*total, _divisible(rows, total[0]), _divisible(columns, total[1]))


def _divisible(extents: Sequence[Extent], total: Extent) -> tuple[Extent, ...]:
    """Loops but the outermost one are found by division."""
    return (
        *extents[:1],
        *(
            each if each.static is not None else replace(each, divisor=Divisor.of(each.value, total.value))
            for each in extents[1:]
        ),
    )


def _extent(key: Key) -> Extent:
    return Extent(value_of(key), key if isinstance(key, int) else None)


def _product(extents: Sequence[Extent]) -> Extent:
    total = Extent(rtcalls.index(1), 1)
    for each in extents:
        if total.static == 1:
            total = each
            continue
        known = None if each.static is None or total.static is None else each.static * total.static
        value = arith.MulIOp(total.value, each.value).result if known is None else rtcalls.index(known)
        total = Extent(value, known)
    return total


def place(each: Source | Store, region: Region, room: Space) -> Place:
    """The place of a source or a store."""
    memory = each.value if isinstance(each, Source) else each.memory
    kind = each.kind if isinstance(each, Source) else each.product.kind
    if not isinstance(memory.type, ir.MemRefType):
        return Place(memory, kind, each.loops, flat=False, wide=False)
    plain = is_plain(memory)
    wide = is_wide(ir.MemRefType(memory.type).element_type) and has_unit_stride(memory)
    if plain and kind == FULL:
        return Place(_view(memory, [room.rows, room.columns]), kind, each.loops, flat=True, wide=wide)
    if plain and kind == COLUMN:
        return Place(_view(memory, [room.columns]), kind, each.loops, flat=True, wide=wide)
    last = len(region.rows) + len(region.columns) - 1
    inner = len(region.columns) > 1
    runs = bool(each.loops) and each.loops[-1] == last
    return Place(memory, kind, each.loops, flat=False, wide=wide and runs, gaps=not plain, inner=inner and runs)


def line(memory: ir.Value, room: Space) -> ir.Value:
    """All elements of memory without gaps in a row."""
    return _view(memory, [_product([room.rows, room.columns])])


def is_plain(memory: ir.Value) -> bool:
    """Whether a memref is row-major without gaps from its start."""
    kind = ir.MemRefType(memory.type)
    return bool(kind == ir.MemRefType.get(kind.shape, kind.element_type))


def has_unit_stride(memory: ir.Value) -> bool:
    """Whether the last index moves by one element."""
    kind = ir.MemRefType(memory.type)
    return not kind.rank or kind.get_strides_and_offset()[0][-1] == 1


def is_wide(element: ir.Type) -> bool:
    """Whether vectors of the type can be loaded and stored."""
    if isinstance(element, ir.IntegerType):
        return element.width in _WIDE_INTEGERS
    return isinstance(element, ir.FloatType) and element.width >= 8


def _view(memory: ir.Value, extents: Sequence[Extent]) -> ir.Value:
    """The row-major memory with other extents."""
    dynamic = ir.ShapedType.get_dynamic_size()
    free = rtcalls.DYNAMIC_STRIDE
    sizes = [dynamic if each.static is None else each.static for each in extents]
    strides = [1] if len(extents) == 1 else [free if sizes[1] == dynamic else sizes[1], 1]
    layout = ir.StridedLayoutAttr.get(0, strides)
    kind = ir.MemRefType.get(sizes, ir.MemRefType(memory.type).element_type, layout)
    return memref.ReinterpretCastOp(
        kind,
        memory,
        [],
        [each.value for each in extents if each.static is None],
        [extents[1].value] if len(extents) > 1 and sizes[1] == dynamic else [],
        [0],
        sizes,
        strides,
    ).result


def aligned(places: Sequence[Place]) -> ir.Value:
    """Whether all memory begins at a multiple of a vector, and so does what follows a gap; asked on the host."""
    total: ir.Value | None = None
    for each in dict.fromkeys((place.memory, place.gaps) for place in places):
        for number in _distances(*each):
            total = number if total is None else arith.OrIOp(total, number).result
    rest = rtcalls.index(0) if total is None else arith.RemUIOp(total, rtcalls.index(VECTOR_BYTES)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result


def with_vectors(places: Sequence[Place], whole: ir.Value | bool, width: int, emit: Callable[[int], None]) -> None:
    """Emit code for vectors of ``width`` elements, and code without any for calls whose memory does not allow them."""
    vectors = aligned(places)
    condition = vectors if whole is True else arith.AndIOp(whole, vectors).result
    branches.either(condition, lambda: emit(width), lambda: emit(1))


def _distances(memory: ir.Value, gaps: bool) -> list[ir.Value]:
    """The address, and what may lie between vectors beside the row's own length, in bytes."""
    own = constants.align(memory, VECTOR_BYTES)
    address = rtcalls.index(0) if own else memref.ExtractAlignedPointerAsIndexOp(memory).result
    if not gaps:
        return [address]
    kind = ir.MemRefType(memory.type)
    strides, offset = kind.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    found = memref.ExtractStridedMetadataOp(memory).results
    size = rtcalls.index(rtcalls.storage_bytes(kind.element_type))
    numbers = [found[1] if offset == unknown else rtcalls.index(offset)]
    for axis, stride in enumerate(strides[:-1]):
        numbers.append(found[2 + kind.rank + axis] if stride == unknown else rtcalls.index(stride))
    return [address, *(arith.MulIOp(number, size).result for number in numbers)]


def within(places: Sequence[Place]) -> bool:
    """Whether vectors may not reach beyond the innermost loop."""
    return any(each.inner and each.wide for each in places)


def whole(places: Sequence[Place], room: Space, width: int) -> ir.Value | bool:
    """Whether rows, or the innermost loop where it must be, are whole vectors."""
    extent = room.column_loops[-1] if within(places) else room.columns
    if extent.static is not None:
        return extent.static % width == 0
    rest = arith.RemUIOp(extent.value, rtcalls.index(width)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result


def digits(value: ir.Value, extents: Sequence[Extent]) -> list[ir.Value]:
    """All indices from their common number."""
    found: list[ir.Value] = []
    for extent in extents[:0:-1]:
        rest = extent.quotient(value)
        found.append(_rest(value, rest, extent))
        value = rest
    return [value, *reversed(found)]


def digit(value: ir.Value, number: int, extents: Sequence[Extent]) -> ir.Value:
    """One index of several from their common number."""
    for extent in extents[:number:-1]:
        value = extent.quotient(value)
    return _rest(value, extents[number].quotient(value), extents[number]) if number else value


def _rest(value: ir.Value, quotient: ir.Value, extent: Extent) -> ir.Value:
    return arith.SubIOp(value, arith.MulIOp(quotient, extent.value).result).result
