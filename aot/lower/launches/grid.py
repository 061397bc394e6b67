"""Grids whose y or z extent may pass the hardware's limit, folded into the x axis.

In: launches of any grid. Out: launches that fit: x up to 2^31-1 blocks, y and z 65535.

``gpu.launch blocks(%bx, %by, ..) in (%gx = %a, %gy = %b, %gz = %c1)``  becomes a grid of ``(%a * %b, 1, 1)`` in
which ``%bx`` is ``id mod a`` and ``%by`` is ``id div a``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals

LIMIT = 65535
"""Largest y or z extent of a grid, on every architecture."""
AXES = 3
_BOUNDED = {"arith.minui": (0, 1), "arith.minsi": (0, 1), "arith.remui": (1,), "arith.andi": (0, 1)}
"""Operations whose (non-negative) result is at most a constant operand, and which operands count."""


@dataclass(frozen=True)
class _Grid:
    """Extents of one launch."""

    extents: tuple[mlir.Value, ...]
    first_operand: int
    """Number of the launch operand that holds the x extent."""


def linearise(module: mlir.Module) -> None:
    """Fold every grid that is not provably within the limits."""
    for launch in [op for op in mlir.walk(module) if op.name == "gpu.launch"]:
        _linearise(launch)


def _linearise(launch: mlir.Operation) -> None:
    grid = _grid(launch)
    if grid is None or all(_within(extent) for extent in grid.extents[1:]):
        return
    with ir.InsertionPoint(launch), launch.location:
        total = grid.extents[0]
        for extent in grid.extents[1:]:
            total = arith.MulIOp(total, extent).result
        one = arith.ConstantOp(ir.IndexType.get(), 1).result
    _replace_ids(launch, grid)
    for axis, extent in enumerate((total, one, one)):
        launch.operands[grid.first_operand + axis] = extent


def _grid(launch: mlir.Operation) -> _Grid | None:
    """The grid; None when blocks form clusters, whose shape a folded grid would not keep."""
    segments = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    if any(segments[1 + 2 * AXES : 1 + 3 * AXES]):
        return None
    first = segments[0]
    return _Grid(tuple(launch.operands)[first : first + AXES], first)


def _within(extent: mlir.Value) -> bool:
    known = literals.whole(extent)
    if known is not None:
        return known <= LIMIT
    op = mlir.owner(extent)
    if isinstance(op, ir.Block) or op.name not in _BOUNDED:
        return False
    bounds = (literals.whole(op.operands[number]) for number in _BOUNDED[op.name])
    return any(bound is not None and 0 <= bound <= LIMIT for bound in bounds)


def _replace_ids(launch: mlir.Operation, grid: _Grid) -> None:
    body = launch.regions[0].blocks[0]
    arguments = list(body.arguments)
    uses = [(use.owner.operation, use.operand_number, axis) for axis in range(AXES) for use in arguments[axis].uses]
    with ir.InsertionPoint.at_block_begin(body), launch.location:
        ids = _split(arguments[0], grid.extents)
    for user, number, axis in uses:
        user.operands[number] = ids[axis]
    for argument, extent in zip(arguments[2 * AXES : 3 * AXES], grid.extents, strict=True):
        argument.replace_all_uses_with(extent)
    for op in mlir.walk(launch):
        values = {"gpu.block_id": ids, "gpu.grid_dim": grid.extents}.get(op.name)
        if values is not None:
            op.results[0].replace_all_uses_with(values["xyz".index(_axis(op))])
            op.erase()


def _split(block: mlir.Value, extents: Sequence[mlir.Value]) -> list[mlir.Value]:
    """Block ids by division, x fastest. 32 bits hold every block number, and divide faster than 64."""
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    rest = arith.IndexCastUIOp(word, block).result
    ids = []
    for extent in extents:
        if literals.whole(extent) == 1:
            ids.append(arith.ConstantOp(index, 0).result)
            continue
        divisor = arith.IndexCastUIOp(word, extent).result
        ids.append(arith.IndexCastUIOp(index, arith.RemUIOp(rest, divisor).result).result)
        rest = arith.DivUIOp(rest, divisor).result
    return ids


def _axis(op: mlir.Operation) -> str:
    return str(op.attributes["dimension"]).rsplit(" ", 1)[-1].rstrip(">")
