"""Device operations that upstream's conversions do not lower, or lower to code that ptxas refuses.

In: a module with kernels (gpu.launch bodies or gpu.modules). Out: the same module with
- gpu.subgroup_id, num_subgroups, subgroup_size, subgroup_broadcast written in thread ids and shuffles;
- asynchronous copies and barriers without constant predicates (a constant ends as ``@0`` in the assembly).
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, gpu, llvm

from aot import mlir
from aot.errors import LoweringError
from aot.targets.arch import WARP

PREDICATED = frozenset(
    {
        "nvgpu.mbarrier.init",
        "nvgpu.mbarrier.arrive.expect_tx",
        "nvgpu.tma.async.load",
        "nvgpu.tma.async.store",
        "nvgpu.tma.prefetch.descriptor",
    }
)
"""Operations whose last operand may be a predicate."""


def rewrite(module: mlir.Module) -> None:
    """Apply all rewrites to the kernels of a module."""
    for op in mlir.walk(module):
        if op.name in REWRITES:
            with ir.InsertionPoint(op), op.location:
                value = REWRITES[op.name](op)
            op.results[0].replace_all_uses_with(value)
            op.erase()
        elif op.name in PREDICATED:
            _resolve_predicate(op)


def _index(value: int) -> mlir.Value:
    return arith.ConstantOp(ir.IndexType.get(), value).result


def _axis(kind: type, name: str) -> mlir.Value:
    return kind(gpu.Dimension[name]).result


def _linear_thread() -> mlir.Value:
    x, y, z = (_axis(gpu.ThreadIdOp, name) for name in "xyz")
    width, height = (_axis(gpu.BlockDimOp, name) for name in "xy")
    row = arith.AddIOp(y, arith.MulIOp(z, height).result).result
    return arith.AddIOp(x, arith.MulIOp(row, width).result).result


def _subgroup_id(op: mlir.Operation) -> mlir.Value:
    return arith.DivUIOp(_linear_thread(), _index(WARP)).result


def _num_subgroups(op: mlir.Operation) -> mlir.Value:
    x, y, z = (_axis(gpu.BlockDimOp, name) for name in "xyz")
    threads = arith.MulIOp(arith.MulIOp(x, y).result, z).result
    return arith.CeilDivUIOp(threads, _index(WARP)).result


def _subgroup_size(op: mlir.Operation) -> mlir.Value:
    return _index(WARP)


def _subgroup_broadcast(op: mlir.Operation) -> mlir.Value:
    """A shuffle among the lanes that are active: others may have left the branch."""
    i32 = ir.IntegerType.get_signless(32)
    active = _assembly(i32, [], "activemask.b32 $0;", "=r")
    if len(op.operands) > 1:
        lane = op.operands[1]
    else:
        reversed_mask = _assembly(i32, [active], "brev.b32 $0, $1;", "=r,r")
        lane = _assembly(i32, [reversed_mask], "bfind.shiftamt.u32 $0, $1;", "=r,r")
    return _by_words(op, op.operands[0], lambda word: _shuffle(word, lane, active))


def _shuffle(word: mlir.Value, lane: mlir.Value, active: mlir.Value) -> mlir.Value:
    return _assembly(word.type, [word, lane, active], "shfl.sync.idx.b32 $0, $1, $2, 31, $3;", "=r,r,r,r")


def _assembly(type_: ir.Type, operands: list[mlir.Value], text: str, constraints: str) -> mlir.Value:
    return llvm.InlineAsmOp(
        res=type_, operands_=operands, asm_string=text, constraints=constraints, has_side_effects=True
    ).res


def _by_words(op: mlir.Operation, value: mlir.Value, function: Callable[[mlir.Value], mlir.Value]) -> mlir.Value:
    """Apply a function of 32-bit integers to a number of up to 64 bits."""
    type_ = value.type
    if not isinstance(type_, ir.IntegerType | ir.FloatType) or type_.width > 64:
        raise LoweringError(
            "a value that cannot be broadcast in a subgroup",
            diagnostics=(mlir.diagnostic_at(op, f"type '{type_}' is not a number of at most 64 bits"),),
        )
    bits, i32 = ir.IntegerType.get_signless(type_.width), ir.IntegerType.get_signless(32)
    word = value if type_ == bits else arith.BitcastOp(bits, value).result
    if type_.width <= 32:
        word = word if type_.width == 32 else arith.ExtUIOp(i32, word).result
        moved = function(word)
        moved = moved if type_.width == 32 else arith.TruncIOp(bits, moved).result
    else:
        half = arith.ConstantOp(bits, 32).result
        low = function(arith.TruncIOp(i32, word).result)
        high = function(arith.TruncIOp(i32, arith.ShRUIOp(word, half).result).result)
        upper = arith.ShLIOp(arith.ExtUIOp(bits, high).result, half).result
        moved = arith.OrIOp(upper, arith.ExtUIOp(bits, low).result).result
    return moved if type_ == bits else arith.BitcastOp(type_, moved).result


REWRITES: dict[str, Callable[[mlir.Operation], mlir.Value]] = {
    "gpu.subgroup_id": _subgroup_id,
    "gpu.num_subgroups": _num_subgroups,
    "gpu.subgroup_size": _subgroup_size,
    "gpu.subgroup_broadcast": _subgroup_broadcast,
}


def _resolve_predicate(op: mlir.Operation) -> None:
    """Erase an operation that never happens; make one that always happens unconditional."""
    operands = list(op.operands)
    chosen = _constant_bit(operands[-1]) if operands else None
    if chosen is None:
        return
    if chosen:
        _without_last_operand(op)
    op.erase()


def _constant_bit(value: mlir.Value) -> bool | None:
    """The value of an i1 constant; None for every other value."""
    made_by = mlir.owner(value)
    if str(value.type) != "i1" or isinstance(made_by, ir.Block) or made_by.name != "arith.constant":
        return None
    return bool(ir.BoolAttr(made_by.attributes["value"]).value)


def _without_last_operand(op: mlir.Operation) -> None:
    attributes = {name: op.attributes[name] for name in op.attributes}
    if "operandSegmentSizes" in attributes:
        segments = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([*segments[:-1], 0])
    with ir.InsertionPoint(op), op.location:
        ir.Operation.create(op.name, operands=list(op.operands)[:-1], attributes=attributes)
