"""The one form of asynchronous GPU operations that ``gpu-to-llvm`` lowers: async, with exactly one token.

In: a module with outlined launches. Out: the same module, in which every gpu.alloc, dealloc, memcpy and memset
of the host waits for one token and gives one, and every launch waits for one at most.

``gpu.dealloc %m``  becomes  ``%0 = gpu.wait async``, ``%1 = gpu.dealloc async [%0] %m``, ``gpu.wait [%1]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk

MEMORY_OPS = frozenset({"gpu.alloc", "gpu.dealloc", "gpu.memcpy", "gpu.memset"})
LAUNCH = "gpu.launch_func"
TOKEN = "!gpu.async.token"


def normalise(module: mlir.Module) -> None:
    """Rewrite all host operations that are not in that form."""
    for op in opwalk.named(module, *MEMORY_OPS, LAUNCH):
        if not mlir.inside_kernel(op) and not _has_form(op):
            _rewrite(op)


def carries_tokens(function: mlir.Operation) -> bool:
    """Whether tokens pass through loops, branches or calls.

    ``gpu-to-llvm`` takes those for events, which they are not. Such a function does everything in one stream.
    """
    return any(_carried(op) for op in mlir.walk(function))


def localise(function: mlir.Operation) -> None:
    """Replace carried tokens that operations wait for by fresh ones: in one stream, order is that of the program."""
    for op in mlir.walk(function):
        for number in _carried(op):
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = _wait((), token=True)


def _carried(op: mlir.Operation) -> list[int]:
    """Numbers of the operands that are tokens which no GPU operation made."""
    if not op.name.startswith("gpu.") or mlir.inside_kernel(op):
        return []
    return [number for number, value in enumerate(op.operands) if is_token(value) and not _is_made_here(value)]


def _is_made_here(value: mlir.Value) -> bool:
    made_by = mlir.owner(value)
    return not isinstance(made_by, ir.Block) and made_by.name.startswith("gpu.")


def is_token(value: mlir.Value) -> bool:
    """Whether the value orders operations."""
    return str(value.type) == TOKEN


def await_too(op: mlir.Operation, tokens: Sequence[mlir.Value]) -> mlir.Operation:
    """The operation, waiting for more tokens; it replaces the one given."""
    awaited = [value for value in op.operands if is_token(value)]
    with ir.InsertionPoint(op), op.location:
        new = _again(op, [*awaited, *tokens], gives=any(is_token(value) for value in op.results))
    _replace(op, list(new.results))
    return new


def _has_form(op: mlir.Operation) -> bool:
    waits_for = sum(is_token(value) for value in op.operands)
    gives = any(is_token(value) for value in op.results)
    if op.name == LAUNCH:
        return waits_for == 0 or (gives and waits_for == 1)
    # Managed memory is taken at once; upstream lowers that form without tokens, and refuses it with them.
    if "hostShared" in op.attributes:
        return not gives and waits_for == 0
    return gives and waits_for == 1


def _rewrite(op: mlir.Operation) -> None:
    awaited = [value for value in op.operands if is_token(value)]
    gives = any(is_token(value) for value in op.results)
    with ir.InsertionPoint(op), op.location:
        if op.name == LAUNCH and not gives:
            # A synchronous launch that waits: the host waits first.
            _wait(awaited, token=False)
            new = _again(op, awaited=(), gives=False)
        elif "hostShared" in op.attributes:
            _wait(awaited, token=False)
            new = _again(op, awaited=(), gives=False)
            if gives:
                _replace(op, [*new.results, _wait((), token=True)])
                return
        else:
            new = _again(op, awaited=[_wait(awaited, token=True)], gives=True)
            if not gives:
                _wait([new.results[len(new.results) - 1]], token=False)
    _replace(op, list(new.results))


def _replace(op: mlir.Operation, values: Sequence[mlir.Value]) -> None:
    for old, new in zip(list(op.results), values, strict=False):
        old.replace_all_uses_with(new)
    op.erase()


def _wait(awaited: Sequence[mlir.Value], *, token: bool) -> mlir.Value | None:
    results = [ir.Type.parse(TOKEN)] if token else []
    wait = ir.Operation.create("gpu.wait", results=results, operands=list(awaited))
    return wait.results[0] if token else None


def _again(op: mlir.Operation, awaited: Sequence[mlir.Value | None], *, gives: bool) -> mlir.Operation:
    """The same operation with other tokens, at the insertion point."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    if "operandSegmentSizes" in attributes:
        segments = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
        segments[0] = len(awaited)
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
    results = [value.type for value in op.results if not is_token(value)]
    if gives:
        results.append(ir.Type.parse(TOKEN))
    operands = [*awaited, *(value for value in op.operands if not is_token(value))]
    return ir.Operation.create(op.name, results=results, operands=operands, attributes=attributes)
