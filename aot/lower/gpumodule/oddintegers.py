"""Integers of odd widths that a kernel gets from host code travel in a whole word.

In: a module with ``gpu.launch``. Out: the same, where no launch captures an ``i4`` or ``i24``: PTX has no such
parameters.

``%a : i4`` from outside  becomes  ``arith.extui %a : i4 to i8`` before the launch, and ``arith.trunci`` in its body.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import opwalk

WORDS = (8, 16, 32, 64)
"""Widths of parameters; i1 is a byte by itself."""


def is_odd(kind: ir.Type) -> bool:
    """Whether a parameter cannot be of this type."""
    return isinstance(kind, ir.IntegerType) and kind.width not in (1, *WORDS)


def widen(module: mlir.Module) -> None:
    """Rewrite all launches."""
    for launch in opwalk.named(module, "gpu.launch"):
        inside: dict[ir.Value, ir.Value] = {}
        for op in [each for each in mlir.walk(launch) if each != launch]:
            for place, value in enumerate(op.operands):
                if is_odd(value.type) and ir.IntegerType(value.type).width < WORDS[-1] and _is_outside(value, launch):
                    if value not in inside:
                        inside[value] = _carried(value, launch)
                    op.operands[place] = inside[value]


def _is_outside(value: ir.Value, launch: ir.Operation) -> bool:
    made_by = mlir.owner(value)
    inner = made_by.owner.operation if isinstance(made_by, ir.Block) else made_by
    return inner != launch and launch not in mlir.parents(inner)


def _carried(value: ir.Value, launch: ir.Operation) -> ir.Value:
    width = next(each for each in WORDS if each > ir.IntegerType(value.type).width)
    with ir.InsertionPoint(launch), launch.location:
        word = arith.ExtUIOp(ir.IntegerType.get_signless(width), value).result
    with ir.InsertionPoint.at_block_begin(launch.regions[0].blocks[0]), launch.location:
        return arith.TruncIOp(value.type, word).result
