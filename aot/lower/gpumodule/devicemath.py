"""Arithmetic of kernels that upstream's device conversion has no pattern for.

In: a module with a gpu.module. Out: the same module, where integer powers are loops of multiplications, maxima, minima
and fused multiply-adds of floats are the hardware's, and so are exponentials that may be rough, reductions over a
subgroup are exchanges between threads, which go by 32 or 64 bits, and reductions over a block that all threads reach
are marked as such, and are in types that threads exchange.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, gpu, math, vector

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import literals
from aot.lower.analysis.elements import element_type
from aot.lower.gpumodule import libdevice
from aot.lower.numbers import integerpowers
from aot.targets.arch import WARP

_SHUFFLED_BITS = (32, 64)
"""Widths that threads can exchange; narrower values travel in 32 bits."""

ROUGH = "#arith.fastmath<afn>"
"""On operations in f32 that the hardware's own instruction will do for."""
_LOG2_E = 1.4426950408889634
_LARGEST_DIVISOR = 2.0**126

COMBINE: dict[str, tuple[type, type]] = {
    "add": (arith.AddIOp, arith.AddFOp),
    "mul": (arith.MulIOp, arith.MulFOp),
    "and": (arith.AndIOp, arith.AndIOp),
    "or": (arith.OrIOp, arith.OrIOp),
    "xor": (arith.XOrIOp, arith.XOrIOp),
    "minsi": (arith.MinSIOp, arith.MinSIOp),
    "minui": (arith.MinUIOp, arith.MinUIOp),
    "maxsi": (arith.MaxSIOp, arith.MaxSIOp),
    "maxui": (arith.MaxUIOp, arith.MaxUIOp),
    "minnumf": (arith.MinNumFOp, arith.MinNumFOp),
    "maxnumf": (arith.MaxNumFOp, arith.MaxNumFOp),
    "minimumf": (arith.MinimumFOp, arith.MinimumFOp),
    "maximumf": (arith.MaximumFOp, arith.MaximumFOp),
}
"""Operations of gpu.subgroup_reduce, for integers and for floats."""
_SIGNED = ("minsi", "maxsi")


def lower(module: mlir.Module) -> None:
    """Rewrite the operations of all kernels."""
    libdevice.declare(module)
    for op in mlir.walk(module):
        rewrite = _REWRITES.get(op.name)
        if rewrite is not None and mlir.inside_kernel(op):
            with ir.InsertionPoint(op), op.location:
                rewrite(op)


