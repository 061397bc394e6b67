"""The functions of a package as C declares them, for ``aot build --c``.

In: PackageSpec and compiled sources. Out: rows whose fields are what the templates c_header.h.in and c_functions.c.in
write.

>>> functions(spec, sources)[0].symbol                                         # doctest: +SKIP
'kernels_softmax_forward'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aot import dtype
from aot.errors import PackageError
from aot.model import Argument, ArrayType, CompiledSource, Function, PackageSpec, Result

_WORDS = frozenset(
    re.findall(
        r"\w+",
        "alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do"
        " double else enum extern false float for friend goto if inline int long namespace new not nullptr operator or"
        " private protected public register restrict return short signed sizeof static static_assert stream struct"
        " switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void"
        " volatile while xor",
    )
)
"""Words of C and C++ that no parameter can have, and the last parameter's name."""


@dataclass(frozen=True)
class CFunction:
    """One function."""

    symbol: str
    source: str
    number: int
    """In its source's table."""
    parameters: str
    args: str
    results: str
    comment: str


def functions(spec: PackageSpec, sources: Sequence[CompiledSource]) -> tuple[CFunction, ...]:
    """All functions, by source; PackageError where two would have one symbol."""
    found = tuple(
        _function(spec, source, number, function)
        for source in sources
        for number, function in enumerate(source.functions)
    )
    symbols = [each.symbol for each in found] + [f"{spec.name}_error", f"{spec.name}_free"]
    twice = sorted({symbol for symbol in symbols if symbols.count(symbol) > 1})
    if twice:
        raise PackageError(
            f"--c: two functions would be called {', '.join(twice)}", hint="rename one of them, or its file"
        )
    return found


def _function(spec: PackageSpec, source: CompiledSource, number: int, function: Function) -> CFunction:
    array = f"{spec.name}_array"
    names = [_free(each.name, function) for each in function.args]
    parameters = [_parameter(each, name, array) for each, name in zip(function.args, names, strict=True)]
    args = [_address(each, name) for each, name in zip(function.args, names, strict=True)]
    results = []
    for place, result in enumerate(function.results, 1):
        if result.argument is None:
            parameters.append(f"{_result_type(result, array)} *result{place}")
        results.append(f"result{place}" if result.argument is None else "NULL")
    types = ", ".join(f"{name}: {each.type.text()}" for each, name in zip(function.args, names, strict=True))
    made = ", ".join(each.type.text() for each in function.results)
    return CFunction(
        symbol=f"{spec.name}_{source.name}_{function.name}",
        source=source.name,
        number=number,
        parameters=", ".join([*parameters, "void *stream"]),
        args=", ".join(args) or "NULL",
        results=", ".join(results) or "NULL",
        comment=f"{function.name}({types}) -> ({made})",
    )


def _free(name: str, function: Function) -> str:
    """The name, or one like it that is no word of C and no other parameter's."""
    taken = {each.name for each in function.args} | {f"result{place}" for place in range(1, len(function.results) + 1)}
    while name in _WORDS or (name.startswith("result") and name in taken and name[6:].isdigit()):
        name += "_"
    return name


def _parameter(argument: Argument, name: str, array: str) -> str:
    if isinstance(argument.type, ArrayType):
        return f"const {array} *{name}"
    element = dtype.of(argument.type.dtype)
    if element.kind == "COMPLEX":
        return f"const double {name}[2]"
    return f"{_number(argument.type.dtype)} {name}"


def _address(argument: Argument, name: str) -> str:
    by_value = not isinstance(argument.type, ArrayType) and dtype.of(argument.type.dtype).kind != "COMPLEX"
    return f"&{name}" if by_value else name


def _number(mlir: str) -> str:
    """The C type of a number that goes in; halves go in as float."""
    element = dtype.of(mlir)
    if element.kind in ("FLOAT", "BFLOAT"):
        return "double" if element.storage == 8 else "float"
    if element.kind == "BOOL":
        return "bool"
    return f"{'u' if element.kind == 'UINT' else ''}int{8 * element.storage}_t"


def _result_type(result: Result, array: str) -> str:
    """What a result parameter points to; halves come back as their bits, complex numbers as their parts."""
    if isinstance(result.type, ArrayType):
        return array
    element = dtype.of(result.type.dtype)
    if element.kind == "COMPLEX":
        return "float" if element.storage == 8 else "double"
    if element.kind in ("FLOAT", "BFLOAT") and element.storage == 2:
        return "uint16_t"
    return _number(result.type.dtype)
