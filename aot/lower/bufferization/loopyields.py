"""Arguments that ``scf.while`` carries on: a copy in each iteration, so that the loop never writes into them.

In: functions on tensors, before bufferization. Out: the same, in which no ``scf.yield`` of a ``scf.while`` hands on an
argument of the function itself. One-shot bufferization (22.1.8) does not see that the next iteration's writes into
the carried tensor would go into the caller's array, whatever ``bufferization.writable`` says.

``scf.yield %i, %b``  becomes  ``%c = bufferization.alloc_tensor() copy(%b)``, ``scf.yield %i, %c``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import bufferization

from aot import mlir

_SAME_MEMORY = frozenset(
    {
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.extract_slice",
        "tensor.reshape",
    }
)
"""Operations whose result may lie in the memory of their first operand."""

_BRANCHES = frozenset({"arith.select", "scf.execute_region", "scf.for", "scf.if", "scf.index_switch", "scf.while"})
"""Operations whose results are among their operands, or among what their regions yield."""


def copy_arguments(module: mlir.Module) -> None:
    """Insert the copies."""
    for loop in [op for op in mlir.walk(module) if op.name == "scf.while"]:
        end = list(loop.regions[1].blocks[0].operations)[-1].operation
        for number, value in enumerate(end.operands):
            if isinstance(value.type, ir.RankedTensorType) and _may_be_argument(value, loop):
                with ir.InsertionPoint(end), end.location:
                    copy = bufferization.AllocTensorOp(value.type, [], copy=value)
                end.operands[number] = copy.result


def _may_be_argument(value: mlir.Value, loop: mlir.Operation) -> bool:
    """Whether the value may lie in the memory of an argument of the function, or of what a loop outside carries."""
    work, seen = [value], {value}
    while work:
        current = work.pop()
        made_by = mlir.owner(current)
        if isinstance(made_by, ir.Block):
            holder = made_by.owner.operation
            if holder != loop and loop not in mlir.parents(holder):
                return True
            continue
        sources = _sources(made_by, current)
        work.extend(source for source in sources if source not in seen)
        seen.update(sources)
    return False


def _sources(op: mlir.Operation, result: mlir.Value) -> list[mlir.Value]:
    """Values in whose memory a result may lie, as far as nothing is written on the way."""
    if op.name in _SAME_MEMORY:
        return [op.operands[0]]
    if op.name not in _BRANCHES:
        return []
    # Which of them belongs to the result does not matter: too many copies are only slow.
    ends = [list(block.operations)[-1].operation for region in op.regions for block in region.blocks]
    values = [*op.operands, *(value for end in ends for value in end.operands)]
    return [value for value in values if value.type == result.type]
