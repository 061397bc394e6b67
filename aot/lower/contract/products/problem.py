"""A product of matrices in the one form that all kernels take.

In: views of two factors, and an epilogue. Out: a Problem, whose loops are ``batch..., m, n`` and the summed ``k``:

``product[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]``, given to the epilogue element by element.

Every operand is a memref with an index for each of its loops, whatever it was in the source: strides say how it lies,
0 that all indices of a loop share their elements. A kernel asks ``left.inner.static == 1`` to know that ``k`` is
contiguous there, or builds a descriptor from ``left.memory`` and its strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.analysis import views
from aot.lower.bufferization import constants
from aot.lower.contract.products.epilogue import Epilogue
from aot.lower.fast.regions import places
from aot.lower.fast.regions.places import VECTOR_BYTES, Extent
from aot.lower.hostmodule import rtcalls
from aot.settings.wishes import Dropped, Wish


@dataclass(frozen=True, eq=False)
class Factor:
    """One of the two matrices: a memref with the indices ``batch..., outer, k``; the last two turned if need be."""

    memory: ir.Value
    """With a layout that says the strides that are known; of the last two indices the contiguous one comes last."""
    batch: tuple[Extent, ...]
    """Strides in elements; 0 where the matrix is the same for all of the loop."""
    outer: Extent
    """Stride of ``m`` (left) or ``n`` (right)."""
    inner: Extent
    """Stride of ``k``."""
    conversions: tuple[ir.Operation, ...]
    """Operations of the source's body from an element to the factor, in order; each has one operand."""

    @property
    def element(self) -> ir.Type:
        return ir.MemRefType(self.memory.type).element_type

    @property
    def has_address(self) -> bool:
        """Whether kernels can be given its address: a constant lies elsewhere for them."""
        return views.global_of(self.memory) is None

    @property
    def along_k(self) -> bool:
        """Whether neighbours in memory are neighbours along ``k``."""
        return self.inner.static == 1

    @property
    def turned(self) -> bool:
        """Whether they are neighbours along the other loop instead: the memref's indices are ``batch..., k, outer``."""
        return self.outer.static == 1 and not self.along_k

    @property
    def strides(self) -> tuple[Extent, ...]:
        """Of the memref's indices."""
        return (*self.batch, *((self.inner, self.outer) if self.turned else (self.outer, self.inner)))

    @property
    def pitch(self) -> Extent:
        """Stride of the loop that is not contiguous."""
        return self.inner if self.turned else self.outer

    def indices(self, batch: Sequence[ir.Value], outer: ir.Value, k: ir.Value) -> list[ir.Value]:
        """Of an element."""
        return [*batch, *((k, outer) if self.turned else (outer, k))]

    def converted(self, value: ir.Value) -> ir.Value:
        """The factor that an element, or a vector of them, stands for."""
        for each in self.conversions:
            result = each.results[0].type
            if isinstance(value.type, ir.VectorType):
                result = ir.VectorType.get(value.type.shape, result)
            attributes = {name: each.attributes[name] for name in each.attributes}
            value = ir.Operation.create(each.name, [result], [value], attributes).results[0]
        return value


@dataclass(frozen=True, eq=False)
class Window:
    """Where the elements of a left factor lie that is no matrix: ``m`` and ``k`` are several loops each.

    The factor's memory is a matrix of its pixels then; an element's place is the sum of what its loops add.
    """

    m: tuple[tuple[Extent, Extent], ...]
    """Extent and stride, in elements, of each loop, outermost first."""
    k: tuple[tuple[Extent, Extent], ...]
    """The last one runs over neighbours: the elements of a pixel."""
    pixels: Extent
    axes: tuple[Extent, ...]
    """Strides of the array's own indices, in elements."""
    places: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    """For the loops of ``m`` and ``k``: the index that each moves, and by how much."""


@dataclass(frozen=True, eq=False)
class Problem:
    """All that a kernel needs to know; values are of host code, at the place of the launch."""

    batch: tuple[Extent, ...]
    """Loops around the product, outermost first."""
    m: Extent
    n: Extent
    """Loop of the result's innermost index."""
    k: Extent
    left: Factor
    right: Factor
    accumulator: ir.Type
    """In which the source wants the sum: ``f32``, ``f64``, ``i32``, ..."""
    epilogue: Epilogue
    window: Window | None = None
    tf32: bool = False
    """Whether products of f32 may be rounded so."""
    asked: Wish | None = None
    """What ``aot.toml`` wants."""
    spilled: tuple[Dropped, ...] = ()
    """Kernels of its function that were made before, and spilled."""

    @property
    def factors(self) -> tuple[Factor, Factor]:
        return self.left, self.right

    def batches(self) -> ir.Value:
        """Number of products."""
        total = rtcalls.index(1)
        for each in self.batch:
            total = arith.MulIOp(total, each.value).result
        return total


def is_wide(memory: ir.Value, strides: Sequence[Extent]) -> ir.Value | bool:
    """Whether vectors of 16 bytes along the last index are aligned; a value of host code where that decides."""
    kind = ir.MemRefType(memory.type)
    size = rtcalls.storage_bytes(kind.element_type)
    if strides[-1].static != 1 or VECTOR_BYTES % size or not places.is_wide(kind.element_type):
        return False
    elements = VECTOR_BYTES // size
    if any(each.static is not None and each.static % elements for each in strides[:-1]):
        return False
    total = rtcalls.index(0)
    for each in strides[:-1]:
        if each.static is None:
            total = arith.OrIOp(total, arith.MulIOp(each.value, rtcalls.index(size)).result).result
    offset = kind.get_strides_and_offset()[1]
    if not constants.align(memory, VECTOR_BYTES):
        total = arith.OrIOp(total, address(memory)).result
    elif offset == rtcalls.DYNAMIC or offset * size % VECTOR_BYTES:
        return False
    rest = arith.AndIOp(total, rtcalls.index(VECTOR_BYTES - 1)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result


def is_multiple(extent: Extent, of: int) -> ir.Value | bool:
    """Whether an extent is a multiple."""
    if extent.static is not None:
        return extent.static % of == 0
    rest = arith.RemUIOp(extent.value, rtcalls.index(of)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result


def address(memory: ir.Value) -> ir.Value:
    """Where the first element lies, in bytes."""
    kind = ir.MemRefType(memory.type)
    base = memref.ExtractAlignedPointerAsIndexOp(memory).result
    _, offset = kind.get_strides_and_offset()
    if offset == 0:
        return base
    start = memref.ExtractStridedMetadataOp(memory).results[1]
    return arith.AddIOp(
        base, arith.MulIOp(start, rtcalls.index(rtcalls.storage_bytes(kind.element_type))).result
    ).result


def all_of(conditions: Sequence[ir.Value | bool]) -> ir.Value | bool:
    """Whether all hold."""
    if False in [each for each in conditions if isinstance(each, bool)]:
        return False
    values = [each for each in conditions if not isinstance(each, bool)]
    if not values:
        return True
    total = values[0]
    for each in values[1:]:
        total = arith.AndIOp(total, each).result
    return total


def any_of(conditions: Sequence[ir.Value | bool]) -> ir.Value | bool:
    """Whether one holds."""
    if True in [each for each in conditions if isinstance(each, bool)]:
        return True
    values = [each for each in conditions if not isinstance(each, bool)]
    if not values:
        return False
    total = values[0]
    for each in values[1:]:
        total = arith.OrIOp(total, each).result
    return total
