"""Instructions of tensor cores and of asynchronous copies, as operations at the insertion point.

In: addresses in shared memory as 32-bit words, registers as i32. Out: registers, or nothing.

A fragment is what one instruction takes from a matrix of 32 bytes in depth: 16 rows of the left factor in four
registers, 8 columns of the right one in two. How the bytes lie is the same for every element type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, memref, nvvm, vector

from aot.lower.contract.codegen.words import Word
from aot.lower.fast.regions import bodies
from aot.lower.fast.rowwise import exchange

DEPTH_BYTES = 32
"""Of ``k``, in one instruction."""
_CODES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}
CHUNK = 16
"""Bytes of an asynchronous copy, and of a row of ``ldmatrix``."""


@dataclass(frozen=True)
class Kind:
    """What an instruction multiplies."""

    name: str
    """As PTX spells it."""
    bytes: int
    """Of an element."""
    sums: str
    """Element type of the sums."""
    other: str = ""
    """What the right factor is, as PTX spells it, if it is something else."""

    @property
    def names(self) -> tuple[str, str]:
        """Of both factors."""
        return self.name, self.other or self.name

    @property
    def told(self) -> str:
        """For reports."""
        return f"{self.name} x {self.other}" if self.other else self.name

    @property
    def depth(self) -> int:
        """Elements along ``k``."""
        return DEPTH_BYTES // self.bytes

    @property
    def is_small_float(self) -> bool:
        """Whether it is a float of one byte."""
        return self.bytes == 1 and self.sums == "f32"


def word() -> ir.Type:
    """A register."""
    return ir.IntegerType.get_signless(32)


def shared_base() -> Word:
    """Address of the block's dynamic shared memory."""
    base = memref.ExtractAlignedPointerAsIndexOp(exchange.shared_memory()).result
    return Word(arith.IndexCastOp(word(), base).result)


def pointer(address: Word, space: int) -> ir.Value:
    """A pointer to shared (3) or global (1) memory."""
    return llvm.IntToPtrOp(ir.Type.parse(f"!llvm.ptr<{space}>"), address.value).result


def copy(target: Word, source: Word, size: Word, whole: int = CHUNK) -> None:
    """Begin to copy 16 bytes, or 4 or 8, to shared memory; what is beyond ``size`` becomes zero."""
    attributes = {
        "modifier": ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if whole == CHUNK else 'ca'}>"),
        "size": ir.IntegerAttr.get(word(), whole),
    }
    operands = [pointer(target, 3), pointer(source, 1), size.value]
    ir.Operation.create("nvvm.cp.async.shared.global", [], operands, attributes)


def commit() -> None:
    """The copies begun since the last time are one group."""
    ir.Operation.create("nvvm.cp.async.commit.group", [], [])


def wait(groups: int) -> None:
    """Until at most so many groups are under way."""
    ir.Operation.create("nvvm.cp.async.wait.group", [], [], {"n": ir.IntegerAttr.get(word(), groups)})


def fragments(address: Word, *, turned: bool) -> list[ir.Value]:
    """Four matrices of 8 rows of 16 bytes, whose rows the warp's lanes name in turn; transposed for ``turned``."""
    attributes = {
        "num": ir.IntegerAttr.get(word(), 4),
        "layout": ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if turned else 'row'}>"),
        "shape": ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
        "eltType": ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
    }
    kind = ir.Type.parse("!llvm.struct<(i32, i32, i32, i32)>")
    found = ir.Operation.create("nvvm.ldmatrix", [kind], [pointer(address, 3)], attributes).results[0]
    return [part(found, number, word()) for number in range(4)]


def any_lane(conditions: Sequence[ir.Value]) -> ir.Value:
    """Whether one of the conditions holds in some lane of the warp."""
    total = conditions[0]
    for each in conditions[1:]:
        total = arith.OrIOp(total, each).result
    everybody = arith.ConstantOp(word(), -1).result
    one = ir.IntegerType.get_signless(1)
    return nvvm.VoteSyncOp(one, everybody, total, nvvm.VoteSyncKind.any).result


def packed(pair: ir.Value) -> Word:
    """Two 16-bit elements as a register."""
    made = vector.BitCastOp(ir.VectorType.get([1], word()), pair).result
    return Word(vector.ExtractOp(made, [], [0]).result)


def halves(values: Sequence[ir.Value], element: ir.Type) -> list[ir.Value]:
    """Numbers as elements of 16 bits, two of them in a register."""
    kind, narrow = ir.VectorType.get([2], ir.F32Type.get()), ir.VectorType.get([2], element)
    pairs = [vector.FromElementsOp(kind, list(values[first : first + 2])).result for first in range(0, len(values), 2)]
    return [packed(arith.TruncFOp(narrow, pair).result).value for pair in pairs]


