"""Default launch sizes of kernels: the attributes ``aot.grid``, ``aot.block`` and ``aot.shared``.

In: a kernel and its parameters. Out: postfix programs over dims and symbols, as ``aot.h`` evaluates them: dims
number all dimensions of the memref parameters in order, symbols the integer and index parameters in order.

``aot.grid = [affine_map<(d0)[s0] -> (d0 ceildiv 256)>, 4]`` gives ``((2, 0, 1, 256, 7, 0), (1, 4, 0))``.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.gpumodule.imageneeds import ATTRIBUTE as NEEDS
from aot.lower.gpumodule.imageneeds import LESS_SHARED
from aot.lower.launches.byvalue import ATTRIBUTE as BY_VALUE
from aot.lower.launches.tiling import ATTRIBUTES as TILING
from aot.lower.outline import FUNCTION
from aot.model import Argument, ArrayType, ScalarType, ValueType
from aot.targets.arch import MAX_THREADS_PER_BLOCK, TABLE, Capability

Program = tuple[int, ...]


END, CONST, DIM, SYM, ADD, MUL, FLOORDIV, CEILDIV, MOD = range(9)
"""AOT_EXPR_* of aot.h; CONST, DIM and SYM take the next word."""


@dataclass(frozen=True)
class LaunchSizes:
    """Defaults of one kernel; None where there is none."""

    grid: tuple[Program, ...] | None = None
    block: tuple[Program, ...] | None = None
    shared: Program | None = None
    cooperative: bool = False
    programmatic: bool = False
    priority: int | None = None


_NAMES = ("grid", "block", "shared")
_FLAGS = ("cooperative", "programmatic")
_ALL = (*_NAMES, *_FLAGS, "priority")
ATTRIBUTES = tuple(f"aot.{name}" for name in _ALL)
_MOST_IN_Z = 64
"""Threads of a block, on every GPU."""
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
"""Of a grid, along x, y and z, on every GPU."""


class UnfitError(Exception):
    """An attribute that is not what it should be; the text says why."""


_BINARY = (
    (ir.AffineAddExpr, ADD),
    (ir.AffineMulExpr, MUL),
    (ir.AffineFloorDivExpr, FLOORDIV),
    (ir.AffineCeilDivExpr, CEILDIV),
    (ir.AffineModExpr, MOD),
)


def read(kernel: mlir.Operation, params: Sequence[Argument]) -> LaunchSizes:
    """The kernel's defaults; UnfitError when an attribute names something that is not there."""
    dims = sum(len(each.type.shape) for each in params if isinstance(each.type, ArrayType))
    syms = sum(is_symbol(each.type) for each in params)
    _check_names(kernel)
    programs = {name: _programs(kernel, f"aot.{name}", dims, syms) for name in _NAMES}
    check_block(programs["block"])
    _check_grid(programs["grid"])
    shared = programs["shared"]
    if shared is not None and len(shared) != 1:
        raise UnfitError(f"aot.shared has {len(shared)} entries; it has one, the bytes of dynamic shared memory")
    _known(shared, "aot.shared", 0)
    flags = {name: _flag(kernel, f"aot.{name}") for name in _FLAGS}
    return LaunchSizes(
        programs["grid"], programs["block"], shared[0] if shared else None, **flags, priority=_priority(kernel)
    )


def _flag(kernel: mlir.Operation, name: str) -> bool:
    """``aot.cooperative``, or with ``= true`` or ``= false``."""
    if name not in kernel.attributes:
        return False
    attribute = kernel.attributes[name]
    if not isinstance(attribute, ir.UnitAttr | ir.BoolAttr):
        raise UnfitError(f"{name}: '{attribute}' is neither true nor false")
    return isinstance(attribute, ir.UnitAttr) or bool(attribute.value)


def _priority(kernel: mlir.Operation) -> int | None:
    if "aot.priority" not in kernel.attributes:
        return None
    attribute = kernel.attributes["aot.priority"]
    if not isinstance(attribute, ir.IntegerAttr) or not -(2**31) <= attribute.value < 2**31:
        raise UnfitError(f"aot.priority: '{attribute}' is no integer of 32 bits")
    return int(attribute.value)


def _check_names(kernel: mlir.Operation) -> None:
    """A misspelt attribute must not pass for none."""
    for full in kernel.attributes:
        name = full.removeprefix("aot.")
        if name != full and full not in (FUNCTION, NEEDS, LESS_SHARED, BY_VALUE, *TILING) and name not in _ALL:
            near = difflib.get_close_matches(name, _ALL, 1)
            raise UnfitError(f"{full}: unknown attribute{f'; did you mean aot.{near[0]}?' if near else ''}")


