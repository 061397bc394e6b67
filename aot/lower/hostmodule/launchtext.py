"""Launches in words: how many blocks and threads host code asks for, by the extents of a function's arguments.

In: host code with ``gpu.launch_func`` and the names of arguments. Out: for each kernel its grid and its block as texts.

>>> texts(module, {"aot_s__f": ["x"]})["f__f_kernel"].grid                     # doctest: +SKIP
('ceildiv(x.0, 4)', '1', '1')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk, symbols

UNSAID = "…"
"""For what is too long to say, or read from memory."""
_MOST = 80
"""Characters of an expression."""
_INFIX = {"addi": "+", "subi": "-", "muli": "*", "divui": "/", "divsi": "/", "remui": "%", "shrui": ">>", "shli": "<<"}
_CALLS = {"ceildivui": "ceildiv", "minui": "min", "minsi": "min", "maxui": "max", "maxsi": "max"}
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.trunci")
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class LaunchText:
    """Along x, y, z."""

    grid: tuple[str, ...]
    block: tuple[str, ...]


def texts(host: ir.Module, names: Names) -> dict[str, LaunchText]:
    """By the kernel's symbol; ``names``: arguments of each host function."""
    found = {}
    for op in opwalk.named(host, "gpu.launch_func"):
        function = next(each for each in mlir.parents(op) if each.name == "func.func")
        told = names.get(mlir.symbol_name(function), ())
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = list(op.operands)[segments[0] :]
        sizes = tuple(_limited(value, told) for value in operands[:6])
        found[symbols.path(op.attributes["kernel"])[-1]] = LaunchText(sizes[:3], sizes[3:])
    return found


def _grouped(text: str, value: ir.Value) -> str:
    """In parentheses, if it is a sum, a product, …"""
    made_by = mlir.owner(value)
    while not isinstance(made_by, ir.Block) and made_by.name in _SAME:
        made_by = mlir.owner(made_by.operands[0])
    infix = not isinstance(made_by, ir.Block) and made_by.name.removeprefix("arith.") in _INFIX
    return f"({text})" if infix and text != UNSAID else text


def _limited(value: ir.Value, names: Sequence[str]) -> str:
    text = _text(value, names, 0)
    return text if len(text) <= _MOST else UNSAID


def _text(value: ir.Value, names: Sequence[str], depth: int) -> str:
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Block):
        number = ir.BlockArgument(value).arg_number
        is_argument = made_by.owner.operation.name == "func.func" and number < len(names)
        return names[number] if is_argument else UNSAID
    dialect, _, name = made_by.name.partition(".")
    if made_by.name == "arith.constant":
        return str(ir.IntegerAttr(made_by.attributes["value"]).value)
    if depth > _MOST:
        return UNSAID
    inner = [_text(each, names, depth + 1) for each in made_by.operands] if dialect in ("arith", "memref") else []
    if made_by.name == "memref.dim":
        return f"{inner[0]}.{inner[1]}" if UNSAID not in inner else UNSAID
    if made_by.name in _SAME:
        return inner[0]
    if dialect == "arith" and name in _CALLS:
        return f"{_CALLS[name]}({', '.join(inner)})"
    if dialect == "arith" and name in _INFIX:
        left, right = (_grouped(text, each) for text, each in zip(inner, made_by.operands, strict=True))
        return f"{left} {_INFIX[name]} {right}"
    return UNSAID
