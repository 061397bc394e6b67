"""One byte per element in memory for i1 to i7 and for floats of 8 and 4 bits; their codes in registers.

In: a module in which only moves and bit casts of small floats are left. Out: the same module on integers.

``%v = memref.load %m[] : memref<i1>``  becomes  ``%b = memref.load %m[] : memref<i8>``, ``%v = arith.trunci %b``.
Stored i2 to i7 keep their sign: Python holds them as int8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis.elements import element_type, with_element
from aot.lower.numbers import codes
from aot.lower.numbers.codes import code_type, small_float

_LOADS = frozenset(
    {
        "affine.load",
        "affine.vector_load",
        "memref.load",
        "vector.expandload",
        "vector.gather",
        "vector.load",
        "vector.maskedload",
        "vector.transfer_read",
    }
)
"""Operations whose first result comes from memory."""
_STAND_IN_LAST = frozenset({"vector.expandload", "vector.gather", "vector.maskedload"})
"""Loads whose last operand stands in for elements that are not read."""
_VALUE_FIRST = frozenset(
    {"affine.store", "affine.vector_store", "memref.store", "vector.store", "vector.transfer_write"}
)
_VALUE_LAST = frozenset({"gpu.memset", "vector.compressstore", "vector.maskedstore", "vector.scatter"})
_BYTE = 8
_REFUSED = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})
"""Operations that work on elements in memory, which are wider than the value there."""


@dataclass(frozen=True)
class _Access:
    """A load or store of elements narrower than a byte."""

    op: mlir.Operation
    operands: tuple[int, ...]
    """Numbers of the operands that hold elements."""
    loads: bool
    signed: bool
    """Whether the caller's bytes are signed numbers, as those of i2 to i7 are: int8 is what holds them in Python."""


def find(module: mlir.Module) -> frozenset[ir.Type]:
    """The types of values, globals and signatures that hold small floats, or memory of i1 to i7."""
    types: set[ir.Type] = set()
    for op in mlir.walk(module):
        types.update(_types(op))
    return frozenset(each for each in types if _float_in(each) or _is_small_memory(each))


def has_floats(types: Iterable[ir.Type]) -> bool:
    """Whether small floats are among what was found."""
    return any(_float_in(each) for each in types)


def use_bytes(module: mlir.Module) -> None:
    """Change types everywhere."""
    operations = mlir.walk(module)
    accesses = [access for access in map(_access, operations) if access is not None]
    _convert_constants(operations)
    for op in operations:
        _convert_signature(op)
        for value in _defined(op):
            wanted = _converted(value.type, op)
            if wanted != value.type:
                value.set_type(wanted)
    for access in accesses:
        _widen(access)


def _types(op: mlir.Operation) -> Iterator[ir.Type]:
    for value in _defined(op):
        yield value.type
    for name in ("function_type", "type"):
        if name in op.attributes and isinstance(op.attributes[name], ir.TypeAttr):
            type_ = op.attributes[name].value
            yield from (*type_.inputs, *type_.results) if isinstance(type_, ir.FunctionType) else (type_,)


def _defined(op: mlir.Operation) -> Iterator[mlir.Value]:
    """Results of the operation, and arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def _is_memory(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType)


def _float_in(type_: ir.Type) -> str:
    """Name of the small float that the type is made of, or ""."""
    return small_float(type_.element_type if _is_memory(type_) else type_)


def _is_small_memory(type_: ir.Type) -> bool:
    if not _is_memory(type_):
        return False
    element = element_type(type_.element_type)
    return bool(small_float(element)) or (isinstance(element, ir.IntegerType) and element.width < 8)


def _converted(type_: ir.Type, op: mlir.Operation) -> ir.Type:
    if small_float(type_):
        return code_type(type_)
    if not _is_small_memory(type_):
        return type_
    byte = ir.IntegerType.get_signless(8)
    if isinstance(type_.element_type, ir.VectorType):
        if code_type(type_.element_type).element_type != byte:
            message = f"memory of '{type_.element_type}' has no layout on the device: store single elements"
            raise LoweringError("an array cannot be compiled", diagnostics=(mlir.diagnostic_at(op, message),))
        byte = with_element(type_.element_type, byte)
    if isinstance(type_, ir.UnrankedMemRefType):
        return ir.UnrankedMemRefType.get(byte, type_.memory_space)
    return ir.MemRefType.get(type_.shape, byte, layout=type_.layout, memory_space=type_.memory_space)


def _convert_signature(op: mlir.Operation) -> None:
    """Types that stand in attributes: of functions, and of globals."""
    for name in ("function_type", "type"):
        if name not in op.attributes or not isinstance(op.attributes[name], ir.TypeAttr):
            continue
        type_ = op.attributes[name].value
        if isinstance(type_, ir.FunctionType):
            inputs = [_converted(each, op) for each in type_.inputs]
            wanted = ir.FunctionType.get(inputs, [_converted(each, op) for each in type_.results])
        else:
            wanted = _converted(type_, op)
        if wanted != type_:
            op.attributes[name] = ir.TypeAttr.get(wanted)


def _convert_constants(operations: list[mlir.Operation]) -> None:
    """Values of constants and of globals, as codes."""
    places = []
    for op in operations:
        name = {"arith.constant": "value", "memref.global": "initial_value"}.get(op.name)
        if name is None or name not in op.attributes or isinstance(op.attributes[name], ir.UnitAttr):
            continue
        in_memory = op.name == "memref.global"
        type_ = op.attributes["type"].value if in_memory else op.results[0].type
        if _is_small_memory(type_) if in_memory else small_float(type_):
            places.append(codes.Constant(op, name, in_memory))
    codes.convert(places)


def _access(op: mlir.Operation) -> _Access | None:
    memory = next((value for value in op.operands if _is_memory(value.type)), None)
    if memory is None or not _is_small_memory(memory.type) or _bits(memory.type.element_type) == _BYTE:
        return None
    signed = codes.is_signed(memory.type.element_type)
    if op.name in _REFUSED:
        message = f"'{op.name}' on elements of type '{memory.type.element_type}' has no code on the device"
        raise LoweringError("an operation cannot be compiled", diagnostics=(mlir.diagnostic_at(op, message),))
    if op.name in _LOADS:
        return _Access(op, _stand_ins(op), loads=True, signed=signed)
    if op.name in _VALUE_FIRST | _VALUE_LAST:
        values = (0,) if op.name in _VALUE_FIRST else (len(op.operands) - 1,)
        return _Access(op, values, loads=False, signed=signed)
    return None


def _bits(element: ir.Type) -> int:
    """Of an element of memory, or of each element of a vector that it is."""
    return int(element_type(element).width)


def _stand_ins(op: mlir.Operation) -> tuple[int, ...]:
    if op.name == "vector.transfer_read":
        # Base, indices, padding, mask.
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        return (segments[0] + segments[1],)
    return (len(op.operands) - 1,) if op.name in _STAND_IN_LAST else ()


def _widen(access: _Access) -> None:
    op = access.op
    byte = ir.IntegerType.get_signless(8)
    extend = arith.ExtSIOp if access.signed else arith.ExtUIOp
    with ir.InsertionPoint(op), op.location:
        for number in access.operands:
            value = op.operands[number]
            op.operands[number] = extend(with_element(value.type, byte), value).result
    if not access.loads:
        return
    loaded = op.results[0]
    wanted = loaded.type
    loaded.set_type(with_element(wanted, byte))
    with ir.InsertionPoint.after(op), op.location:
        value = arith.TruncIOp(wanted, loaded)
    loaded.replace_all_uses_except(value.result, value.operation)
