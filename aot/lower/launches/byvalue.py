"""TMA descriptors as kernel parameters: 128 bytes by value, in the kernel's constant memory.

Host code of a schedule makes a descriptor (``tensormaps``) and uses it in a ``gpu.launch`` as the pointer that it is
there. In the kernel the pointer is that of the parameter itself: the launch passes what it points at.

In: launches after outlining; later a gpu.module before and after its conversion to LLVM. Out: the kernel's parameters
of this kind, as an attribute, and later as ``llvm.byval``; for host code, whether a launch's operand is one.

``gpu.launch_func @k args(%map : !llvm.ptr, %x : memref<?xf32>)`` gives ``@k`` the attribute ``aot.by_value = [0]``.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.hostmodule import rtcalls

ATTRIBUTE = "aot.by_value"
"""Attribute of a kernel: numbers of its parameters that are descriptors."""
_PASSED = (
    "{llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, llvm.align = 64 : i64}"  # as CUDA passes a CUtensorMap
)

Parameters = dict[str, frozenset[int]]
"""Kernel -> numbers of its LLVM function's parameters that are descriptors."""


def is_map(value: mlir.Value) -> bool:
    """Whether a value of host code is a descriptor, before or after its lowering to LLVM."""
    op = mlir.owner(value)
    if isinstance(op, ir.Block) or op.name not in ("func.call", "llvm.call"):
        return False
    return bool(ir.FlatSymbolRefAttr(op.attributes["callee"]).value == rtcalls.TENSOR_MAP)


def mark(launch: mlir.Operation, kernel: mlir.Operation) -> None:
    """Note on an outlined kernel which of its parameters are descriptors."""
    segments = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    first = sum(segments[:-2])
    arguments = list(launch.operands)[first : first + segments[-2]]
    numbers = [number for number, value in enumerate(arguments) if is_map(value)]
    if numbers:
        kernel.attributes[ATTRIBUTE] = ir.DenseI32ArrayAttr.get(numbers)


def numbers(kernel: mlir.Operation) -> list[int]:
    """The parameters of a kernel that are descriptors."""
    return list(ir.DenseI32ArrayAttr(kernel.attributes[ATTRIBUTE])) if ATTRIBUTE in kernel.attributes else []


def find(module: mlir.Module) -> Parameters:
    """Descriptors among the parameters that the kernels of a module will have as LLVM functions."""
    found: Parameters = {}
    for op in opwalk.named(module, "gpu.func"):
        if ATTRIBUTE in op.attributes:
            types = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
            places = [sum(_width(each) for each in types[:number]) for number in numbers(op)]
            found[mlir.symbol_name(op)] = frozenset(places)
    return found


def _width(type_: ir.Type) -> int:
    """Parameters that one of this type becomes: a descriptor of a memref is passed field by field."""
    return 3 + 2 * ir.MemRefType(type_).rank if isinstance(type_, ir.MemRefType) else 1


def apply(module: mlir.Module, parameters: Parameters) -> None:
    """Have the LLVM functions of kernels take descriptors by value."""
    for op in opwalk.named(module, "llvm.func"):
        places = parameters.get(mlir.symbol_name(op))
        if places:
            count = len(op.regions[0].blocks[0].arguments)
            passed, plain = ir.Attribute.parse(_PASSED), ir.DictAttr.get({})
            op.attributes["arg_attrs"] = ir.ArrayAttr.get([passed if n in places else plain for n in range(count)])
