"""Kernels of a module in pieces, each of which can be translated without the others.

In: a module with a source's lowered gpu.module. Out: how many pieces it has, and the module with one of them.

A piece is some kernels that follow each other. How many there are depends on the code alone: where processors are free
pieces are translated side by side, elsewhere one after the other, and the text is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.source import sourcelevel

_OPERATIONS = 1000
"""Of a piece, at least: less is not worth a process."""
_MOST = 4
_FUNCTIONS = ("func.func", "gpu.func", "llvm.func")
_LIBRARY = "__nv_"
"""Begins the names of libdevice's functions, which are inlined."""
_UNIQUE = ":uid}"
"""In assembly: a number that is another one in each place of a module."""


@dataclass(frozen=True)
class Piece:
    """One of them."""

    number: int
    count: int


def are_apart(module: mlir.Module) -> bool:
    """Whether kernels, lowered or not, are translated as well without each other.

    Where functions are called they stay together, for LLVM looks at all callers.
    """
    others = [op for op in _functions(module) if not sourcelevel.is_kernel(op)]
    called = [op for op in others if not mlir.symbol_name(op).startswith(_LIBRARY)]
    return not called and not any(map(_is_numbered, opwalk.named(module, "llvm.inline_asm")))


def count(module: mlir.Module) -> int:
    """How many pieces there are at most."""
    kernels = [op for op in _functions(module) if sourcelevel.is_kernel(op)]
    pieces = min(_MOST, len(kernels), sum(map(_size, kernels)) // _OPERATIONS)
    return pieces if pieces > 1 and are_apart(module) else 1


def _is_numbered(assembly: mlir.Operation) -> bool:
    # The text of the operation would have all of its function read.
    return _UNIQUE in ir.StringAttr(assembly.attributes["asm_string"]).value


def keep(module: mlir.Module, piece: Piece) -> None:
    """Erase the kernels of all other pieces."""
    kernels = [op for op in _functions(module) if sourcelevel.is_kernel(op)]
    sizes = list(map(_size, kernels))
    total, begun = sum(sizes), 0
    for op, size in zip(kernels, sizes, strict=True):
        # A kernel belongs to the piece that its middle is in.
        if (2 * begun + size) * piece.count // (2 * total) != piece.number:
            op.erase()
        begun += size


def _functions(module: mlir.Module) -> Iterator[mlir.Operation]:
    for container in sourcelevel.top(module):
        if container.name == "gpu.module":
            yield from (op for op in sourcelevel.top(container) if op.name in _FUNCTIONS)


def _size(function: mlir.Operation) -> int:
    return sum(len(block.operations) for region in function.regions for block in region.blocks)
