"""Factors that asynchronous copies cannot read are copied into memory that they can.

In: a factor, and whether it can be read as it is (a value of host code where the call decides). Out: an Operand: the
factor itself, or its elements in rows that begin at multiples of 16 bytes.

Without a need for it the buffer has no bytes and the copy is not launched; the kernel after it is one and the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.contract import epilogue, problem
from aot.lower.contract.instructions import CHUNK, Kind
from aot.lower.contract.operand import Operand
from aot.lower.contract.problem import Factor
from aot.lower.contract.words import Word
from aot.lower.fast import bodies
from aot.lower.fast.accesses import store_vector
from aot.lower.fast.places import Extent

_THREADS = 256


@dataclass(frozen=True, eq=False)
class Packed:
    """An operand, and the buffer that is to be freed after its last use."""

    operand: Operand
    buffer: ir.Value | None

    def free(self) -> None:
        if self.buffer is not None:
            memref.DeallocOp(self.buffer)


@dataclass(frozen=True, eq=False)
class _Copy:
    """Rows of a factor, and how they lie in the buffer; all extents are indices."""

    factor: Factor
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


def operand(factor: Factor, extents: Extents, kind: Kind, ready: ir.Value | bool) -> Packed:
    """The factor for asynchronous copies."""
    plain = Operand(problem.address(factor.memory), factor.batch, factor.pitch, factor.turned)
    if ready is True:
        return Packed(plain, None)
    copy = _planned(factor, extents, kind)
    size = copy.total * copy.lanes
    size = size if ready is False else Word(rtcalls.index(0)).where(ready, size)
    buffer = memref.AllocOp(ir.MemRefType.get([rtcalls.DYNAMIC], factor.element), [size.value], []).result
    if ready is False:
        _launch(copy, buffer)
        return Packed(_of_buffer(copy, buffer), buffer)
    branch = scf.IfOp(ready, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _launch(copy, buffer)
        scf.YieldOp([])
    return Packed(_either(ready, plain, _of_buffer(copy, buffer)), buffer)


def _planned(factor: Factor, extents: Extents, kind: Kind) -> _Copy:
    batch, outer, k = extents
    turned = factor.turned and kind.bytes == 2
    rows, columns = (k, outer) if turned else (outer, k)
    lanes = CHUNK // kind.bytes
    own = [
        rtcalls.index(1) if stride.static == 0 else each.value for each, stride in zip(batch, factor.batch, strict=True)
    ]
    vectors = Word(columns.value).tiles(lanes)
    return _Copy(
        factor, turned, tuple(Word(each) for each in own), Word(rows.value), Word(columns.value), vectors, lanes
    )


def _of_buffer(copy: _Copy, buffer: ir.Value) -> Operand:
    pitch = copy.vectors * copy.lanes
    strides: list[Extent] = []
    step = copy.rows * pitch
    for extent, stride in zip(reversed(copy.batch), reversed(copy.factor.batch), strict=True):
        strides.insert(0, stride if stride.static == 0 else Extent(step.value, None))
        step = step * extent
    return Operand(problem.address(buffer), tuple(strides), Extent(pitch.value, None), copy.turned)


def _either(ready: ir.Value, one: Operand, other: Operand) -> Operand:
    """One operand or the other, which lie alike."""

    def choose(left: Extent, right: Extent) -> Extent:
        same = left.static is not None and left.static == right.static
        return left if same else Extent(arith.SelectOp(ready, left.value, right.value).result, None)

    address = arith.SelectOp(ready, one.address, other.address).result
    batch = tuple(choose(left, right) for left, right in zip(one.batch, other.batch, strict=True))
    return Operand(address, batch, choose(one.pitch, other.pitch), other.turned)


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
    """An element of the factor; zero behind its last column."""
    kind = copy.factor.element
    outer, k = (column, row) if copy.turned else (row, column)
    branch = scf.IfOp(column.below(copy.columns), [kind], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        at = copy.factor.indices(batch, outer.value, k.value)
        scf.YieldOp([memref.LoadOp(copy.factor.memory, at).result])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([epilogue.zero(kind)])
    return branch.results[0]
