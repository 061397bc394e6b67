"""Atomic updates that processors have no instruction for: loops that compare and exchange.

In: a module on buffers, kernels or not, before its control flow becomes branches. Out: the same without
``memref.generic_atomic_rmw`` and without products as ``memref.atomic_rmw``. Upstream has the former for integers and
GPUs alone, the latter nowhere.

``%r = memref.atomic_rmw mulf %v, %x[%i] : (f32, memref<?xf32>) -> f32`` becomes an ``scf.while`` that begins with the
bits of ``%x[%i]``, multiplies, and ends when ``llvm.cmpxchg`` has found the bits that it began with; else it goes on
with those that were found. Bits are compared, not numbers: a NaN is equal to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, llvm, memref, scf

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import opwalk
from aot.lower.hostmodule import llvmops, rtcalls

_GENERIC, _UPDATE = "memref.generic_atomic_rmw", "memref.atomic_rmw"
_PRODUCTS = {arith.AtomicRMWKind.mulf: arith.MulFOp, arith.AtomicRMWKind.muli: arith.MulIOp}
_WIDTHS = (8, 16, 32, 64)
"""Bits that are exchanged at once."""
_SPACES = {
    **{"None": 0, "0 : i64": 0, "1 : i64": 1, "3 : i64": 3},
    **{"#gpu.address_space<global>": 1, "#gpu.address_space<workgroup>": 3, "#gpu.address_space<private>": 0},
}
"""Memory space -> address space of LLVM's."""
Change = Callable[[ir.Value], ir.Value]


def lower(module: mlir.Module) -> None:
    """Rewrite all of them."""
    for op in opwalk.named(module, _GENERIC):
        memory, *indices = op.operands
        _exchange(op, memory, indices, _moved(op))
    for op in opwalk.named(module, _UPDATE):
        if _kind(op) in _PRODUCTS:
            _, memory, *indices = op.operands
            _exchange(op, memory, indices, _multiplied(op))


def _kind(op: ir.Operation) -> arith.AtomicRMWKind:
    return arith.AtomicRMWKind(ir.IntegerAttr(op.attributes["kind"]).value)


def _multiplied(op: ir.Operation) -> Change:
    """By the operation's value."""
    return lambda old: _PRODUCTS[_kind(op)](old, op.operands[0]).result


def _moved(op: ir.Operation) -> Change:
    """As the body of the operation says, which is taken out of it."""

    def change(old: ir.Value) -> ir.Value:
        body = op.regions[0].blocks[0]
        body.arguments[0].replace_all_uses_with(old)
        *steps, end = [each.operation for each in body.operations]
        place = ir.InsertionPoint.current.block
        for step in steps:
            place.append(step)
        return end.operands[0]

    return change


def _exchange(op: ir.Operation, memory: ir.Value, indices: Sequence[ir.Value], change: Change) -> None:
    kind = op.results[0].type
    if kind.width not in _WIDTHS:
        raise _refused(op, f"{kind} cannot be exchanged at once: only {', '.join(map(str, _WIDTHS))} bits can")
    with ir.InsertionPoint(op), op.location:
        old = _loop(_pointer(op, memory, indices), memref.LoadOp(memory, indices).result, change)
        op.results[0].replace_all_uses_with(old)
    op.erase()


def _pointer(op: ir.Operation, memory: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    space = ir.MemRefType(memory.type).memory_space
    if str(space) not in _SPACES:
        raise _refused(op, f"memory of the space {space} is none that is updated")
    address = arith.IndexCastOp(llvmops.integer(64), rtcalls.address(memory, indices)).result
    return llvm.IntToPtrOp(ir.Type.parse(f"!llvm.ptr<{_SPACES[str(space)]}>"), address).res


def _loop(place: ir.Value, first: ir.Value, change: Change) -> ir.Value:
    """Changes the number at a place, where ``first`` was read; the one that was changed."""
    kind = first.type
    word, order = llvmops.integer(kind.width), llvm.AtomicOrdering
    loop = scf.WhileOp([word], [_cast(first, word)])
    with ir.InsertionPoint(loop.before.blocks.append(word)):
        (seen,) = loop.before.blocks[0].arguments
        new = _cast(change(_cast(seen, kind)), word)
        found = llvm.AtomicCmpXchgOp(place, seen, new, order.acq_rel, order.monotonic).res
        done = llvmops.extract(found, 1, llvmops.integer(1))
        again = arith.XOrIOp(done, arith.ConstantOp(done.type, 1).result).result
        scf.ConditionOp(again, [llvmops.extract(found, 0, word)])
    with ir.InsertionPoint(loop.after.blocks.append(word)):
        scf.YieldOp(list(loop.after.blocks[0].arguments))
    return _cast(loop.results[0], kind)


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """The same bits as another type."""
    return value if value.type == kind else arith.BitcastOp(kind, value).result


def _refused(op: ir.Operation, message: str) -> LoweringError:
    return LoweringError(
        "an operation cannot be compiled", diagnostics=(mlir.diagnostic_at(op, f"'{op.name}': {message}"),)
    )