def _replace(op: mlir.Operation, value: mlir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _all_reduce(op: mlir.Operation) -> None:
    """Directly in a kernel's body it is met by every thread of the block, or by none. Narrow numbers are made wide."""
    parent = op.parent.operation
    if parent.name in ("gpu.func", "gpu.launch") and len(parent.regions[0].blocks) == 1:
        op.attributes["uniform"] = ir.UnitAttr.get()
    kind = op.results[0].type
    if not isinstance(kind, ir.IntegerType | ir.FloatType) or _is_shuffled(kind):
        return
    wide = _wider(kind)
    if wide is None or list(op.regions[0].blocks):
        raise LoweringError(
            f"{op.context.aot_path}: a reduction that cannot be compiled",
            hint="extend the numbers before it (arith.extf, arith.extsi), and round them behind it",
            diagnostics=(mlir.diagnostic_at(op, f"'{op.name}' on '{kind}': threads exchange 32 or 64 bits"),),
        )
    is_signed = _combination(op) in _SIGNED
    extend = arith.ExtFOp if isinstance(kind, ir.FloatType) else arith.ExtSIOp if is_signed else arith.ExtUIOp
    op.operands[0] = extend(wide, op.operands[0]).result
    op.results[0].set_type(wide)
    with ir.InsertionPoint.after(op), op.location:
        narrow = (arith.TruncFOp if isinstance(kind, ir.FloatType) else arith.TruncIOp)(kind, op.results[0])
    op.results[0].replace_all_uses_except(narrow.result, narrow.operation)


def _combination(op: mlir.Operation) -> str:
    """``add`` of ``#gpu<all_reduce_op add>``."""
    return str(op.attributes["op"]).split("<")[-1].strip("> ").split()[-1]


def _wider(kind: ir.IntegerType | ir.FloatType) -> ir.Type | None:
    """The least type that threads can exchange and that holds all of these numbers."""
    if isinstance(kind, ir.FloatType):
        return ir.F32Type.get() if kind.width < min(_SHUFFLED_BITS) else None
    bits = next((bits for bits in _SHUFFLED_BITS if kind.width <= bits), None)
    return None if bits is None else ir.IntegerType.get_signless(bits)


def _subgroup_reduce(op: mlir.Operation) -> None:
    """A butterfly: after each exchange twice as many threads hold the same partial result."""
    value = op.operands[0]
    kind = _combination(op)
    is_float = isinstance(value.type, ir.FloatType)
    if not isinstance(value.type, (ir.FloatType, ir.IntegerType)) or kind not in COMBINE:
        return
    combine = COMBINE[kind][is_float]
    size = _number(op, "cluster_size", WARP)
    step = _number(op, "cluster_stride", 1) * size // 2
    while step >= _number(op, "cluster_stride", 1):
        value = combine(value, exchanged(value, step)).result
        step //= 2
    _replace(op, value)


def _number(op: mlir.Operation, name: str, default: int) -> int:
    return ir.IntegerAttr(op.attributes[name]).value if name in op.attributes else default


def exchanged(value: mlir.Value, step: int) -> mlir.Value:
    """The value of the thread whose number differs in the bit ``step``."""
    i32 = ir.IntegerType.get_signless(32)
    distance, width = (arith.ConstantOp(i32, number).result for number in (step, WARP))
    return _carried(value, lambda sent: gpu.ShuffleOp(sent, distance, width, gpu.ShuffleMode.XOR).results[0])


def _carried(value: mlir.Value, send: Callable[[mlir.Value], mlir.Value]) -> mlir.Value:
    """What another thread sends, of any type: narrow values travel in 32 or 64 bits, wide ones in several parts."""
    kind = value.type
    if _is_shuffled(kind):
        return send(value)
    integer = ir.IntegerType.get_signless(kind.width)
    value = value if kind == integer else arith.BitcastOp(integer, value).result
    wide = _wider(integer)
    if wide is None:
        return _in_parts(value, send)
    got = arith.TruncIOp(integer, send(arith.ExtUIOp(wide, value).result)).result
    return got if kind == integer else arith.BitcastOp(kind, got).result


def _in_parts(value: mlir.Value, send: Callable[[mlir.Value], mlir.Value]) -> mlir.Value:
    """An integer of more bits than travel at a time."""
    most, kind = max(_SHUFFLED_BITS), value.type
    whole = ir.IntegerType.get_signless(-(-kind.width // most) * most)
    value = value if kind == whole else arith.ExtUIOp(whole, value).result
    got: mlir.Value | None = None
    for start in range(0, whole.width, most):
        distance = arith.ConstantOp(whole, start).result
        part = arith.TruncIOp(ir.IntegerType.get_signless(most), arith.ShRUIOp(value, distance).result).result
        part = arith.ShLIOp(arith.ExtUIOp(whole, send(part)).result, distance).result
        got = part if got is None else arith.OrIOp(got, part).result
    return got if kind == whole else arith.TruncIOp(kind, got).result


def _shuffle(op: mlir.Operation) -> None:
    """Of numbers that no instruction exchanges as they are, and of vectors of them."""
    value, *where = op.operands
    kind = value.type
    if isinstance(kind, ir.VectorType | ir.IntegerType | ir.FloatType) and not _is_shuffled(kind):
        sent: list[ir.Operation] = []

        def send(part: mlir.Value) -> mlir.Value:
            results = [part.type, op.results[1].type]
            sent.append(ir.Operation.create("gpu.shuffle", results, [part, *where], {"mode": op.attributes["mode"]}))
            return sent[-1].results[0]

        got = _by_elements(lambda part: _carried(part, send), value)
        op.results[1].replace_all_uses_with(sent[0].results[1])
        _replace(op, got)


def _is_shuffled(kind: ir.Type) -> bool:
    return not isinstance(kind, ir.VectorType) and kind.width in _SHUFFLED_BITS


def _one_instruction(op: mlir.Operation) -> None:
    """Upstream expands extremes to comparisons and selections, and calls functions to multiply and add."""
    kind = op.results[0].type
    if isinstance(kind, ir.VectorType) and kind.rank != 1:
        return
    name, types = _INSTRUCTIONS[op.name]
    if isinstance(element_type(kind), types):
        _replace(op, ir.Operation.create(name, results=[kind], operands=list(op.operands)).results[0])


def _exponential(op: mlir.Operation) -> None:
    """Of f32 that may be rough: without code for results that are denormal numbers, which become zeros."""
    kind = op.results[0].type
    if not isinstance(element_type(kind), ir.F32Type) or op.attributes["fastmath"] != ir.Attribute.parse(ROUGH):
        return
    value = op.operands[0]
    if op.name == "math.exp":
        value = arith.MulFOp(value, _splat(kind, _LOG2_E)).result
    _replace(op, _by_elements(power_of_two, value))


def _by_elements(compute: Callable[..., mlir.Value], *values: mlir.Value) -> mlir.Value:
    """A function of numbers on numbers, or on each element of vectors of rank 1."""
    kind = values[0].type
    if not isinstance(kind, ir.VectorType):
        return compute(*values)
    parts = [[vector.ExtractOp(each, [], [number]).result for each in values] for number in range(kind.shape[0])]
    return vector.FromElementsOp(kind, [compute(*part) for part in parts]).result


def _quotient(op: mlir.Operation) -> None:
    """Of f32 that may be rough. The roughest instruction gives 0 for divisors beyond 2^126: those have the next one."""
    kind = op.results[0].type
    if not isinstance(element_type(kind), ir.F32Type) or op.attributes["fastmath"] != ir.Attribute.parse(ROUGH):
        return
    if (isinstance(kind, ir.VectorType) and kind.rank != 1) or _is_one(op.operands[0]) or _is_moderate(op.operands[1]):
        return
    _replace(op, _by_elements(lambda *pair: _intrinsic("llvm.nvvm.div.full", *pair), *op.operands))


def _is_one(value: mlir.Value) -> bool:
    """An inverse: an instruction of its own, right for all numbers."""
    return _constant_number(value) == 1.0


def _is_moderate(value: mlir.Value) -> bool:
    """Whether a number is known to be at most 2^126."""
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Operation) and made_by.name == "arith.extf":
        kind = made_by.operands[0].type
        return isinstance(element_type(kind), ir.F16Type)
    number = _constant_number(value)
    return number is not None and abs(number) <= _LARGEST_DIVISOR


def _constant_number(value: mlir.Value) -> float | None:
    number = literals.element(value)
    return float(number.value) if isinstance(number, ir.FloatAttr) else None


def _splat(kind: ir.Type, value: float) -> mlir.Value:
    if not isinstance(kind, ir.VectorType):
        return arith.ConstantOp(kind, value).result
    number = ir.FloatAttr.get(kind.element_type, value)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, number)).result


