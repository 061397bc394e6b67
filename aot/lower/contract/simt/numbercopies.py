"""A factor's tiles on their way to shared memory, number by number: there, neighbours are so along one of its loops.

In: a factor, and how a tile lies in shared memory. Out: a Source, made in host code; in the kernel, a Side with the
two halves of bringing a tile. Elements that are factors as they lie in memory are copied asynchronously: where
neighbours are so in shared memory, too, and are aligned, 16 bytes at a time, else one by one, which asks for no
alignment; kernels of ``ffmacode`` have both ways. Everything else goes through registers: what is converted, constants,
and all on GPUs without such copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, memref, scf

from aot.lower.contract.codegen import instructions, operand
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.problem import Factor, address, all_of, is_wide
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls

_COPIED = (4, 8)
"""Bytes of elements that can be copied one by one."""


@dataclass(frozen=True, eq=False)
class Source:
    """A factor as a kernel reads it."""

    factor: Factor
    address: ir.Value | None
    """Of the first element, in bytes; None: it goes through registers."""
    width: int = 1
    """Elements of a copy."""
    aligned: Word | None = None
    """Not 0 if vectors are aligned, where only the call knows."""

    @staticmethod
    def of(factor: Factor, shape: Shape, *, asynchronous: bool, vectors: ir.Value | bool) -> Source:
        """The way of a factor, in host code; ``asynchronous``: whether there are such copies, ``vectors``: aligned."""
        if not asynchronous or not is_copied(factor):
            return Source(factor, None)
        start = address(factor.memory)
        if factor.turned == shape.along_k or vectors is False:
            return Source(factor, start)
        lanes = instructions.CHUNK // rtcalls.storage_bytes(factor.element)
        known = isinstance(vectors, bool)
        aligned = None if known else Word(arith.ExtUIOp(instructions.word(), vectors).result)
        return Source(factor, start, lanes, aligned)


def is_copied(factor: Factor) -> bool:
    """Whether asynchronous copies can bring it."""
    return not factor.conversions and factor.has_address and rtcalls.storage_bytes(factor.element) in _COPIED


def have_vectors(factors: Sequence[Factor]) -> ir.Value | bool:
    """Whether copies can take vectors of all of these factors that are copied; False where none is."""
    copied = [each for each in factors if is_copied(each)]
    return bool(copied) and all_of([is_wide(each.memory, each.strides) for each in copied])


@dataclass(frozen=True)
class Shape:
    """A tile in shared memory."""

    side: int
    depth: int
    threads: int
    """That bring it."""
    bytes: int
    """Of a number."""
    row_bytes: int
    """From one row to the next."""
    along_k: bool = False
    """Whether rows run along ``k``, one for each of the outer loop; else along that, one for each step of ``k``."""

    @property
    def size(self) -> int:
        """Bytes of the tile."""
        return (self.side if self.along_k else self.depth) * self.row_bytes

    @property
    def k_bytes(self) -> int:
        """From one step of ``k`` to the next."""
        return self.bytes if self.along_k else self.row_bytes

    @property
    def outer_bytes(self) -> int:
        """The same for the outer loop."""
        return self.row_bytes if self.along_k else self.bytes


@dataclass(frozen=True, eq=False)
class Place:
    """Where in the factor a block works."""

    batch: Sequence[ir.Value]
    first: Word
    """Of the outer loop."""
    extent: Word
    begin: Word
    """First of ``k`` in memory, from which on it is counted."""
    behind: Word
    """The end of ``k``."""
    thread: Word


class Side:
    """One factor in a kernel, and a thread's share of its tiles: equal steps along the loop that is not contiguous."""

    def __init__(self, source: Source, shape: Shape, place: Place, base: Word) -> None:
        self.source, self.factor, self.shape, self.place = source, source.factor, shape, place
        turned, width = self.factor.turned, source.width
        across = (shape.side if turned else shape.depth) // width
        self.step = shape.threads // across
        self.count = (shape.depth if turned else shape.side) // self.step
        near, far = place.thread % across * width, place.thread // across
        if shape.threads % across:
            # Threads that are left over copy what the first ones do.
            far = far % self.step
        outer, self.k = (near, far) if turned else (far, near)
        self.outer = place.first + outer
        self.target = base + self.k * shape.k_bytes + outer * shape.outer_bytes
        self.target_step = self.step * (shape.k_bytes if turned else shape.outer_bytes)
        self.inside = self.outer.below(place.extent)
        self.left = (place.extent - self.outer).where(self.inside, 0)
        if source.address is not None:
            start = operand.start(source.address, place.batch, self.factor.batch, shape.bytes)
            self.find(start)

    @property
    def is_copied(self) -> bool:
        """Whether asynchronous copies bring it."""
        return self.source.address is not None

    def begin(self, stage: Word, k0: Word) -> list[ir.Value]:
        """Have the tile at ``k0`` brought to a stage, of which the offset is given; what ``end`` is to put there."""
        if self.is_copied:
            self.copy(stage, k0)
            return []
        return [self._read(number * self.step, k0 + self.k) for number in range(self.count)]

    def end(self, stage: Word, values: Sequence[ir.Value]) -> None:
        """Put what ``begin`` gave into the stage, as factors."""
        for number, value in enumerate(values):
            target = instructions.pointer(self.target + stage + number * self.target_step, 3)
            llvm.StoreOp(self.factor.converted(value), target)

    def bytes(self, number: Word, stride: Extent) -> Word:
        """So many steps of a loop, in 64 bits."""
        if stride.static is not None:
            return number.wide() * (stride.static * self.shape.bytes)
        return number.wide() * Word(stride.value).wide() * self.shape.bytes

    def find(self, start: Word) -> None:
        """Where copies begin, of a product that begins at an address, and the way to the next one."""
        self.origin, self.stride = self.located(start), self.between()

    def located(self, start: Word) -> Word:
        """Address of the thread's first element."""
        k = self.place.begin + self.k
        return start + self.bytes(self.outer, self.factor.outer) + self.bytes(k, self.factor.inner)

    def between(self) -> Word:
        """Bytes from one of the thread's copies to the next."""
        return self.bytes(constant(self.step), self.factor.inner if self.factor.turned else self.factor.outer)

    def copy(self, stage: Word, k0: Word) -> None:
        """Nothing outside of the factor is read."""
        source, k, turned = self.origin + self.bytes(k0, self.factor.inner), k0 + self.k, self.factor.turned
        deep, whole = (self.place.behind - k).where(k.below(self.place.behind), 0), self.source.width * self.shape.bytes
        there = (self.left if turned else deep).least(self.source.width) * self.shape.bytes
        for number in range(self.count):
            step = number * self.step
            inside = (k + step).below(self.place.behind) if turned else constant(step).below(self.left)
            instructions.copy(self.target + stage + number * self.target_step, source, there.where(inside, 0), whole)
            source = source + self.stride

    def _read(self, step: int, k: Word) -> ir.Value:
        """An element, 0 outside."""
        factor, place = self.factor, self.place
        outer, k = (self.outer, k + step) if factor.turned else (self.outer + step, k)
        inside = arith.AndIOp(outer.below(place.extent), k.below(place.behind)).result
        branch = scf.IfOp(inside, [factor.element], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            at = factor.indices(place.batch, outer.index(), (place.begin + k).index())
            scf.YieldOp([memref.LoadOp(factor.memory, at).result])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([epilogue.zero(factor.element)])
        return branch.results[0]