def bytes_of(low: Word, high: Word, numbers: Word) -> Word:
    """Four bytes of two words, of which each has a number in four bits, the lowest byte's first."""
    return Word(_intrinsic("llvm.nvvm.prmt", [low.value, high.value, numbers.value], word()))


def part(value: ir.Value, number: int, kind: ir.Type) -> ir.Value:
    """One member of a struct."""
    return llvm.ExtractValueOp(kind, value, ir.DenseI64ArrayAttr.get([number])).result


def multiply(
    kind: Kind, left: Sequence[ir.Value], right: Sequence[ir.Value], totals: Sequence[ir.Value]
) -> list[ir.Value]:
    """``totals + left * right`` for 16 rows and 8 columns; a thread has two neighbours in a row, and below them two."""
    element = ir.Type.parse(kind.sums)
    given = [*left, *right]
    if kind.is_small_float:
        return _multiply_small_floats(kind, given, totals)
    if kind.name == "f16":
        pair = ir.VectorType.get([2], ir.F16Type.get())
        given = [llvm.BitcastOp(pair, each).result for each in given]
    left_type, right_type = (ir.Attribute.parse(f"#nvvm.mma_type<{name}>") for name in kind.names)
    attributes = {
        "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>"),
        "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>"),
        "shape": ir.Attribute.parse(f"#nvvm.shape<m = 16, n = 8, k = {kind.depth}>"),
        "multiplicandAPtxType": left_type,
        "multiplicandBPtxType": right_type,
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([4, 2, 4]),
    }
    if kind.sums == "i32":
        attributes["intOverflowBehavior"] = ir.Attribute.parse("#nvvm.mma_int_overflow<wrapped>")
    made = ir.Operation.create("nvvm.mma.sync", [_struct(kind.sums, 4)], [*given, *totals], attributes).results[0]
    return [part(made, number, element) for number in range(4)]


def _multiply_small_floats(kind: Kind, given: Sequence[ir.Value], totals: Sequence[ir.Value]) -> list[ir.Value]:
    """The same: MLIR's operation does not know these types."""
    one, other = kind.names
    name = f"llvm.nvvm.mma.m16n8k{kind.depth}.row.col.f32.{one}.{other}.f32"
    made = _intrinsic(name, [*given, *totals], _struct("f32", 4))
    return [part(made, number, ir.F32Type.get()) for number in range(4)]


def widened(value: ir.Value) -> ir.Value:
    """Floats of one byte, one or an even number of them, as f32: exactly, by instructions that sm_89 brought."""
    kind = value.type
    if not isinstance(kind, ir.VectorType):
        both = vector.BroadcastOp(ir.VectorType.get([2], kind), value).result
        return vector.ExtractOp(widened(both), [], [0]).result
    short, pair = ir.IntegerType.get_signless(16), ir.VectorType.get([2], ir.F16Type.get())
    name = f"llvm.nvvm.{_CODES[str(kind.element_type)]}x2.to.f16x2.rn"
    count = kind.shape[0] // 2
    codes = vector.BitCastOp(ir.VectorType.get([count], short), value).result
    halves = [
        each
        for number in range(count)
        for each in bodies.unpack(_intrinsic(name, [vector.ExtractOp(codes, [], [number]).result], pair))
    ]
    return arith.ExtFOp(ir.VectorType.get(kind.shape, ir.F32Type.get()), bodies.pack(halves)).result


def multiply_doubles(left: Sequence[ir.Value], right: Sequence[ir.Value], totals: Sequence[ir.Value]) -> list[ir.Value]:
    """``totals + left * right`` in f64; a thread has two neighbours in a row, of 16 rows two more, 8 below.

    ``right``: a number for each 4 steps of ``k`` of 8 columns; ``left``: as many of 8 rows, or pairs of 16 rows, whose
    second one is 8 rows below. Four lanes in turn have numbers of one row or column, at steps that follow each other.
    """
    shape = f"m{8 if len(totals) == 2 else 16}n8k{4 * len(right)}"
    made = _intrinsic(f"llvm.nvvm.mma.{shape}.row.col.f64", [*left, *right, *totals], _struct("f64", len(totals)))
    return [part(made, number, ir.F64Type.get()) for number in range(len(totals))]


def _intrinsic(name: str, operands: Sequence[ir.Value], result: ir.Type) -> ir.Value:
    """A call of an intrinsic of LLVM that MLIR has no operation for."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [result], list(operands), attributes).results[0]


def _struct(member: str, count: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.struct<({', '.join([member] * count)})>")
