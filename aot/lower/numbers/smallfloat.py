"""Element types that the device compiler has no code for: i1 to i7 in memory, floats of 8 and 4 bits anywhere.

In: functions and kernels of any level, their loops lowered. Out: the same with one byte per element in memory,
codes as integers in registers, and conversions to and from f32 spelled out. Other arithmetic on such floats is
done in f32 and rounded. What has no such meaning is an error with its place.

``%v = arith.extf %x : f8E5M2 to f32`` becomes shifts, adds and selects on the code; ``memref<4xi1>`` becomes
``memref<4xi8>``, with ``arith.trunci`` behind loads and ``arith.extui`` before stores.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis.elements import element_type, with_element
from aot.lower.numbers import bytestorage, minifloat
from aot.lower.numbers.codes import code_type, small_float
from aot.lower.numbers.minifloat import F32_MANTISSA

_ARITHMETIC = frozenset({"arith", "math"})
"""Dialects whose other operations are done in f32 and rounded."""
_FROM_INTEGERS = frozenset({"arith.sitofp", "arith.uitofp"})
_CASTS = frozenset({"arith.extf", "arith.truncf"})
_MOVES = frozenset(
    {
        "affine.for",
        "affine.if",
        "affine.load",
        "affine.parallel",
        "affine.store",
        "affine.vector_load",
        "affine.vector_store",
        "affine.yield",
        "arith.bitcast",
        "arith.constant",
        "arith.select",
        "memref.atomic_yield",
        "memref.generic_atomic_rmw",
        "memref.load",
        "memref.store",
        "ub.poison",
        "vector.bitcast",
        "vector.broadcast",
        "vector.compressstore",
        "vector.constant_mask",
        "vector.deinterleave",
        "vector.expandload",
        "vector.extract",
        "vector.extract_strided_slice",
        "vector.from_elements",
        "vector.gather",
        "vector.insert",
        "vector.insert_strided_slice",
        "vector.interleave",
        "vector.load",
        "vector.maskedload",
        "vector.maskedstore",
        "vector.scatter",
        "vector.shape_cast",
        "vector.shuffle",
        "vector.store",
        "vector.to_elements",
        "vector.transfer_read",
        "vector.transfer_write",
        "vector.transpose",
        "vector.yield",
    }
)
"""Operations that move values without looking into them: right for codes as they are for floats."""
_MOVING_DIALECTS = frozenset({"scf", "cf", "func", "gpu"})
_LOOKING = frozenset({"gpu.all_reduce", "gpu.shuffle", "gpu.subgroup_reduce", "gpu.printf", "gpu.rotate"})


def rewrite(module: mlir.Module) -> None:
    """Rewrite a module in place."""
    types = bytestorage.find(module)
    if not types:
        return
    if any(name.startswith("linalg.") for name in mlir.op_names(module)):
        # Bodies of linalg operations work on elements as they are in memory.
        mlir.run_passes(module, ["convert-linalg-to-loops"], "lowering linalg")
    if bytestorage.has_floats(types):
        _spell_out(module)
    bytestorage.use_bytes(module)
    for op in mlir.walk(module):
        if op.name == "arith.bitcast" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    mlir.verify(module, "storing small types as bytes")


def _spell_out(module: mlir.Module) -> None:
    """Leave only moves and bit casts of small floats."""
    for op in mlir.walk(module):
        if op.name.partition(".")[0] in _ARITHMETIC and op.name not in _MOVES | _CASTS and _is_small(op):
            _compute_wide(op)
    for op in mlir.walk(module):
        if op.name in _CASTS and _is_small(op):
            _cast(op)
    for op in mlir.walk(module):
        _require_move(op)


def _is_small(op: mlir.Operation) -> bool:
    return any(small_float(value.type) for value in (*op.operands, *op.results))


def _compute_wide(op: mlir.Operation) -> None:
    """Extend what goes into the operation to f32, and round what comes out."""
    wide = ir.F32Type.get()
    if op.name in _FROM_INTEGERS and element_type(op.operands[0].type).width > F32_MANTISSA + 1:
        # Rounded to f32 first, such integers would be rounded twice.
        wide = ir.F64Type.get()
    with ir.InsertionPoint(op), op.location:
        for number, value in enumerate(op.operands):
            if small_float(value.type):
                op.operands[number] = arith.ExtFOp(with_element(value.type, wide), value).result
    for result in op.results:
        narrow = result.type
        if not small_float(narrow):
            continue
        result.set_type(with_element(narrow, wide))
        with ir.InsertionPoint.after(op), op.location:
            rounded = arith.TruncFOp(narrow, result)
        result.replace_all_uses_except(rounded.result, rounded.operation)


def _cast(op: mlir.Operation) -> None:
    """Replace one conversion by its arithmetic on codes."""
    value, wanted = op.operands[0], op.results[0].type
    with ir.InsertionPoint(op), op.location:
        name = small_float(value.type)
        if name:
            code = arith.BitcastOp(code_type(value.type), value).result
            value = minifloat.decode(code, name)
        result = _to_small(value, wanted) if small_float(wanted) else _to_plain(value, wanted)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _to_small(value: mlir.Value, wanted: ir.Type) -> mlir.Value:
    width = element_type(value.type).width
    if width == 64:
        value = minifloat.round_to_odd(value)
    elif width < 32:
        value = arith.ExtFOp(with_element(value.type, ir.F32Type.get()), value).result
    code = minifloat.encode(value, small_float(wanted))
    return arith.BitcastOp(wanted, code).result


def _to_plain(value: mlir.Value, wanted: ir.Type) -> mlir.Value:
    """From f32 to the type of an extension's result: a value of 8 bits fits in all of them."""
    width = element_type(wanted).width
    if width == 32:
        return value
    return (arith.ExtFOp if width > 32 else arith.TruncFOp)(wanted, value).result


def _require_move(op: mlir.Operation) -> None:
    names = [small_float(value.type) for value in (*op.operands, *op.results)]
    found = next((name for name in names if name), None)
    if found is None or op.name in _MOVES:
        return
    if op.name in _LOOKING or op.name.partition(".")[0] not in _MOVING_DIALECTS:
        raise _refusal(op, f"'{op.name}' on '{found}' has no code on the device: convert to f32 before it")


def _refusal(op: mlir.Operation, message: str) -> LoweringError:
    return LoweringError(
        "a small float type is used in a way that cannot be compiled", diagnostics=(mlir.diagnostic_at(op, message),)
    )
