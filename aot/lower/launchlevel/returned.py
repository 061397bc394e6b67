"""Arrays that launch-level functions return.

In: functions at launch level and their signatures. Out: functions that return numbers only: a returned argument is
left out (the caller has it), returned device memory is copied into memory of the caller's kind (``@aot_rt_result``);
returned host memory is refused.

``return %m`` of a gpu.alloc becomes ``%r = call @aot_rt_result``, ``gpu.memcpy %r, %m``, ``return``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.errors import LoweringError
from aot.lower.hostmodule import rtcalls
from aot.lower.launchlevel.memory import DEVICE, SHARED, Spaces
from aot.lower.source import sourcelevel
from aot.model import ArrayType, Function


def settle(module: mlir.Module, functions: Sequence[Function], spaces: Spaces) -> None:
    """Hand over all returned arrays, and take them out of the functions' types."""
    by_name = {function.name: function for function in functions}
    for op in sourcelevel.public_functions(module):
        function = by_name[mlir.symbol_name(op)]
        arrays = [number for number, result in enumerate(function.results) if isinstance(result.type, ArrayType)]
        for each in [each for each in mlir.walk(op) if each.name == "func.return" and each.parent.operation == op]:
            _hand_over(each, function, arrays, spaces)
        _drop_results(op, arrays)


def _hand_over(op: mlir.Operation, function: Function, arrays: Sequence[int], spaces: Spaces) -> None:
    for number in arrays:
        value = op.operands[number]
        if function.results[number].argument is not None:
            continue
        if spaces.of(value) not in (DEVICE, SHARED):
            raise LoweringError(
                f"function '{function.name}' returns host memory",
                hint="return memory of gpu.alloc, or take an array argument and write into it",
                diagnostics=(mlir.diagnostic_at(op, f"result {number} is memory of the host, not of the device"),),
            )
        with ir.InsertionPoint(op), op.location:
            _copy_out(number, value)
    kept = [value for number, value in enumerate(op.operands) if number not in arrays]
    with ir.InsertionPoint(op), op.location:
        ir.Operation.create("func.return", operands=kept)
    op.erase()


def _copy_out(number: int, value: mlir.Value) -> None:
    kind = ir.MemRefType(value.type)
    plain = ir.MemRefType.get(kind.shape, kind.element_type)
    target = rtcalls.result(number, plain, rtcalls.dynamic_sizes(value))
    if plain == ir.MemRefType.get(kind.shape, kind.element_type, layout=kind.layout):
        ir.Operation.create("gpu.memcpy", operands=[target, value])
    else:
        # A strided copy is a kernel's work: ``access.settle`` moves it to the device.
        memref.CopyOp(value, target)


def _drop_results(op: mlir.Operation, arrays: Sequence[int]) -> None:
    kind = ir.TypeAttr(op.attributes["function_type"]).value
    kept = [number for number in range(len(kind.results)) if number not in arrays]
    op.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(kind.inputs, [kind.results[number] for number in kept])
    )
    if "res_attrs" in op.attributes:
        attributes = op.attributes["res_attrs"]
        op.attributes["res_attrs"] = ir.ArrayAttr.get([attributes[number] for number in kept])
