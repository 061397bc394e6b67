"""Which buffers can share memory, and which elements of them an iteration of a parallel loop touches.

In: memref values of bufferized host code, and parallel loops. Out: answers, on the safe side.

Memory that a function allocates overlaps no argument. Two arguments may overlap, unless both are tensors in the
source: the caller's side sees to it that a destination is separate from everything that is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import views

Elements = tuple[int, ...]
"""Which loop gives each index of an access: ``(1, 0)`` for ``%b[%j, %i]`` in a loop over ``(%i, %j)``."""


@dataclass(frozen=True)
class Access:
    """One use of memory in the body of a parallel loop."""

    memory: ir.Value
    writes: bool
    elements: Elements | None
    """None when it is not a load or store whose indices are the loop's own."""

    @property
    def root(self) -> ir.Value:
        return views.root(self.memory)


def accesses(loop: ir.Operation) -> list[Access]:
    """All uses of memory in a parallel loop, nested ones included."""
    arguments = list(loop.regions[0].blocks[0].arguments)
    found = []
    for op in mlir.walk(loop):
        if op.name == "memref.load":
            found.append(Access(op.operands[0], False, _elements(list(op.operands)[1:], arguments)))
        elif op.name == "memref.store":
            found.append(Access(op.operands[1], True, _elements(list(op.operands)[2:], arguments)))
        elif op.name not in views.VIEWS and op.name not in ("memref.dim", "memref.alloca"):
            found += [Access(value, True, None) for value in op.operands if views.is_memref(value)]
    return found


def _elements(indices: list[ir.Value], arguments: list[ir.Value]) -> Elements | None:
    """The loops that index the access, if those are all loops, each once: then no two iterations share an element."""
    if len(indices) != len(arguments) or not all(index in arguments for index in indices):
        return None
    places = tuple(arguments.index(index) for index in indices)
    return places if len(set(places)) == len(places) else None


def separate(one: ir.Value, other: ir.Value, tensors: Collection[ir.Value]) -> bool:
    """Whether two different roots certainly share no memory; ``tensors`` are arguments of tensor type in the source."""
    if is_own(one) or is_own(other):
        return all(is_own(root) or is_foreign(root) for root in (one, other))
    if is_constant(one) or is_constant(other):
        return all(is_constant(root) or is_foreign(root) for root in (one, other))
    return one in tensors and other in tensors


def is_own(root: ir.Value) -> bool:
    """Whether the function itself allocates the memory."""
    made_by = mlir.owner(root)
    return isinstance(made_by, ir.Operation) and made_by.name in ("memref.alloc", "memref.alloca")


def is_constant(root: ir.Value) -> bool:
    """Whether it is memory of the program."""
    made_by = mlir.owner(root)
    return isinstance(made_by, ir.Operation) and made_by.name == "memref.get_global"


def is_foreign(root: ir.Value) -> bool:
    """Whether it certainly is not the function's own memory: an argument or a constant."""
    made_by = mlir.owner(root)
    if isinstance(made_by, ir.Operation):
        return is_constant(root)
    function = made_by.owner.operation
    return bool(function.name == "func.func" and made_by == function.regions[0].blocks[0])
