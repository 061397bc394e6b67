"""Launches whose threads wait for each other, for ``cpurun``: each thread of a block becomes a fiber.

In: a ``gpu.launch`` with barriers, shuffles or dynamic shared memory. Out: a function of the module with its body, and
a call of ``cpurun_launch`` (``cpufibers.c``) in its place. What the body uses from outside travels in globals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import arith, func, llvm, math, memref, vector

from aot import mlir
from aot.lower.numbers import minifloat

WAITING = frozenset({"gpu.barrier", "gpu.shuffle", "gpu.dynamic_shared_memory"})
"""Operations of launches whose threads depend on each other."""
_MULTIPLICANDS = ("f16", "bf16", "s8", "u8", "tf32", "e4m3", "e5m2")
"""As ``cpurun_mma`` numbers them."""
_SIZES = 6
_SHARED = "#gpu.address_space<workgroup>"


def needed(launch: Any) -> bool:
    """Whether threads of the launch wait for each other."""
    return bool(WAITING & mlir.op_names(launch))


def declare(module: Any) -> None:
    """The functions of the C side."""
    index, word, long = ir.IndexType.get(), ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    kernel = ir.FunctionType.get([index] * _SIZES, [])
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        func.FuncOp("cpurun_barrier", ir.FunctionType.get([], []), visibility="private")
        func.FuncOp("cpurun_copy", ir.FunctionType.get([long, long, word, word], []), visibility="private")
        func.FuncOp("cpurun_commit", ir.FunctionType.get([], []), visibility="private")
        func.FuncOp("cpurun_wait", ir.FunctionType.get([word], []), visibility="private")
        func.FuncOp("cpurun_ldmatrix", ir.FunctionType.get([word, word], []), visibility="private")
        func.FuncOp("cpurun_mma", ir.FunctionType.get([word] * 12, []), visibility="private")
        double = ir.F64Type.get()
        func.FuncOp("cpurun_mma_double", ir.FunctionType.get([word, *[double] * 7], []), visibility="private")
        func.FuncOp("cpurun_register", ir.FunctionType.get([word], [word]), visibility="private")
        func.FuncOp("cpurun_exchange", ir.FunctionType.get([long, word], [long]), visibility="private")
        types = ir.FunctionType.get([kernel, *[index] * (_SIZES + 1), word, word], [])
        func.FuncOp("cpurun_launch", types, visibility="private")
        remote = ir.FunctionType.get([_pointer(), word], [_pointer()])
        func.FuncOp("cpurun_remote", remote, visibility="private")
        func.FuncOp("cpurun_make_counter", ir.FunctionType.get([long], []), visibility="private")
        func.FuncOp("cpurun_expect", ir.FunctionType.get([long, word], []), visibility="private")
        func.FuncOp("cpurun_send", ir.FunctionType.get([long, word, word, word, word], []), visibility="private")
        func.FuncOp("cpurun_await", ir.FunctionType.get([word], []), visibility="private")
        func.FuncOp("cpurun_prefetch", ir.FunctionType.get([long, word], []), visibility="private")
        shared = func.FuncOp("cpurun_shared", ir.FunctionType.get([], [_bytes()]), visibility="private")
        shared.operation.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _bytes() -> ir.Type:
    return ir.Type.parse("memref<?xi8>")


def to_fibers(module: Any, launch: Any, number: int, *, backwards: bool) -> None:
    """Replace the launch."""
    body = launch.regions[0].blocks[0]
    segments = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    sizes = list(launch.operands)[segments[0] : segments[0] + _SIZES]
    dynamic = launch.operands[len(launch.operands) - 1] if segments[-1] else None
    cells = _Cells(module, launch, number)
    index = ir.IndexType.get()
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        function = func.FuncOp(f"cpurun_kernel_{number}", ir.FunctionType.get([index] * _SIZES, []))
        entry = function.add_entry_block()
    with ir.InsertionPoint(entry), ir.Location.unknown():
        end = func.ReturnOp([]).operation
    with ir.InsertionPoint(end), ir.Location.unknown():
        values = [*entry.arguments, *(cells.read(size) for size in sizes)]
        inner = {value: cells.read(value) for value in cells.captured}
    for argument, value in zip(body.arguments, values, strict=False):
        argument.replace_all_uses_with(value)
    for op in [each.operation for each in body.operations][:-1]:
        op.move_before(end)
    for op in mlir.walk(function):
        for place, value in enumerate(op.operands):
            if value in inner:
                op.operands[place] = inner[value]
        _replace(op)
    with ir.InsertionPoint(launch), launch.location:
        zero = arith.ConstantOp(index, 0).result
        size = zero if dynamic is None else arith.IndexCastOp(index, dynamic).result
        order = arith.ConstantOp(ir.IntegerType.get_signless(32), int(backwards)).result
        kernel = func.ConstantOp(function.type, f"cpurun_kernel_{number}").result
        func.CallOp([], "cpurun_enter", [])
        blocks = launch.attributes["nvvm.cluster_dim"][0] if "nvvm.cluster_dim" in launch.attributes else 1
        cluster = arith.ConstantOp(ir.IntegerType.get_signless(32), blocks).result
        func.CallOp([], "cpurun_launch", [kernel, *sizes, size, order, cluster])
        func.CallOp([], "cpurun_leave", [])
    launch.erase()


class _Cells:
    """Globals that hold what a kernel uses from outside."""

    def __init__(self, module: Any, launch: Any, number: int) -> None:
        self.module, self.launch, self.number, self.names = module, launch, number, {}
        ops = [op for op in mlir.walk(launch) if op != launch]
        inside = set(ops)
        captured = {}
        for op in ops:
            for value in op.operands:
                made_by = mlir.owner(value)
                own = made_by in inside if isinstance(made_by, ir.Operation) else self._is_own(made_by, inside)
                if not own:
                    captured[value] = None
        self.captured = list(captured)

    def _is_own(self, block: ir.Block, inside: set[Any]) -> bool:
        return block.owner.operation == self.launch or block.owner.operation in inside

    def read(self, value: ir.Value) -> ir.Value:
        """The value, at the insertion point, from the global that it is put into before the launch."""
        stored = _stored(value.type)
        kind = ir.MemRefType.get([1], stored)
        if value not in self.names:
            name = f"cpurun_cell_{self.number}_{len(self.names)}"
            self.names[value] = name
            with ir.InsertionPoint.at_block_begin(self.module.body):
                made = memref.GlobalOp(name, ir.TypeAttr.get(kind), sym_visibility="private")
                made.operation.attributes["initial_value"] = ir.UnitAttr.get()
            with ir.InsertionPoint(self.launch), self.launch.location:
                cell = memref.GetGlobalOp(kind, name).result
                word = _to_stored(value, stored)
                memref.StoreOp(word, cell, [arith.ConstantOp(ir.IndexType.get(), 0).result])
        cell = memref.GetGlobalOp(kind, self.names[value]).result
        word = memref.LoadOp(cell, [arith.ConstantOp(ir.IndexType.get(), 0).result]).result
        return _from_stored(word, value.type)


def _to_stored(value: ir.Value, stored: ir.Type) -> ir.Value:
    if stored == value.type:
        return value
    return _integer(value, 64) if value.type == _pointer() else arith.ExtUIOp(stored, value).result


def _from_stored(word: ir.Value, kind: ir.Type) -> ir.Value:
    if word.type == kind:
        return word
    return llvm.IntToPtrOp(kind, word).res if kind == _pointer() else arith.TruncIOp(kind, word).result


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def _stored(kind: ir.Type) -> ir.Type:
    """Type of a value in memory: this MLIR cannot load and store single bits and pointers there."""
    if kind == _pointer():
        return ir.IntegerType.get_signless(64)
    byte = ir.IntegerType.get_signless(8)
    if isinstance(kind, ir.VectorType):
        return ir.VectorType.get(kind.shape, _stored(kind.element_type))
    return byte if isinstance(kind, ir.IntegerType) and kind.width < 8 else kind


def _replace(op: Any) -> None:
    with ir.InsertionPoint(op), op.location:
        if op.name in ("gpu.barrier", "nvvm.cluster.wait", "nvvm.bar.warp.sync"):
            func.CallOp([], "cpurun_barrier", [])
            op.erase()
        elif op.name == "gpu.shuffle":
            true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
            op.results[1].replace_all_uses_with(true)
            op.results[0].replace_all_uses_with(_exchanged(op.operands[0], op.operands[1]))
            op.erase()
        elif op.name in _INSTRUCTIONS:
            results = _INSTRUCTIONS[op.name](op)
            for old, new in zip(op.results, results, strict=True):
                old.replace_all_uses_with(new)
            op.erase()
        elif op.name == "gpu.dynamic_shared_memory":
            plain = func.CallOp([_bytes()], "cpurun_shared", []).results[0]
            op.results[0].replace_all_uses_with(plain)
            op.erase()
        elif op.name == "nvvm.mapa":
            there = func.CallOp([_pointer()], "cpurun_remote", list(op.operands)).results[0]
            op.results[0].replace_all_uses_with(there)
            op.erase()
        elif op.name in ("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed", "nvvm.fence.mbarrier.init"):
            op.erase()
        elif op.name == "llvm.inttoptr":
            op.results[0].set_type(_pointer())


def _word(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(32), number).result


def _integer(pointer: ir.Value, width: int) -> ir.Value:
    return llvm.PtrToIntOp(ir.IntegerType.get_signless(width), pointer).result


def _copy(op: Any) -> list[ir.Value]:
    target, source, *some = op.operands
    whole = _word(ir.IntegerAttr(op.attributes["size"]).value)
    size = some[0] if some else whole
    func.CallOp([], "cpurun_copy", [_integer(target, 64), _integer(source, 64), size, whole])
    return []


def _commit(op: Any) -> list[ir.Value]:
    func.CallOp([], "cpurun_commit", [])
    return []


def _wait(op: Any) -> list[ir.Value]:
    func.CallOp([], "cpurun_wait", [_word(ir.IntegerAttr(op.attributes["n"]).value)])
    return []


def _ldmatrix(op: Any) -> list[ir.Value]:
    turned = "col" in str(op.attributes["layout"])
    func.CallOp([], "cpurun_ldmatrix", [_integer(op.operands[0], 32), _word(int(turned))])
    return [_registers(op.results[0].type, ir.IntegerType.get_signless(32))]


def _mma(op: Any) -> list[ir.Value]:
    names = [str(op.attributes[f"multiplicand{side}PtxType"]).split("<")[1].strip(">") for side in "AB"]
    return _multiplied(op, names)


def _intrinsic(op: Any) -> list[ir.Value]:
    """``llvm.nvvm.ex2.approx.ftz.f``, ``llvm.nvvm.e4m3x2.to.f16x2.rn``, ``llvm.nvvm.mma.m16n8k32.row.col.f32…``."""
    words = ir.StringAttr(op.attributes["intrin"]).value.split(".")
    if words[-1] == "f64":
        return [_multiplied_doubles(op)]
    if words[-1] == "rn":
        return [_halves(op, words[2][: -len("x2")])]
    return [math.Exp2Op(op.operands[0]).result] if "ex2" in words else _multiplied(op, words[-3:-1])


def _multiplied(op: Any, kinds: Sequence[str]) -> list[ir.Value]:
    word = ir.IntegerType.get_signless(32)
    words = [each if each.type == word else llvm.BitcastOp(word, each).result for each in op.operands]
    func.CallOp([], "cpurun_mma", [*(_word(_MULTIPLICANDS.index(kind)) for kind in kinds), *words])
    return [_registers(op.results[0].type, op.operands[len(op.operands) - 1].type)]


def _halves(op: Any, kind: str) -> ir.Value:
    """Two floats of one byte as f16."""
    name = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}[kind]
    byte, wide = ir.IntegerType.get_signless(8), op.results[0].type
    codes = [arith.TruncIOp(byte, each).result for each in (op.operands[0], _shifted(op.operands[0], 8))]
    found = [arith.TruncFOp(wide.element_type, minifloat.decode(code, name)).result for code in codes]
    return vector.FromElementsOp(wide, found).result


def _shifted(value: ir.Value, count: int) -> ir.Value:
    return arith.ShRUIOp(value, arith.ConstantOp(value.type, count).result).result


def _multiplied_doubles(op: Any) -> ir.Value:
    """For 8 rows, or 16, whose numbers come in pairs; each 4 steps are one call."""
    members = llvm.StructType(op.results[0].type).body
    high = len(members) // 2
    operands = list(op.operands)
    sums = operands[-len(members) :]
    deep = (len(operands) - len(members)) // (1 + high)
    for step in range(deep):
        left = operands[step * high : (step + 1) * high]
        given = [*[*left, left[-1]][:2], operands[deep * high + step], *[*sums, *sums][:4]]
        func.CallOp([], "cpurun_mma_double", [_word(8 * high), *given])
        found = _registers(op.results[0].type, members[0])
        sums = [
            llvm.ExtractValueOp(kind, found, ir.DenseI64ArrayAttr.get([n])).result for n, kind in enumerate(members)
        ]
    return found


def _registers(kind: ir.Type, member: ir.Type) -> ir.Value:
    """The words that an instruction has left, as a struct of words or of pairs of them."""
    word = ir.IntegerType.get_signless(32)
    pairs = member == ir.F64Type.get()
    count = len(llvm.StructType(kind).body) * (2 if pairs else 1)
    values = [func.CallOp([word], "cpurun_register", [_word(number)]).results[0] for number in range(count)]
    if pairs:
        values = [_pair(*values[first : first + 2]) for first in range(0, count, 2)]
    made = llvm.UndefOp(kind).result
    for number, value in enumerate(values):
        value = value if member == value.type else llvm.BitcastOp(member, value).result
        made = llvm.InsertValueOp(made, value, ir.DenseI64ArrayAttr.get([number])).result
    return made


def _pair(low: ir.Value, high: ir.Value) -> ir.Value:
    long = ir.IntegerType.get_signless(64)
    one, other = (arith.ExtUIOp(long, each).result for each in (low, high))
    return arith.OrIOp(one, arith.ShLIOp(other, arith.ConstantOp(long, 32).result).result).result


def _any(op: Any) -> list[ir.Value]:
    """Whether a condition holds in one of the warp's threads."""
    assert "any" in str(op.attributes["kind"])
    found = arith.ExtUIOp(ir.IntegerType.get_signless(32), op.operands[1]).result
    for step in (1, 2, 4, 8, 16):
        found = arith.OrIOp(found, _exchanged(found, _word(step))).result
    return [arith.TruncIOp(op.results[0].type, found).result]


