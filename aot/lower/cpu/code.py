"""CPU code of tensor-level functions becomes LLVM IR.

In: loops on buffers, with outlined bodies (``parallel``). Out: LLVM IR as text with one hidden entry per function;
everything else is internal.

A call of a body with ``(count, grain, captured...)`` becomes ``aot_rt_parallel(thunk, &context, count, grain)``: the
captured values lie in a struct on the caller's stack, and ``thunk(begin, end, context)`` calls the body with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.lower.analysis import symbols
from aot.lower.gpumodule import flatvectors
from aot.lower.hostmodule import hostcode, launchcall, llvmops
from aot.lower.source import sourcelevel
from aot.model import Function

PARALLEL = "aot_rt_parallel"
_TO_LLVM = (
    "convert-vector-to-scf",
    "lower-affine",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    # No libgcc before 13 converts to bf16, and calls would keep loops from being vectorised.
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
    "arith-expand{include-bf16=true}",
    "finalize-memref-to-llvm{use-generic-functions}",
    *hostcode.TO_LLVM,
)


@dataclass(frozen=True)
class Code:
    """What the code is called."""

    source: str
    variant: str
    bodies: tuple[str, ...]
    """Functions that threads share."""


def lower(module: ir.Module, functions: Sequence[Function], code: Code, dump: mlir.Dumper) -> str:
    """LLVM IR; the module is used up."""
    hostcode.drop_interfaces(module)
    _prefix(module, code)
    names = mlir.op_names(module)
    first = [text for name, text in hostcode.FIRST.items() if any(each.startswith(name) for each in names)]
    flatvectors.lower_host(module)
    mlir.run_passes(module, [*first, *_TO_LLVM], "lowering code for the CPU")
    for body in code.bodies:
        _share(module, _prefixed(body, code))
    launchcall.hoist_stack_memory(module, frozenset())
    text = hostcode.finish(module, functions, code.source)
    dump(f"cpu-{code.variant}-llvm", module)
    return text


def _prefixed(name: str, code: Code) -> str:
    return f"aot_{code.source}__{name}"


def _prefix(module: ir.Module, code: Code) -> None:
    """What the source calls ``@tanh`` must never bind to the library's."""
    names: dict[symbols.Path, symbols.Path] = {}
    for op in sourcelevel.top(module):
        if op.name == "memref.global" or (op.name == "func.func" and sourcelevel.has_body(op)):
            old = mlir.symbol_name(op)
            symbols.rename(op, _prefixed(old, code))
            names[(old,)] = (_prefixed(old, code),)
    symbols.rename_references(module.operation, names)


def _share(module: ir.Module, body: str) -> None:
    """Hand the body to the runtime's threads."""
    calls = [op for op in mlir.walk(module) if op.name == "llvm.call" and _callee(op) == body]
    for call in calls:
        captured = list(call.operands)[2:]
        struct = ir.Type.parse(f"!llvm.struct<({', '.join(str(value.type) for value in captured)})>")
        _declare(module)
        thunk = _thunk(module, body, [value.type for value in captured], struct)
        function = next(each for each in mlir.parents(call) if each.name == "llvm.func")
        with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), call.location:
            context = llvmops.alloca(struct)
        with ir.InsertionPoint(call), call.location:
            for number, value in enumerate(captured):
                llvmops.store(value, _field(context, number, struct))
            llvmops.call(PARALLEL, [llvmops.address_of(thunk), context, *list(call.operands)[:2]])
        call.erase()


def _callee(op: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value) if "callee" in op.attributes else ""


def _declare(module: ir.Module) -> None:
    llvmops.declare(module, PARALLEL, llvmops.function_type("void", ["ptr", "ptr", "i64", "i64"]))


def _thunk(module: ir.Module, body: str, types: Sequence[ir.Type], struct: ir.Type) -> str:
    name = f"{body}_thunk"
    kind = llvmops.function_type("void", ["i64", "i64", "ptr"])
    with ir.InsertionPoint(module.operation.regions[0].blocks[0]), ir.Location.unknown():
        thunk = llvm.LLVMFuncOp(name, kind)
        word = llvmops.integer(64)
        block = thunk.operation.regions[0].blocks.append(word, word, llvmops.pointer())
    with ir.InsertionPoint(block), ir.Location.unknown():
        begin, end, context = block.arguments
        captured = [llvmops.load(type_, _field(context, number, struct)) for number, type_ in enumerate(types)]
        llvmops.call(body, [begin, end, *captured])
        llvm.ReturnOp()
    return name


def _field(base: ir.Value, number: int, struct: ir.Type) -> ir.Value:
    where = ir.DenseI32ArrayAttr.get([0, number])
    flags = ir.IntegerAttr.get(llvmops.integer(32), 0)
    return llvm.GEPOp(llvmops.pointer(), base, [], where, ir.TypeAttr.get(struct), flags).result
