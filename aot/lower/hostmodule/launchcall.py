"""Launches in host code become calls of the runtime.

In: a module in the LLVM dialect, but for ``gpu.launch_func`` ops with lowered operands. Out: each is a call
``aot_rt_launch(&aot_source_<source>, kernel number, grid, block, cluster, shared bytes, stream, parameters, wait)``.

Parameters lie in stack memory of the function's entry block: a launch in a loop must not let the stack grow.
TMA descriptors lie where the runtime put them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import symbols
from aot.lower.hostmodule import llvmops
from aot.lower.launches import byvalue

LAUNCH = "aot_rt_launch"
_I64, _I32, _PTR = "i64", "i32", "ptr"
SIGNATURE = (_PTR, _I32, *(_I64,) * 9, _I32, _PTR, _PTR, _I32)
"""Parameters of aot_rt_launch, see aot.h."""


@dataclass(frozen=True)
class LaunchRule:
    """What launches of a source need to know."""

    source: str
    """Symbol of the source's constant table."""
    numbers: Mapping[str, int]
    """Symbol of a kernel -> its number in that table."""
    asynchronous: frozenset[str]
    """Functions whose synchronous launches need not wait."""


def lower(module: mlir.Module, rule: LaunchRule) -> None:
    """Replace all launches."""
    launches = [op for op in mlir.walk(module) if op.name == "gpu.launch_func"]
    if launches:
        llvmops.declare(module, LAUNCH, llvmops.function_type("void", SIGNATURE))
        _declare_source(module, rule.source)
    for op in launches:
        _lower(op, rule)


def _declare_source(module: mlir.Module, symbol: str) -> None:
    text = f"llvm.mlir.global external hidden constant @{symbol}() {{addr_space = 0 : i32}} : i8"
    parsed = ir.Module.parse(text)
    module.operation.regions[0].blocks[0].append(parsed.body.operations[0].operation)


@dataclass(frozen=True)
class _Operands:
    """Operands of a launch by meaning."""

    sizes: tuple[mlir.Value, ...]
    """Grid, block, cluster (nine values; fewer when there is no cluster)."""
    shared: mlir.Value | None
    arguments: tuple[mlir.Value, ...]
    stream: mlir.Value | None

    @staticmethod
    def of(op: mlir.Operation) -> _Operands:
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = list(op.operands)
        groups: list[list[mlir.Value]] = []
        for size in segments:
            groups.append(operands[:size])
            operands = operands[size:]
        # [tokens, gx, gy, gz, bx, by, bz, cx, cy, cz, shared, arguments, stream]
        sizes = tuple(value for group in groups[1:10] for value in group)
        shared, stream = groups[10], groups[12]
        return _Operands(sizes, shared[0] if shared else None, tuple(groups[11]), stream[0] if stream else None)


def _lower(op: mlir.Operation, rule: LaunchRule) -> None:
    operands = _Operands.of(op)
    function = next(each for each in mlir.parents(op) if each.name == "llvm.func")
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), op.location:
        slots = [value if byvalue.is_map(value) else llvmops.alloca(value.type) for value in operands.arguments]
        table = llvmops.alloca(llvmops.pointer(), max(1, len(slots)))
    waits = operands.stream is None and mlir.symbol_name(function) not in rule.asynchronous
    with ir.InsertionPoint(op), op.location:
        for number, (slot, value) in enumerate(zip(slots, operands.arguments, strict=True)):
            if slot != value:
                llvmops.store(value, slot)
            llvmops.store(slot, llvmops.element(table, number, llvmops.pointer()))
        sizes = [_as_i64(value) for value in operands.sizes]
        sizes += [llvmops.constant(0) for _ in range(9 - len(sizes))]
        arguments = [
            llvmops.address_of(rule.source),
            llvmops.constant(rule.numbers[symbols.path(op.attributes["kernel"])[-1]], 32),
            *sizes,
            operands.shared or llvmops.constant(0, 32),
            operands.stream or llvmops.null(),
            table,
            llvmops.constant(int(waits), 32),
        ]
        llvmops.call(LAUNCH, arguments)
    op.erase()


def _as_i64(value: mlir.Value) -> mlir.Value:
    """Sizes are index by nature, but i32 ones are allowed too."""
    if value.type == llvmops.integer(64):
        return value
    return ir.Operation.create("llvm.sext", results=[llvmops.integer(64)], operands=[value]).results[0]


def hoist_stack_memory(module: mlir.Module, own: frozenset[str]) -> None:
    """Move stack memory that conversions make anywhere to the entry block: in a loop, the stack would grow.

    ``own``: functions with stack memory of the user's; there, only memref descriptors move.
    """
    for function in mlir.walk(module):
        if function.name == "llvm.func" and len(function.regions[0].blocks):
            entry = function.regions[0].blocks[0]
            descriptors_only = mlir.symbol_name(function) in own
            for op in mlir.walk(function):
                if op.name == "llvm.alloca" and op.block != entry and _can_move(op, descriptors_only=descriptors_only):
                    _hoist(op, entry)


def _can_move(op: mlir.Operation, *, descriptors_only: bool) -> bool:
    size = mlir.owner(op.operands[0])
    if isinstance(size, ir.Block) or size.name != "llvm.mlir.constant":
        return False
    kind = str(ir.TypeAttr(op.attributes["elem_type"]).value)
    return not descriptors_only or kind.startswith("!llvm.struct")


def _hoist(op: mlir.Operation, entry: ir.Block) -> None:
    first = entry.operations[0].operation
    with ir.InsertionPoint(first), op.location:
        size = mlir.owner(op.operands[0]).clone()
    op.operands[0] = size.operation.results[0]
    op.move_after(size.operation)
