"""Globals that a launch passes to a kernel: the kernel gets a device copy for the time of the launch.

In: launch-level functions with ``gpu.launch_func`` (kernels of a user's gpu.module cannot name the host's globals).
Out: the same functions, where such operands are copies, freed in stream order behind the launch.

``gpu.launch_func @k args(%global)``  becomes  ``%d = gpu.alloc``, ``gpu.memcpy %d, %global``,
``gpu.launch_func @k args(%d)``, ``gpu.dealloc %d``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.analysis import views
from aot.lower.hostmodule import rtcalls
from aot.lower.launchlevel import asyncform
from aot.lower.launchlevel.memory import HOST, SHARED, Spaces


@dataclass(frozen=True)
class _Copy:
    """A device copy of a global."""

    buffer: mlir.Value
    """As allocated."""
    argument: mlir.Value
    """In the type that the kernel wants."""
    ready: mlir.Value
    """Token of the copying."""


def stage(module: mlir.Module, spaces: Spaces) -> None:
    """Rewrite all launches that need it."""
    for op in mlir.walk(module):
        if op.name == "gpu.launch_func" and not mlir.inside_kernel(op):
            numbers = [number for number, value in enumerate(op.operands) if _is_host_global(value, spaces)]
            if numbers:
                _stage(op, numbers)


@contextmanager
def kept_in_place(module: mlir.Module, spaces: Spaces) -> Iterator[None]:
    """Hide globals that gpu.host_register has seen from ``constants.sink``: kernels reach the host's own."""
    marks = []
    for op in mlir.walk(module):
        if op.name == "memref.get_global" and not mlir.inside_kernel(op) and spaces.of(op.results[0]) == SHARED:
            value = op.results[0]
            with ir.InsertionPoint.after(op), op.location:
                mark = ir.Operation.create("builtin.unrealized_conversion_cast", results=[value.type], operands=[value])
            value.replace_all_uses_except(mark.results[0], mark)
            marks.append(mark)
    yield
    for mark in marks:
        mark.results[0].replace_all_uses_with(mark.operands[0])
        mark.erase()


def _is_host_global(value: mlir.Value, spaces: Spaces) -> bool:
    """A global that no gpu.host_register has made reachable."""
    return views.is_memref(value) and views.global_of(value) is not None and spaces.of(value) == HOST


def _stage(op: mlir.Operation, numbers: list[int]) -> None:
    with ir.InsertionPoint(op), op.location:
        copies = [_copy(op.operands[number]) for number in numbers]
    for number, copy in zip(numbers, copies, strict=True):
        op.operands[number] = copy.argument
    tokens = [value for value in op.results if asyncform.is_token(value)]
    if tokens:
        # The launch runs on a chain of its own, which has to wait for the copies.
        op = asyncform.await_too(op, [copy.ready for copy in copies])
        tokens = [value for value in op.results if asyncform.is_token(value)]
    else:
        with ir.InsertionPoint(op), op.location:
            ir.Operation.create("gpu.wait", operands=[copy.ready for copy in copies])
    with ir.InsertionPoint.after(op), op.location:
        for copy in copies:
            results = [ir.Type.parse(asyncform.TOKEN)] if tokens else []
            ir.Operation.create("gpu.dealloc", results=results, operands=[*tokens, copy.buffer])


def _copy(value: mlir.Value) -> _Copy:
    wanted = ir.MemRefType(value.type)
    plain = ir.MemRefType.get(wanted.shape, wanted.element_type)
    sizes = rtcalls.dynamic_sizes(value)
    token = ir.Type.parse(asyncform.TOKEN)
    start = ir.Operation.create("gpu.wait", results=[token]).results[0]
    segments = ir.DenseI32ArrayAttr.get([1, len(sizes), 0])
    buffer, allocated = ir.Operation.create(
        "gpu.alloc", results=[plain, token], operands=[start, *sizes], attributes={"operandSegmentSizes": segments}
    ).results
    ready = ir.Operation.create("gpu.memcpy", results=[token], operands=[allocated, buffer, value]).results[0]
    argument = buffer if plain == wanted else memref.CastOp(wanted, buffer).result
    return _Copy(buffer, argument, ready)
