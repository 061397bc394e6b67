"""Extents of results as programs over the extents of arguments, where host code computes them from nothing else.

In: functions on memrefs whose results are allocations (``results.settle``). Out: the functions with ``Result.extents``:
what frameworks that trace programs ask for before anything runs. Dims and symbols are numbered as for launch sizes
(``aot.h``): all dimensions of the array arguments in order, then the integer and index arguments in order.

>>> found(module, functions)[0].results[0].extents                            # doctest: +SKIP
((2, 0, 0), (1, 128, 0))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.bufferization.results import allocations
from aot.lower.source.launchsize import ADD, CEILDIV, CONST, DIM, END, FLOORDIV, MOD, MUL, SYM, Program, is_symbol
from aot.model import ArrayType, Function, Result

_BINARY = {
    "arith.addi": ADD,
    "arith.muli": MUL,
    "arith.ceildivsi": CEILDIV,
    "arith.ceildivui": CEILDIV,
    "arith.floordivsi": FLOORDIV,
    "arith.divsi": FLOORDIV,
    "arith.divui": FLOORDIV,
    "arith.remsi": MOD,
    "arith.remui": MOD,
}
"""Extents are not negative, so both kinds of division are one."""
_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui")
_LONGEST = 64
"""Words of a program: a longer one is no help to anybody."""


class _Unknown(Exception):
    """A value that depends on something else than arguments, or on numbers that may wrap."""


def found(module: ir.Module, functions: Sequence[Function]) -> tuple[Function, ...]:
    """The functions with the extents of their new arrays, ``None`` for one that only the call knows."""
    made = allocations(module, functions)
    return tuple(_measured(function, made[function.name]) for function in functions)


def _measured(function: Function, made: Mapping[int, Sequence[ir.Operation]]) -> Function:
    results = list(function.results)
    for number, operations in made.items():
        kind = results[number].type
        assert isinstance(kind, ArrayType)
        ways = {_extents(each, kind, function) for each in operations}
        if len(ways) == 1:
            results[number] = Result(kind, None, ways.pop())
    return replace(function, results=tuple(results))


def _extents(allocation: ir.Operation, kind: ArrayType, function: Function) -> tuple[Program | None, ...]:
    sizes = iter(allocation.operands)
    given = [
        next(sizes) if ir.MemRefType(allocation.results[0].type).is_dynamic_dim(axis) else None
        for axis in range(len(kind.shape))
    ]
    return tuple(
        (CONST, extent, END) if extent is not None else _program(size, function)
        for extent, size in zip(kind.shape, given, strict=True)
    )


def _program(size: ir.Value | None, function: Function) -> Program | None:
    try:
        words = () if size is None else _words(size, function)
    except _Unknown:
        return None
    return (*words, END) if 0 < len(words) < _LONGEST else None


def _words(value: ir.Value, function: Function) -> Program:
    made_by = mlir.owner(value)
    if literals.may_wrap(value.type):
        raise _Unknown
    if isinstance(made_by, ir.Block):
        return (SYM, _symbol(ir.BlockArgument(value).arg_number, function))
    name, operands = made_by.name, made_by.operands
    if name == "arith.constant":
        return (CONST, ir.IntegerAttr(made_by.attributes["value"]).value)
    if name in _CASTS:
        return _words(operands[0], function)
    if name == "memref.dim":
        return (DIM, _dim(operands[0], operands[1], function))
    if name == "arith.subi":
        return (*_words(operands[0], function), *_words(operands[1], function), CONST, -1, MUL, ADD)
    if name not in _BINARY:
        raise _Unknown
    words = (*_words(operands[0], function), *_words(operands[1], function), _BINARY[name])
    if len(words) > _LONGEST:
        raise _Unknown
    return words


def _dim(array: ir.Value, axis: ir.Value, function: Function) -> int:
    """The number of one dimension of an argument."""
    while isinstance(made_by := mlir.owner(array), ir.Operation) and made_by.name == "memref.cast":
        array = made_by.operands[0]
    along = literals.whole(axis)
    if along is None or not isinstance(mlir.owner(array), ir.Block):
        raise _Unknown
    number = ir.BlockArgument(array).arg_number
    if number >= len(function.args):
        raise _Unknown
    before = [each.type for each in function.args[:number]]
    first = sum(len(each.shape) for each in before if isinstance(each, ArrayType))
    return first + along


def _symbol(number: int, function: Function) -> int:
    """The number of an argument among the integers."""
    kinds = [each.type for each in function.args]
    if number >= len(kinds) or not is_symbol(kinds[number]):
        raise _Unknown
    return sum(is_symbol(each) for each in kinds[:number])
