"""Constants (``memref.global``) where kernels can read them.

``escape`` runs on bufferized functions, before deallocation: a constant whose memory leaves the function, or
mixes with other memory, becomes a device copy. ``sink`` runs when launches exist: what kernels use directly is
named again inside them, so that outlining puts the constant into the device module.

``%g = memref.get_global @c``, ``return %g``  becomes  ``memref.copy %g, %a``, ``return %a`` with ``%a = memref.alloc``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import effects, opwalk, views
from aot.lower.hostmodule import rtcalls

_READERS = effects.ACCESSES | {
    "memref.dim",
    "memref.rank",
    "memref.dealloc",
    "memref.reshape",
    "memref.extract_aligned_pointer_as_index",
    "bufferization.dealloc",
}
"""Operations that use the memory on the spot, beside linalg operations; a reshape reads the shape there."""


def escape(module: mlir.Module) -> None:
    """Give constants that are returned, yielded, selected or passed on a device copy."""
    for op in opwalk.named(module, "memref.get_global"):
        if not mlir.inside_kernel(op):
            _escape(op)


def sink(module: mlir.Module) -> None:
    """Clone constants, and views of constants, into the launches that use them."""
    if opwalk.holds(module, "memref.get_global"):
        for op in opwalk.named(module, "gpu.launch"):
            _sink(op)


def align(value: mlir.Value, size: int) -> bool:
    """Have a global begin at a multiple of ``size`` bytes; False where the memory is none.

    Kernels have a copy of it: the address that host code sees says nothing about theirs, and must not reach them.
    """
    made_by = views.global_of(value)
    if made_by is None:
        return False
    i64 = ir.IntegerType.get_signless(64)
    before = ir.IntegerAttr(made_by.attributes["alignment"]).value if "alignment" in made_by.attributes else 1
    made_by.attributes["alignment"] = ir.IntegerAttr.get(i64, max(before, size))
    return True


def _escape(constant: mlir.Operation) -> None:
    work = [constant.results[0]]
    while work:
        value = work.pop()
        for use in list(value.uses):
            user = use.owner.operation
            if user.name in views.VIEWS and use.operand_number == 0:
                work.append(user.results[0])
            elif user.name not in _READERS and not user.name.startswith("linalg."):
                _require_constant(constant, user)
                with ir.InsertionPoint(user), user.location:
                    user.operands[use.operand_number] = _device_copy(value)


def _require_constant(constant: mlir.Operation, user: mlir.Operation) -> None:
    if views.is_constant(constant.results[0]):
        return
    name = ir.FlatSymbolRefAttr(constant.attributes["name"]).value
    message = f"memory of '@{name}', which is not constant, is used by '{user.name}': it can only be read and written"
    raise LoweringError("a global leaves its function", diagnostics=(mlir.diagnostic_at(user, message),))


def _device_copy(value: mlir.Value) -> mlir.Value:
    """A row-major copy at the insertion point, in the type of ``value``."""
    wanted = ir.MemRefType(value.type)
    plain = ir.MemRefType.get(wanted.shape, wanted.element_type, memory_space=wanted.memory_space)
    copy = memref.AllocOp(plain, rtcalls.dynamic_sizes(value), []).result
    memref.CopyOp(value, copy)
    return copy if plain == wanted else memref.CastOp(wanted, copy).result


def _sink(launch: mlir.Operation) -> None:
    body = launch.regions[0].blocks[0]
    clones: dict[mlir.Value, mlir.Value] = {}
    for op in mlir.walk(launch):
        if op == launch:
            continue
        for number, value in enumerate(op.operands):
            if _is_outer_constant(value, launch):
                op.operands[number] = _clone(value, body, clones)


def _is_outer_constant(value: mlir.Value, launch: mlir.Operation) -> bool:
    op = mlir.owner(value)
    if isinstance(op, ir.Block) or (op.name != "memref.get_global" and op.name not in views.VIEWS):
        return False
    return views.root_name(value) == "memref.get_global" and launch not in mlir.parents(op)


def _clone(value: mlir.Value, body: ir.Block, clones: dict[mlir.Value, mlir.Value]) -> mlir.Value:
    """The value's operation, and those it is a view through, at the start of the body, once each."""
    if value in clones:
        return clones[value]
    op = mlir.owner(value)
    source = None if op.name == "memref.get_global" else _clone(op.operands[0], body, clones)
    place = ir.InsertionPoint.at_block_begin(body) if source is None else ir.InsertionPoint.after(mlir.owner(source))
    with place:
        copy = op.clone()
    if source is not None:
        copy.operation.operands[0] = source
    for number, result in enumerate(op.results):
        clones[result] = copy.operation.results[number]
    return clones[value]
