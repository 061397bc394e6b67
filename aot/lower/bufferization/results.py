"""Results: which memory they are returned in, and how it reaches the caller.

In: functions on memrefs and the signatures read from their source. Out: functions that return numbers only:
a result that is an argument is left out, every other array is in memory asked from the caller's side
(``@aot_rt_result``), and destinations hold the results that belong into them.

>>> aim(module, functions)         # on tensors                                     # doctest: +SKIP
>>> settle(module, functions)      # before deallocation: each returned array is an allocation of its own
>>> renew(module, functions)       # after it: that is so again
>>> hand_over(module, functions)   # at the end: those allocations become @aot_rt_result

Functions that write results into buffers of their caller are no alternative: a size that depends on a branch, a
loop or device data is not known to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import bufferization, func, memref

from aot import mlir
from aot.lower.analysis import opwalk, views
from aot.lower.hostmodule import rtcalls
from aot.lower.source.signature import outs_operand, public_functions
from aot.model import ArrayType, Function


def aim(module: ir.Module, functions: Sequence[Function]) -> None:
    """On tensors: say that a result belongs into its destination, so that bufferization computes it there.

    The ``outs`` operand that said so in the source does not survive: fusion replaces it where it is not read.
    """
    for op, function in _pairs(module, functions):
        entry = op.regions[0].blocks[0]
        for each in _returns(op):
            for number, result in enumerate(function.results):
                if result.argument is None or function.args[result.argument].role != "destination":
                    continue
                value, target = each.operands[number], entry.arguments[result.argument]
                if value.type == target.type and _lost_its_place(value):
                    with ir.InsertionPoint(each), each.location:
                        placed = bufferization.MaterializeInDestinationOp(target.type, value, target).result
                    each.operands[number] = placed


def _lost_its_place(value: ir.Value) -> bool:
    """Whether linalg computes the value in a tensor of its own."""
    while isinstance(made_by := mlir.owner(value), ir.Operation) and made_by.name.startswith("linalg."):
        value = outs_operand(made_by, ir.OpResult(value).result_number)
    return isinstance(made_by, ir.Operation) and made_by.name == "tensor.empty"


def settle(module: ir.Module, functions: Sequence[Function]) -> None:
    """Make every returned array an allocation that nothing else returns, and fill destinations."""
    for op, function in _pairs(module, functions):
        returns = _returns(op)
        for each in returns:
            _settle_return(each, op, function, single=len(returns) == 1)
        _drop(op, [number for number, result in enumerate(function.results) if result.argument is not None])


def renew(module: ir.Module, functions: Sequence[Function]) -> None:
    """After deallocation: copy what is returned where that pass has put something between allocation and return."""
    for op, function in _pairs(module, functions):
        for each in _returns(op):
            for place, _ in _arrays(function):
                if not _is_allocation(_root(each.operands[place])):
                    each.operands[place] = _copied(each, each.operands[place])


def allocations(module: ir.Module, functions: Sequence[Function]) -> dict[str, dict[int, list[ir.Operation]]]:
    """What will be handed over: by function and number of the result, the allocation of each return."""
    found: dict[str, dict[int, list[ir.Operation]]] = {function.name: {} for function in functions}
    for op, function in _pairs(module, functions):
        for each in _returns(op):
            for place, number in _arrays(function):
                found[function.name].setdefault(number, []).append(mlir.owner(_root(each.operands[place])))
    return found


def hand_over(module: ir.Module, functions: Sequence[Function]) -> None:
    """Put returned arrays into memory of the caller's kind, and return numbers only."""
    for op, function in _pairs(module, functions):
        for each in _returns(op):
            for place, number in _arrays(function):
                value = _root(each.operands[place])
                made_by = mlir.owner(value)
                with ir.InsertionPoint(made_by), made_by.location:
                    memory = rtcalls.result(number, ir.MemRefType(value.type), list(made_by.operands))
                value.replace_all_uses_with(memory)
                made_by.erase()
        _drop(op, [place for place, _ in _arrays(function)])