def power_of_two(value: mlir.Value) -> mlir.Value:
    """2 to the power of an f32 number, by the special function unit."""
    return _intrinsic("llvm.nvvm.ex2.approx.ftz.f", value)


def _intrinsic(name: str, *values: mlir.Value) -> mlir.Value:
    """An instruction that gives a number of the type of those that it takes."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [values[0].type], list(values), attributes).results[0]


def _sine_and_cosine(op: mlir.Operation) -> None:
    """Two functions where there is none for both."""
    kind = op.results[0].type
    if not isinstance(kind, ir.F32Type | ir.F64Type):
        for result, function in zip(op.results, (math.SinOp, math.CosOp), strict=True):
            result.replace_all_uses_with(function(op.operands[0], fastmath=op.attributes["fastmath"]).result)
        op.erase()


_UP_TO_F32, _FROM_F32 = (ir.F16Type, ir.BF16Type, ir.F32Type), (ir.F32Type, ir.F64Type)
_INSTRUCTIONS: dict[str, tuple[str, tuple[type, ...]]] = {
    "arith.maximumf": ("llvm.intr.maximum", _UP_TO_F32),
    "arith.minimumf": ("llvm.intr.minimum", _UP_TO_F32),
    "arith.maxnumf": ("llvm.intr.maxnum", _UP_TO_F32),
    "arith.minnumf": ("llvm.intr.minnum", _UP_TO_F32),
    "math.fma": ("llvm.intr.fma", _FROM_F32),
}
"""Operations that are one instruction each, with the types of which they are."""
_REWRITES: dict[str, Callable[[mlir.Operation], None]] = {
    "arith.divf": _quotient,
    "gpu.all_reduce": _all_reduce,
    "gpu.shuffle": _shuffle,
    "gpu.subgroup_reduce": _subgroup_reduce,
    "math.sincos": _sine_and_cosine,
    integerpowers.POWER: integerpowers.expand,
    **dict.fromkeys(_INSTRUCTIONS, _one_instruction),
    **dict.fromkeys(("math.exp", "math.exp2"), _exponential),
}
