"""Runs lowered launch-level functions on the CPU, as ``cpurun`` does for the tensor level.

In: the product of ``aot.lower.launch.lower``. Out: functions on numpy arrays. Device memory is memory that host code
cannot access; gpu.alloc, memcpy, memset and launches work on it, in program order: tokens mean nothing.

>>> build("func.func @f(%x: memref<4xf32>) { ... gpu.launch ... }").call("f", array)   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir import ir
from mlir.dialects import func, linalg, memref

from aot import mlir
from aot.lower import launch, tensor
from aot.lower.hostmodule import rtcalls
from aot.lower.source import prepare, sourcelevel
from tests import cpurun


def build(source: str, *, backwards: bool = False) -> cpurun.Program:
    """Lower and compile the text of a launch-level source whose launches are all gpu.launch."""
    with mlir.context() as ctx:
        module = prepare.run(mlir.parse(source.encode(), "test.mlir", ctx))
        lowered = launch.lower(module, {}, mlir.no_dump)
        text = str(module)
        cpurun._declare(module, "cpurun_enter", "cpurun_leave")
        ops = [op for op in mlir.walk(module) if not mlir.inside_kernel(op)]
        # Users of tokens come last: nothing is left that refers to a token when its maker goes.
        for op in reversed(ops):
            if op.name in _REWRITES:
                with ir.InsertionPoint(op), op.location:
                    _REWRITES[op.name](op)
                op.erase()
            elif op.name == "gpu.launch":
                cpurun._to_loops(_without_tokens(op), backwards=backwards)
        for op in sourcelevel.public_functions(module):
            op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
            op.attributes["sym_name"] = ir.StringAttr.get(f"cpurun_f_{mlir.symbol_name(op)}")
        mlir.run_passes(module, ["convert-linalg-to-loops"], "compiling for the CPU")
        llvm_ir = cpurun.to_llvm(module)
    kept = tensor.TensorLowered(None, lowered.functions, lowered.messages)
    return cpurun.Program(kept, cpurun._compile(llvm_ir, lowered.functions), text)


def _without_tokens(op: Any) -> Any:
    """A launch that nobody waits for."""
    for result in op.results:
        assert not list(result.uses), "tokens carried by loops are not supported here"
    return op


def _on_device(work: Callable[[], object]) -> None:
    func.CallOp([], "cpurun_enter", [])
    work()
    func.CallOp([], "cpurun_leave", [])


def _arrays(op: Any) -> list[Any]:
    return [value for value in op.operands if str(value.type) != "!gpu.async.token"]


def _alloc(op: Any) -> None:
    kind = ir.MemRefType(op.results[0].type)
    sizes = _arrays(op)
    if "hostShared" in op.attributes:
        new = memref.AllocOp(kind, sizes, []).result
    else:
        new = rtcalls.device_buffer(kind, sizes)
    op.results[0].replace_all_uses_with(new)


def _dealloc(op: Any) -> None:
    rtcalls.free(_arrays(op)[0])


def _copy(op: Any) -> None:
    target, source = _arrays(op)
    _on_device(lambda: memref.CopyOp(source, target))


def _set(op: Any) -> None:
    target, value = _arrays(op)
    _on_device(lambda: linalg.fill(value, outs=[target]))


def _nothing(op: Any) -> None:
    """Waiting and registering are not needed when all runs in order, and in one memory."""


_REWRITES: dict[str, Callable[[Any], None]] = {
    "gpu.alloc": _alloc,
    "gpu.dealloc": _dealloc,
    "gpu.memcpy": _copy,
    "gpu.memset": _set,
    "gpu.wait": _nothing,
    "gpu.host_register": _nothing,
    "gpu.host_unregister": _nothing,
}
