"""Who needs a value of host code: the host itself, or only kernels.

In: values of one block, and the operation behind which a launch will stand. Out: yes or no.

The ``%n`` of ``%n = memref.load %count[]`` is needed on the host by ``scf.for .. to %n``, not by a
``gpu.launch`` whose body uses it.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower import effects
from aot.lower.effects import Kind


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
    """Answers for the values of one block; remembers them, so that long chains stay cheap."""

    def __init__(self, anchor: mlir.Operation) -> None:
        self.anchor = anchor
        """The launch will stand right behind this operation."""
        self.block = anchor.block
        self._known: dict[mlir.Value, bool] = {}

    def on_host(self, value: mlir.Value) -> bool:
        """Whether host code needs the value, rather than kernels and what can move into them."""
        if value not in self._known:
            self._known[value] = False
            self._known[value] = any(self._use_on_host(use.owner.operation) for use in value.uses)
        return self._known[value]

    def movable(self, op: mlir.Operation) -> bool:
        """Whether a pure operation behind the anchor could be computed right behind it."""
        if op.block != self.block or not effects.is_pure(op) or not all(effects.storable(r.type) for r in op.results):
            return False
        return all(self._available(value) for value in op.operands)

    def _use_on_host(self, user: mlir.Operation) -> bool:
        if launch_around(user) is not None:
            return ancestor_in(self.block, user) is None
        top = ancestor_in(self.block, user)
        if top is None:
            return True
        if effects.is_pure(user) and top == user:
            return not self.movable(user) or any(self.on_host(result) for result in user.results)
        if user.name == "memref.load" and top == user:
            return self.on_host(user.results[0])
        return effects.kind_of(top) is not Kind.DEVICE

    def _available(self, value: mlir.Value) -> bool:
        made_by = mlir.owner(value)
        if isinstance(made_by, ir.Block):
            return True
        # What stands in another block is an operation of a block around this one.
        if made_by.block != self.block or made_by == self.anchor or made_by.is_before_in_block(self.anchor):
            return True
        return self.movable(made_by)