def check_block(block: tuple[Program, ...] | None, name: str = "aot.block") -> None:
    """UnfitError for sizes that no GPU takes; ``name``: the attribute's."""
    sizes = _known(block, name, 1)
    known = [size for size in sizes if size is not None]
    if math.prod(known) > MAX_THREADS_PER_BLOCK or (len(sizes) == 3 and (sizes[2] or 0) > _MOST_IN_Z):
        text = " x ".join("?" if size is None else str(size) for size in sizes)
        raise UnfitError(f"{name}: {text} threads; a block has at most {MAX_THREADS_PER_BLOCK}, and {_MOST_IN_Z} in z")


def _check_grid(grid: tuple[Program, ...] | None) -> None:
    for axis, size, most in zip("xyz", _known(grid, "aot.grid", 1), _MOST_BLOCKS, strict=False):
        if (size or 0) > most:
            raise UnfitError(f"aot.grid: {size} blocks along {axis}; a grid has at most {most} there")


def _known(programs: tuple[Program, ...] | None, name: str, least: int) -> list[int | None]:
    """Numbers, each ``least`` or more; None is one that a program computes at the launch."""
    numbers = [each[1] if len(each) == 3 and each[0] == CONST else None for each in programs or ()]
    for number in numbers:
        if number is not None and number < least:
            raise UnfitError(f"{name}: {number} is not possible; it is at least {least}")
    return numbers


def check_shared(shared: Program | None, capabilities: Sequence[Capability]) -> None:
    """More than a block can have where the images run, or, without images, anywhere."""
    if shared is None or len(shared) != 3 or shared[0] != CONST:
        return
    mine = [each for each in TABLE if not capabilities or each.capability in capabilities]
    least = min(mine, key=lambda each: each.shared) if capabilities else max(mine, key=lambda each: each.shared)
    if shared[1] > least.shared:
        where = f"sm_{least.capability[0]}{least.capability[1]}" if capabilities else "any GPU"
        raise UnfitError(f"aot.shared: {shared[1]} bytes; a block has at most {least.shared} on {where}")


def constants(sizes: Sequence[int]) -> tuple[Program, ...]:
    """Programs for fixed sizes."""
    return tuple((CONST, size, END) for size in sizes)


def is_symbol(kind: ValueType) -> bool:
    """Whether programs number an argument or parameter among the integers."""
    return isinstance(kind, ScalarType) and re.fullmatch(r"index|[su]?i\d+", kind.dtype) is not None


def _programs(kernel: mlir.Operation, name: str, dims: int, syms: int) -> tuple[Program, ...] | None:
    if name not in kernel.attributes:
        return None
    attribute = kernel.attributes[name]
    entries = list(attribute) if isinstance(attribute, ir.ArrayAttr) else [attribute]
    if not 1 <= len(entries) <= 3:
        raise UnfitError(f"{name} has {len(entries)} entries; it takes one to three")
    return tuple(_program(entry, name, dims, syms) for entry in entries)


def _program(entry: ir.Attribute, name: str, dims: int, syms: int) -> Program:
    if isinstance(entry, ir.IntegerAttr):
        return (CONST, entry.value, END)
    if not isinstance(entry, ir.AffineMapAttr):
        raise UnfitError(f"{name}: '{entry}' is neither an integer nor an affine_map")
    chosen = entry.value
    if len(chosen.results) != 1:
        raise UnfitError(f"{name}: '{entry}' has {len(chosen.results)} results; it takes one")
    if chosen.n_dims > dims or chosen.n_symbols > syms:
        raise UnfitError(
            f"{name}: '{entry}' has {chosen.n_dims} dims and {chosen.n_symbols} symbols; the kernel's memrefs"
            f" have {dims} dimensions, and {syms} of its parameters are integers"
        )
    return (*_postfix(chosen.results[0]), END)


def _postfix(expr: ir.AffineExpr) -> Program:
    if isinstance(expr, ir.AffineConstantExpr):
        return (CONST, expr.value)
    if isinstance(expr, ir.AffineDimExpr):
        return (DIM, expr.position)
    if isinstance(expr, ir.AffineSymbolExpr):
        return (SYM, expr.position)
    for kind, word in _BINARY:
        if isinstance(expr, kind):
            return (*_postfix(expr.lhs), *_postfix(expr.rhs), word)
    raise UnfitError(f"'{expr}' cannot be evaluated at a launch")
