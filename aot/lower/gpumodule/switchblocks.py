"""Switches that go to one block twice get blocks of their own for that, in the order of their cases.

In: a module in the LLVM dialect. Out: the same, where no ``llvm.switch`` hands values to a block from two cases. In
LLVM a block has one value for each that one comes from, so the translation makes such blocks by itself; where several
are gone to twice, in an order that depends on where they lie in memory: the same source would give other code each
time.

``[0: ^a(%x), 1: ^b(%y), 2: ^a(%z), 3: ^b(%x)]``  becomes  ``[0: ^a(%x), 1: ^b(%y), 2: ^c(%z), 3: ^d(%x)]``,
``^c(%0): br ^a(%0)``, ``^d(%0): br ^b(%0)``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.lower.analysis import opwalk

_SWITCH = "llvm.switch"


def separate(module: mlir.Module | mlir.Operation) -> None:
    """Rewrite all switches that need it."""
    for op in opwalk.named(module, _SWITCH):
        reached: list[ir.Block] = []
        targets = []
        for block in op.successors:
            again = len(block.arguments) > 0 and block in reached
            reached.append(block)
            targets.append(_landing(op, block) if again else block)
        if targets != reached:
            attributes = {name: op.attributes[name] for name in op.attributes}
            with ir.InsertionPoint(op), op.location:
                ir.Operation.create(_SWITCH, [], list(op.operands), attributes, targets)
            op.erase()


def _landing(op: ir.Operation, block: ir.Block) -> ir.Block:
    """A new block that goes on to another one with what it is given."""
    arguments = list(block.arguments)
    made = op.block.region.blocks.append(*(each.type for each in arguments), arg_locs=[op.location] * len(arguments))
    with ir.InsertionPoint(made), op.location:
        llvm.BrOp(list(made.arguments), block)
    return made
