"""Who needs a value of host code: the host itself, or only kernels.

In: values of one block, and the operation behind which a launch will stand. Out: yes or no.

The ``%n`` of ``%n = memref.load %count[]`` is needed on the host by ``scf.for .. to %n``, not by a
``gpu.launch`` whose body uses it.
"""

from __future__ import annotations

from collections.abc import Container

from mlir import ir

from aot import mlir
from aot.lower.analysis import effects
from aot.lower.analysis.effects import Kind


def ancestor_in(block: ir.Block, op: mlir.Operation) -> mlir.Operation | None:
    """The operation of ``block`` that is ``op`` or holds it; None when ``op`` stands elsewhere."""
    while op is not None and op.block != block:
        parent = op.parent
        op = None if parent is None else parent.operation
        if op is not None and op.name in ("func.func", "builtin.module"):
            return None
    return op


def launch_around(op: mlir.Operation) -> mlir.Operation | None:
    """The ``gpu.launch`` in whose body the operation stands, or None."""
    return next((parent for parent in mlir.parents(op) if parent.name == "gpu.launch"), None)


class Demand:
    """Answers for the values of one block, with what was found out before; long chains need no deep recursion."""

    def __init__(self, anchor: mlir.Operation) -> None:
        self.anchor = anchor
        """The launch will stand right behind this operation."""
        self.block = anchor.block
        self._on_host: dict[mlir.Value, bool] = {}
        self._movable: dict[mlir.Operation, bool] = {}

    def on_host(self, value: mlir.Value) -> bool:
        """Whether host code needs the value, rather than kernels and what can move into them."""
        seen = {value}
        work = [value]
        while work:
            current = work.pop()
            known = self._on_host.get(current)
            if known or (known is None and self._look(current, seen, work)):
                self._on_host[value] = True
                return True
        self._on_host.update((each, False) for each in seen)
        return False

    def movable(self, op: mlir.Operation) -> bool:
        """Whether a pure operation behind the anchor could be computed right behind it."""
        if op not in self._movable:
            needed = self.behind(op, self._movable)
            can = all(self._movable.get(each, self._may_move(each)) for each in needed)
            self._movable.update((each, True) for each in needed if can)
            self._movable[op] = can
        return self._movable[op]

    def behind(self, op: mlir.Operation, known: Container[mlir.Operation]) -> list[mlir.Operation]:
        """The operation and all it uses from behind the anchor; the search ends at ``known`` operations."""
        found = {op: None}
        work = [op]
        while work:
            for made_by in map(mlir.owner, work.pop().operands):
                if not isinstance(made_by, ir.Block) and made_by not in found and self._stands_behind(made_by):
                    found[made_by] = None
                    if made_by not in known:
                        work.append(made_by)
        return list(found)

    def _look(self, value: mlir.Value, seen: set[mlir.Value], work: list[mlir.Value]) -> bool:
        """Whether a user of the value is host code; adds to ``work`` what follows from the value."""
        for user in [use.owner.operation for use in value.uses]:
            if launch_around(user) is not None:
                if ancestor_in(self.block, user) is None:
                    return True
                continue
            top = ancestor_in(self.block, user)
            if user.block == self.block and (self._can_join(user) or user.name == "memref.load"):
                work.extend(result for result in user.results if result not in seen)
                seen.update(user.results)
            elif top is None or effects.kind_of(top) is not Kind.DEVICE:
                return True
        return False

    def _can_join(self, op: mlir.Operation) -> bool:
        """Whether a pure operation can run in the launch: it stands in front of it, or can move there."""
        if not effects.is_pure(op) or not _is_value(op):
            return False
        return op.is_before_in_block(self.anchor) or self.movable(op)

    def _may_move(self, op: mlir.Operation) -> bool:
        return op.block == self.block and effects.speculatable(op) and _is_value(op)

    def _stands_behind(self, op: mlir.Operation) -> bool:
        """What stands in another block is an operation of a block around this one, and in front."""
        return op.block == self.block and op != self.anchor and bool(self.anchor.is_before_in_block(op))


def _is_value(op: mlir.Operation) -> bool:
    """Whether the results are values, not memory."""
    return all(effects.storable(result.type) for result in op.results)