def _arrays(function: Function) -> list[tuple[int, int]]:
    """Of each new array: its place among the values that are returned, and its number in the signature."""
    kept = [number for number, result in enumerate(function.results) if result.argument is None]
    return [
        (place, number) for place, number in enumerate(kept) if isinstance(function.results[number].type, ArrayType)
    ]


def _pairs(module: ir.Module, functions: Sequence[Function]) -> list[tuple[ir.Operation, Function]]:
    by_name = {function.name: function for function in functions}
    return [(op, by_name[mlir.symbol_name(op)]) for op in public_functions(module)]


def _returns(function: ir.Operation) -> list[ir.Operation]:
    return opwalk.named(function, "func.return")


def _settle_return(op: ir.Operation, function: ir.Operation, signature: Function, *, single: bool) -> None:
    taken: list[ir.Value] = []
    writes: list[tuple[ir.Value, ir.Value]] = []
    entry = function.regions[0].blocks[0]
    for number, result in enumerate(signature.results):
        value = op.operands[number]
        if not isinstance(result.type, ArrayType):
            continue
        if result.argument is not None:
            target = entry.arguments[result.argument]
            if signature.args[result.argument].role == "destination" and _root(value) != target:
                writes.append((value, target))
        elif single and _is_own(value, function) and _root(value) not in taken:
            taken.append(_root(value))
        else:
            op.operands[number] = _copied(op, value)
    # Last, so that copies above still see what a destination held.
    for value, target in _without_hazards(op, writes):
        with ir.InsertionPoint(op), op.location:
            memref.CopyOp(value, target)


def _without_hazards(op: ir.Operation, writes: list[tuple[ir.Value, ir.Value]]) -> list[tuple[ir.Value, ir.Value]]:
    """A value that lies in an argument's memory is copied first: filling a destination could overwrite it."""
    arguments = [isinstance(mlir.owner(views.root(value)), ir.Block) for value, _ in writes]
    return [
        (_copied(op, value) if (inside and len(writes) > 1) or views.root(value) == target else value, target)
        for (value, target), inside in zip(writes, arguments, strict=True)
    ]


def _is_own(value: ir.Value, function: ir.Operation) -> bool:
    """Whether the value is a whole row-major allocation of the function itself, made once per call."""
    root = _root(value)
    if not _is_allocation(root):
        return False
    kind = ir.MemRefType(root.type)
    plain = ir.MemRefType.get(kind.shape, kind.element_type)
    return bool(kind == plain and mlir.owner(root).parent.operation == function)


def _is_allocation(value: ir.Value) -> bool:
    made_by = mlir.owner(value)
    return isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc"


def _root(value: ir.Value) -> ir.Value:
    """The value under casts: the same elements in the same places."""
    while isinstance(made_by := mlir.owner(value), ir.Operation) and made_by.name == "memref.cast":
        value = made_by.operands[0]
    return value


def _copied(op: ir.Operation, value: ir.Value) -> ir.Value:
    """A new row-major buffer with the elements of ``value``, made right before ``op``; of the same type."""
    kind = ir.MemRefType(value.type)
    with ir.InsertionPoint(op), op.location:
        buffer = memref.AllocOp(
            ir.MemRefType.get(kind.shape, kind.element_type), rtcalls.dynamic_sizes(value), []
        ).result
        memref.CopyOp(value, buffer)
        return buffer


def _drop(function: ir.Operation, numbers: Sequence[int]) -> None:
    """Take results out of a function and its returns; types follow the returned values."""
    kept_types: list[ir.Type] = []
    for op in _returns(function):
        kept = [value for number, value in enumerate(op.operands) if number not in numbers]
        kept_types = [value.type for value in kept]
        with ir.InsertionPoint(op), op.location:
            func.ReturnOp(kept)
        op.erase()
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(signature.inputs, kept_types))
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
