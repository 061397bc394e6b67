"""What host code of a function does besides launching on the caller's stream: the words of ``Function.flags``.

In: a function, its module. Out: flags. Decided before tokens are normalised, on the operations that the user wrote.

- HOST_SYNC: host memory is registered, shared, copied, or handed to a function outside: waits are real.
- MESSAGES: a kernel that the function launches prints or asserts.
- FORK: two or more chains of tokens, with asynchronous launches: each chain gets a stream of its own; unless tokens
  pass through loops or branches.
- SERIAL: async.execute: one stream, work inline (events of 22.1.8's lowering are not recorded).
- READS_DEVICE: a call of the runtime's aot_rt_load functions.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import gpu

from aot import mlir
from aot.lower.analysis import opwalk, symbols, views
from aot.lower.hostmodule.rtcalls import LOADS
from aot.lower.launchlevel import asyncform
from aot.lower.launchlevel.memory import HOST, MIXED, Spaces
from aot.lower.source import sourcelevel
from aot.model import FORK, HOST_SYNC, MESSAGES, READS_DEVICE, SERIAL

SPEAKING = frozenset({"gpu.printf", "cf.assert"})
"""Device operations after which the host has something to say."""
_CALLS = ("llvm.call", "func.call")
SPEAKING_CALLEES = frozenset({"vprintf", "__assertfail"})


def flags(function: mlir.Operation, module: mlir.Module, spaces: Spaces) -> tuple[str, ...]:
    """Flags of a launch-level function; sorted."""
    code = sourcelevel.reachable(function, module)
    ops = [op for each in code for op in mlir.walk(each)]
    host = [op for op in ops if not mlir.inside_kernel(op)]
    outside = {mlir.symbol_name(op) for op in code if not sourcelevel.has_body(op)}
    found = {
        HOST_SYNC: any(_touches_host_memory(op, outside, spaces) for op in host),
        MESSAGES: messages(function, module),
        FORK: _forks(host) and not any(asyncform.carries_tokens(each) for each in code),
        SERIAL: any(op.name == "async.execute" for op in host),
    }
    return tuple(sorted(flag for flag, holds in found.items() if holds))


LAUNCHES = ("gpu.launch", "gpu.launch_func")


def messages(function: mlir.Operation, module: mlir.Module) -> bool:
    """Whether a kernel launched by the function prints or asserts; also for tensor-level functions."""
    code = sourcelevel.reachable(function, module)
    ops = [op for each in code for op in opwalk.named(each, *SPEAKING, *_CALLS)]
    if any(_speaks(op) for op in ops if mlir.inside_kernel(op)):
        return True
    launched = {path for each in code for path in _launched(each)}
    return bool(launched) and bool(launched & _speaking_kernels(module))


def with_reads(known: tuple[str, ...], function: mlir.Operation, module: mlir.Module) -> tuple[str, ...]:
    """Flags with READS_DEVICE added where host code has come to read device memory."""
    return tuple(sorted({*known, READS_DEVICE})) if reads_device(function, module) else known


def reads_device(function: mlir.Operation, module: mlir.Module) -> bool:
    """Whether host code waits for a value from device memory."""
    return any(sourcelevel.callees(each) & set(LOADS) for each in sourcelevel.reachable(function, module))


def _touches_host_memory(op: mlir.Operation, outside: set[str], spaces: Spaces) -> bool:
    if op.name == "gpu.host_register" or (op.name == "gpu.alloc" and "hostShared" in op.attributes):
        return True
    if op.name == "gpu.memcpy":
        return any(spaces.of(value) in (HOST, MIXED) for value in op.operands if views.is_memref(value))
    if op.name == "func.call" and ir.FlatSymbolRefAttr(op.attributes["callee"]).value in outside:
        return any(views.is_memref(value) for value in op.operands)
    return False


def _gives_token(op: mlir.Operation) -> bool:
    return any(asyncform.is_token(value) for value in op.results)


def _forks(host: list[mlir.Operation]) -> bool:
    """Whether chains of tokens start in two places or more, and launches are among them."""
    starts = [op for op in host if _gives_token(op) and not any(asyncform.is_token(v) for v in op.operands)]
    return len(starts) > 1 and any(op.name in LAUNCHES and _gives_token(op) for op in host)


def _speaks(op: mlir.Operation) -> bool:
    if op.name in SPEAKING:
        return True
    if op.name not in _CALLS or "callee" not in op.attributes:
        return False
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value in SPEAKING_CALLEES


def _launched(op: mlir.Operation) -> set[symbols.Path]:
    """(module, kernel) of all gpu.launch_func in ``op``."""
    return {symbols.path(each.attributes["kernel"]) for each in opwalk.named(op, "gpu.launch_func")}


def _speaks_binary(binary: mlir.Operation) -> bool:
    """Whether ready code names what prints or asserts; compressed code does not show it."""
    data = [gpu.ObjectAttr(each).object for each in ir.ArrayAttr(binary.attributes["objects"])]
    return any(name.encode() in each for each in data for name in SPEAKING_CALLEES)


def _speaking_kernels(module: mlir.Module) -> set[symbols.Path]:
    """(module, kernel) of all kernels in gpu.modules where something speaks.

    A module counts as a whole: which device functions a kernel calls is not worth following.
    """
    found = set()
    for container in opwalk.named(module, "gpu.binary", "gpu.module"):
        if container.name == "gpu.binary" and _speaks_binary(container):
            found |= {path for path in _launched(module) if path[0] == mlir.symbol_name(container)}
        if container.name != "gpu.module":
            continue
        if any(map(_speaks, opwalk.named(container, *SPEAKING, *_CALLS))):
            names = [mlir.symbol_name(op) for op in mlir.walk(container) if sourcelevel.is_kernel(op)]
            found |= {(mlir.symbol_name(container), name) for name in names}
    return found
