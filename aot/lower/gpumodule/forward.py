"""A thread does not read back from memory what it has just written there.

In: bodies of parallel loops, after fusion. Out: loads of an element that the same iteration stored replaced by the
stored value, and stores that the same iteration overwrites removed.

``store %v, %b[%i]; %w = load %b[%i]; ...; store %u, %b[%i]``  becomes  ``...(%v for %w); store %u, %b[%i]``.

Only for buffers that the function allocates itself: an argument may overlap another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views


@dataclass
class _Known:
    """What is known about one element at some point of a body."""

    memory: ir.Value
    indices: list[ir.Value]
    store: ir.Operation
    """The store that wrote it."""


@dataclass
class _State:
    known: list[_Known] = field(default_factory=list)

    def find(self, memory: ir.Value, indices: list[ir.Value]) -> _Known | None:
        return next((each for each in self.known if each.memory == memory and each.indices == indices), None)

    def forget(self, root: ir.Value | None) -> None:
        """Nothing is known any more about a buffer, or about all of them."""
        self.known = [each for each in self.known if root is not None and views.root(each.memory) != root]


def stores_to_loads(module: ir.Module) -> None:
    """Forward values in the bodies of all parallel loops."""
    for op in mlir.walk(module):
        if op.name == "scf.parallel":
            _forward(op.regions[0].blocks[0])


def _forward(body: ir.Block) -> None:
    state = _State()
    for op in [each.operation for each in body.operations]:
        if op.name == "memref.load":
            _load(op, state)
        elif op.name == "memref.store":
            _store(op, state)
        else:
            _other(op, state)


def _load(op: ir.Operation, state: _State) -> None:
    memory, *indices = op.operands
    known = state.find(memory, indices)
    if known is not None:
        op.results[0].replace_all_uses_with(known.store.operands[0])
        op.erase()
    else:
        _touch(memory, state)


def _store(op: ir.Operation, state: _State) -> None:
    _, memory, *indices = op.operands
    known = state.find(memory, indices)
    if known is not None:
        known.store.erase()
    _touch(memory, state)
    if overlap.is_own(views.root(memory)):
        state.known.append(_Known(memory, indices, op))


def _other(op: ir.Operation, state: _State) -> None:
    for each in mlir.walk(op):
        for value in each.operands:
            if views.is_memref(value) and each.name not in views.VIEWS and each.name != "memref.dim":
                _touch(value, state)


def _touch(memory: ir.Value, state: _State) -> None:
    """An access to memory in a way that is not followed: it may be any element of its buffer."""
    root = views.root(memory)
    state.forget(root if overlap.is_own(root) or overlap.is_foreign(root) else None)
