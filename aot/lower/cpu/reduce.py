"""Reductions that a loop carries in a register: which they are, and that their order is free.

In: ``scf.for`` made from linalg, with carried values (``accumulate``). Out: what combines the values, and the leave for
LLVM to add in another order: several partial sums in vector registers instead of one after the other, which is also
more accurate.

>>> Reduction.of(loop).combiner.name                                    # doctest: +SKIP
'arith.addf'
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import neutral

_FREE_ORDER = frozenset({"arith.addf", "arith.mulf"})
_PURE = frozenset({"memref.load", "scf.yield", "scf.if", "scf.for"})


@dataclass(frozen=True)
class Reduction:
    """A loop that carries one value."""

    loop: ir.Operation
    combiner: ir.Operation

    @staticmethod
    def of(loop: ir.Operation) -> Reduction | None:
        """The reduction that a loop is; None when it carries several values, or in another way."""
        found = combiners(loop)
        return Reduction(loop, found[0]) if len(found) == 1 and len(loop.results) == 1 else None

    def is_wide(self) -> bool:
        """Not in 8 or 16 bits of float, where a source that asks for them means their rounding after each step."""
        return wide(self.combiner.results[0].type)

    def is_pure(self) -> bool:
        """Whether the loop only reads memory and computes."""
        return all(
            op.name in _PURE or op.name.split(".")[0] in ("arith", "math", "index") for op in mlir.walk(self.loop)
        )

    def neutral(self) -> ir.Value:
        """The value that changes nothing, at the insertion point."""
        kind = self.combiner.results[0].type
        return arith.ConstantOp(kind, neutral.of(self.combiner.name, kind)).result

    def combine(self, value: ir.Value, carried: ir.Value) -> ir.Value:
        """Both put together, at the insertion point."""
        copy = self.combiner.clone().operation
        copy.operands[0], copy.operands[1] = value, carried
        return copy.results[0]


def wide(kind: ir.Type) -> bool:
    """Whether sums in the type may be taken in any order."""
    return not isinstance(kind, ir.FloatType) or bool(kind.width >= 32)


def combiners(loop: ir.Operation) -> list[ir.Operation]:
    """For each carried value the operation that combines it with the iteration's; [] unless all are of that form."""
    body = loop.regions[0].blocks[0]
    carried = list(body.arguments)[1:]
    yielded = list(list(body.operations)[-1].operation.operands)
    found = []
    for old, new in zip(carried, yielded, strict=True):
        op = mlir.owner(new)
        if isinstance(op, ir.Block) or op.block != body or op.name not in neutral.OPERATIONS:
            return []
        if len(list(old.uses)) != 1 or len(list(new.uses)) != 1 or list(op.operands).count(old) != 1:
            return []
        found.append(op)
    return found


def free_order(module: ir.Module, user_loops: set[ir.Operation]) -> None:
    """Say that sums and products may be taken in any order; loops of the source keep theirs."""
    flags = ir.Attribute.parse("#arith.fastmath<reassoc>")
    for op in mlir.walk(module):
        if op.name == "scf.for" and op not in user_loops and len(op.results):
            for combiner in combiners(op):
                if combiner.name in _FREE_ORDER and wide(combiner.results[0].type):
                    combiner.attributes["fastmath"] = flags