def _make_counter(op: Any) -> list[ir.Value]:
    func.CallOp([], "cpurun_make_counter", [_integer(op.operands[0], 64)])
    return []


def _expect(op: Any) -> list[ir.Value]:
    func.CallOp([], "cpurun_expect", [_integer(op.operands[0], 64), op.operands[1]])
    return []


def _prefetch(op: Any) -> list[ir.Value]:
    func.CallOp([], "cpurun_prefetch", [_integer(op.operands[0], 64), op.operands[1]])
    return []


def _assembly(op: Any) -> list[ir.Value]:
    """Words to another block of a cluster, counted there; and to wait for all of them. Empty: the same value.

    Also the number of the thread, the fourth argument of a kernel.
    """
    text, operands = ir.StringAttr(op.attributes["asm_string"]).value, list(op.operands)
    if not text:
        return operands
    if "%tid.x" in text:
        kernel = next(each for each in mlir.parents(op) if each.name == "func.func")
        return [arith.IndexCastOp(op.results[0].type, kernel.regions[0].blocks[0].arguments[3]).result]
    if "st.async" not in text:
        assert "mbarrier.try_wait" in text
        func.CallOp([], "cpurun_await", operands)
        return []
    bits = operands[0].type.width
    long = operands[0] if bits == 64 else arith.ExtUIOp(ir.IntegerType.get_signless(64), operands[0]).result
    func.CallOp([], "cpurun_send", [long, *operands[1:], _word(bits // 8)])
    return []


_INSTRUCTIONS = {
    "nvvm.cp.async.shared.global": _copy,
    "nvvm.cp.async.commit.group": _commit,
    "nvvm.cp.async.wait.group": _wait,
    "nvvm.ldmatrix": _ldmatrix,
    "nvvm.mma.sync": _mma,
    "llvm.call_intrinsic": _intrinsic,
    "nvvm.vote.sync": _any,
    "nvvm.mbarrier.init": _make_counter,
    "nvvm.mbarrier.arrive.expect_tx": _expect,
    "nvvm.cp.async.bulk.prefetch": _prefetch,
    "llvm.inline_asm": _assembly,
}
"""What tensor cores and asynchronous copies do, in ``cpufibers.c``, votes, and exchanges between blocks."""


def _exchanged(value: ir.Value, mask: ir.Value) -> ir.Value:
    long = ir.IntegerType.get_signless(64)
    kind = value.type
    bits = ir.IntegerType.get_signless(kind.width)
    word = value if kind == bits else arith.BitcastOp(bits, value).result
    wide = word if kind.width == 64 else arith.ExtUIOp(long, word).result
    got = func.CallOp([long], "cpurun_exchange", [wide, mask]).results[0]
    got = got if kind.width == 64 else arith.TruncIOp(bits, got).result
    return got if kind == bits else arith.BitcastOp(kind, got).result


def forget_spaces(module: Any) -> None:
    """Shared memory is plain memory here: views of it lose their memory space."""
    for op in mlir.walk(module):
        for result in op.results:
            if isinstance(result.type, ir.MemRefType) and str(result.type.memory_space) == _SHARED:
                kind = result.type
                result.set_type(ir.MemRefType.get(kind.shape, kind.element_type, kind.layout))
