"""How many bytes a call moves and how many operations it does, as polynomials in the extents of its arguments.

In: functions as linalg on tensors or memrefs, with extents of intermediates in terms of arguments. Out: the signatures
with ``cost``. Nothing is changed in the module.

Bytes are those that a call cannot do without: each argument read once (of one that is only gathered from, as many
elements as are taken), each result written once. Operations are those of ``arith`` and ``math`` in the bodies of linalg
operations, times their iterations; an exponential counts as one, as an addition does. What depends on data is None.

>>> estimate(module, functions)[0].cost.operations                                # doctest: +SKIP
(Term(factor=2, dims=((0, 0), (0, 1), (1, 1))),)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlir import ir

from aot import mlir
from aot.lower.analysis.extents import Polynomial, added, constant, extent, multiplied, number, size, terms
from aot.lower.dialects import linalg
from aot.lower.hostmodule import rtcalls
from aot.lower.source.signature import outs_operand, public_functions
from aot.model import ArrayType, Cost, Function

_FREE = frozenset(
    {"constant", "extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast"}
    | {"index_cast", "index_castui", "cmpf", "cmpi", "select"}
)
"""Operations of ``arith`` that are not counted: they convert or choose."""
_ELEMENTS = frozenset({"tensor.extract", "memref.load"})
_ASKS = frozenset({"tensor.dim", "memref.dim"})


def estimate(module: ir.Module, functions: Sequence[Function]) -> tuple[Function, ...]:
    """The functions with their costs."""
    ops = {mlir.symbol_name(op): op for op in public_functions(module)}
    return tuple(replace(each, cost=_cost(ops[each.name], each)) for each in functions)


def _cost(op: ir.Operation, function: Function) -> Cost:
    work = [each for each in mlir.walk(op) if each.name.startswith("linalg.") and _iterations(each) is not _NO_LOOPS]
    return Cost(
        read=terms(_read(op, function)),
        written=terms(_written(op, function)),
        operations=terms(
            added(multiplied([_times(each), _iterations(each), constant(_counted(each))]) for each in work)
        ),
        reduction=terms(added(multiplied(_reduced(each)) for each in work if list(_reduced(each)))),
    )


_NO_LOOPS: Polynomial = {}


def _loops(op: ir.Operation) -> dict[int, Polynomial | None]:
    """Extent of each loop of a linalg operation, from the first operand that one loop alone runs along."""
    maps = linalg.get_indexing_maps(op)
    loops: dict[int, Polynomial | None] = {}
    if maps is None:
        return loops
    for value, each in zip(op.operands, maps, strict=False):
        for axis, expression in enumerate(each.value.results):
            if isinstance(expression, ir.AffineDimExpr) and loops.get(expression.position) is None:
                loops[expression.position] = extent(value, axis)
    return loops


def _iterations(op: ir.Operation) -> Polynomial | None:
    """How often the body runs; ``_NO_LOOPS`` for an operation without indexing maps."""
    maps = linalg.get_indexing_maps(op)
    if maps is None:
        return _NO_LOOPS
    loops = _loops(op)
    return multiplied(loops.get(loop) for loop in range(maps[0].value.n_dims))


def _reduced(op: ir.Operation) -> Iterator[Polynomial | None]:
    """Extents of the loops that no output has."""
    maps = linalg.get_indexing_maps(op)
    outputs = [each.value for each, value in zip(maps, op.operands, strict=False) if _is_output(op, value)]
    kept = {each.position for one in outputs for each in one.results if isinstance(each, ir.AffineDimExpr)}
    loops = _loops(op)
    return (loops.get(loop) for loop in range(maps[0].value.n_dims) if loop not in kept)


def _outputs(op: ir.Operation) -> list[ir.Value]:
    if len(op.results):
        return [outs_operand(op, index) for index in range(len(op.results))]
    # On buffers, operations without segments have one output; a reduction has as many as inputs.
    if "operandSegmentSizes" in op.attributes:
        count = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[1]
    else:
        count = len(op.operands) // 2 if op.name == "linalg.reduce" else 1
    return list(op.operands)[len(op.operands) - count :]


def _is_output(op: ir.Operation, value: ir.Value) -> bool:
    return value in _outputs(op)


def _counted(op: ir.Operation) -> int:
    """Operations in one run of the body."""
    return sum(_weight(str(each.name)) for each in mlir.walk(op))


def _weight(name: str) -> int:
    dialect, _, operation = name.partition(".")
    if dialect == "math":
        return 2 if operation == "fma" else 1
    return int(dialect == "arith" and operation not in _FREE)


def _times(op: ir.Operation) -> Polynomial | None:
    """How often the operation itself runs: unknown inside branches and loops that depend on data."""
    parts: list[Polynomial | None] = []
    for parent in mlir.parents(op):
        if parent.name == "scf.for":
            low, high, step = (number(parent.operands[index]) for index in range(3))
            unit = step == constant(1) and low in ({}, constant(0))
            parts.append(high if unit else None)
        elif parent.name not in ("func.func", "builtin.module"):
            parts.append(None)
    return multiplied(parts)


def _read(op: ir.Operation, function: Function) -> Polynomial | None:
    """Bytes of the arguments that are read."""
    return added(
        _bytes_read(value)
        for value, argument in zip(op.regions[0].blocks[0].arguments, function.args, strict=True)
        if isinstance(argument.type, ArrayType)
    )


def _bytes_read(value: ir.Value) -> Polynomial | None:
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    readers = [user for user, index in uses if user.name not in _ASKS and _reads(user, index)]
    if not readers:
        return constant(0)
    element = constant(rtcalls.storage_bytes(value.type.element_type))
    if all(user.name in _ELEMENTS for user in readers):
        return added(multiplied([_taken(user), element]) for user in readers)
    return multiplied([size(value), element])


def _taken(op: ir.Operation) -> Polynomial | None:
    """How often an element is taken."""
    inside = next((each for each in mlir.parents(op) if each.name.startswith("linalg.")), None)
    return _times(op) if inside is None else multiplied([_times(inside), _iterations(inside)])


def _reads(user: ir.Operation, index: int) -> bool:
    """Whether an operation reads an operand: an output of linalg only when the body uses its old value."""
    if user.name in ("memref.store", "bufferization.materialize_in_destination"):
        return index == 0
    if not user.name.startswith("linalg.") or not _is_output(user, user.operands[index]):
        return bool(user.name != "func.return")
    arguments = list(user.regions[0].blocks[0].arguments) if user.regions else []
    return index < len(arguments) and bool(list(arguments[index].uses))


def _written(op: ir.Operation, function: Function) -> Polynomial | None:
    """Bytes of results, and of arguments that are written."""
    entry = op.regions[0].blocks[0]
    returns = [each for each in mlir.walk(op) if each.name == "func.return"]
    parts = [
        _the_same([_bytes_of(each.operands[index]) for each in returns])
        for index, result in enumerate(function.results)
        if isinstance(result.type, ArrayType)
        and (result.argument is None or function.args[result.argument].role == "destination")
    ]
    parts += [
        _bytes_of(value)
        for value, argument in zip(entry.arguments, function.args, strict=True)
        if argument.role == "ref" and any(_writes(use.owner.operation, value) for use in value.uses)
    ]
    return added(parts)


def _the_same(found: Sequence[Polynomial | None]) -> Polynomial | None:
    """What all branches agree on."""
    return found[0] if all(each == found[0] for each in found) else None


def _writes(user: ir.Operation, value: ir.Value) -> bool:
    if user.name in ("memref.store", "memref.copy"):
        return bool(user.operands[1] == value)
    return user.name.startswith("linalg.") and _is_output(user, value)


def _bytes_of(value: ir.Value) -> Polynomial | None:
    return multiplied([size(value), constant(rtcalls.storage_bytes(value.type.element_type))])
