"""``tensor.gather`` and ``tensor.scatter``, which no upstream pass lowers.

In: tensors. Out: a gather is a ``linalg.generic``; a scatter writes its slices in parallel (its indices are unique).

``tensor.gather %x[%i] gather_dims([0]) : (tensor<10x4xf32>, tensor<3x1xindex>) -> tensor<3x1x4xf32>`` gives the
element at ``(a, b, c)`` the value ``%x[%i[a, 0], c]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, tensor

from aot import mlir
from aot.lower.tolinalg.elementwise import empty, extent, generate, index


def lower(module: ir.Module) -> None:
    """Replace all gathers and scatters."""
    for op in mlir.walk(module):
        if op.name == "tensor.gather":
            _gather(op)
        elif op.name == "tensor.scatter":
            _scatter(op)


@dataclass(frozen=True)
class _Slices:
    """How a list of slices lies in the tensor it indexes."""

    rank: int
    """Of the indexed tensor."""
    dims: tuple[int, ...]
    """Its dimensions that coordinates stand for."""
    batch: int
    """Leading dimensions of the list: those of the indices but the last."""
    reduced: bool
    """Whether the slices leave out the indexed dimensions; else those have extent 1."""

    @staticmethod
    def of(indexed: ir.Value, indices: ir.Value, slices: ir.Value, dims: Sequence[int]) -> _Slices:
        rank = ir.RankedTensorType(indexed.type).rank
        batch = ir.RankedTensorType(indices.type).rank - 1
        return _Slices(rank, tuple(dims), batch, ir.RankedTensorType(slices.type).rank - batch < rank)

    def axis_in_slices(self, dim: int) -> int | None:
        """Where dimension ``dim`` of the indexed tensor is in the list of slices; None where it is left out."""
        if not self.reduced:
            return self.batch + dim
        if dim in self.dims:
            return None
        return self.batch + sum(each not in self.dims for each in range(dim))


def _gather(op: ir.Operation) -> None:
    source, indices = op.operands
    kind = ir.RankedTensorType(op.results[0].type)
    slices = _Slices.of(source, indices, op.results[0], ir.DenseI64ArrayAttr(op.attributes["gather_dims"]))
    with ir.InsertionPoint(op), op.location:
        extents = []
        for axis in [axis for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]:
            if axis < slices.batch:
                extents.append(extent(indices, axis))
            else:
                dim = next(each for each in range(slices.rank) if slices.axis_in_slices(each) == axis)
                extents.append(extent(source, dim))

        def element(places: Sequence[ir.Value]) -> ir.Value:
            coordinates = _coordinates(indices, places[: slices.batch])
            position = []
            for dim in range(slices.rank):
                axis = slices.axis_in_slices(dim)
                position.append(coordinates[slices.dims.index(dim)] if dim in slices.dims else places[axis or 0])
            return tensor.ExtractOp(source, position).result

        made = generate(empty(kind, extents), element)
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _scatter(op: ir.Operation) -> None:
    source, target, indices = op.operands
    slices = _Slices.of(target, indices, source, ir.DenseI64ArrayAttr(op.attributes["scatter_dims"]))
    with ir.InsertionPoint(op), op.location:
        counts = [extent(indices, axis) for axis in range(slices.batch)]
        loop = scf.ForallOp([0] * slices.batch, counts, [1] * slices.batch, [target])
        with ir.InsertionPoint(loop.body):
            places = list(loop.induction_variables)
            coordinates = _coordinates(indices, places)
            end = scf.InParallelOp()
            with ir.InsertionPoint(end.operation):
                window = _Window.of(target, source, slices, coordinates)
                piece = window.cut(source, places, slices)
            with ir.InsertionPoint(end.block):
                window.put(piece, loop.inner_iter_args[0])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


@dataclass(frozen=True)
class _Window:
    """Where one slice goes: per dimension of the target an offset, and an extent (1, static, or a value)."""

    offsets: tuple[ir.Value | int, ...]
    extents: tuple[ir.Value | int, ...]

    @staticmethod
    def of(target: ir.Value, source: ir.Value, slices: _Slices, coordinates: Sequence[ir.Value]) -> _Window:
        offsets: list[ir.Value | int] = []
        extents: list[ir.Value | int] = []
        kind = ir.RankedTensorType(target.type)
        for dim in range(slices.rank):
            indexed = dim in slices.dims
            offsets.append(coordinates[slices.dims.index(dim)] if indexed else 0)
            static = 1 if indexed else kind.get_dim_size(dim)
            extents.append(
                extent(source, slices.axis_in_slices(dim) or 0) if kind.is_dynamic_dim(dim) and not indexed else static
            )
        return _Window(tuple(offsets), tuple(extents))

    def cut(self, source: ir.Value, places: Sequence[ir.Value], slices: _Slices) -> ir.Value:
        """The slice at ``places`` of the list, in the rank of the list without its leading dimensions."""
        kept = [dim for dim in range(slices.rank) if slices.axis_in_slices(dim) is not None]
        extents = [self.extents[dim] for dim in kept]
        shape = [extent if isinstance(extent, int) else ir.ShapedType.get_dynamic_size() for extent in extents]
        kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(source.type).element_type)
        offsets = _Mixed.of([*places, *[0] * len(kept)])
        sizes = _Mixed.of([*[1] * len(places), *extents])
        strides = [1] * len(offsets.static)
        return tensor.ExtractSliceOp(
            kind, source, offsets.values, sizes.values, [], offsets.static, sizes.static, strides
        ).result

    def put(self, piece: ir.Value, target: ir.Value) -> None:
        offsets, sizes = _Mixed.of(self.offsets), _Mixed.of(self.extents)
        tensor.ParallelInsertSliceOp(
            piece, target, offsets.values, sizes.values, [], offsets.static, sizes.static, [1] * len(self.offsets)
        )


@dataclass(frozen=True)
class _Mixed:
    """A list of numbers and values, as slice operations take it."""

    values: tuple[ir.Value, ...]
    static: tuple[int, ...]

    @staticmethod
    def of(entries: Sequence[ir.Value | int]) -> _Mixed:
        dynamic = ir.ShapedType.get_dynamic_size()
        values = tuple(entry for entry in entries if not isinstance(entry, int))
        return _Mixed(values, tuple(entry if isinstance(entry, int) else dynamic for entry in entries))


def _coordinates(indices: ir.Value, places: Sequence[ir.Value]) -> list[ir.Value]:
    """The coordinates at ``places`` of the list of indices."""
    kind = ir.RankedTensorType(indices.type)
    found = []
    for number in range(kind.get_dim_size(kind.rank - 1)):
        value = tensor.ExtractOp(indices, [*places, index(number)]).result
        if not isinstance(value.type, ir.IndexType):
            value = arith.IndexCastOp(ir.IndexType.get(), value).result
        found.append(value)
    return found
