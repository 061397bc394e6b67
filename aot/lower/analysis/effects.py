"""What an operation of tensor-level host code does to memory, as far as moving it to the device is concerned.

In: an operation outside kernels. Out: its Kind.

``arith.addf`` is PURE, ``memref.store %v, %argument[]`` is DEVICE, a loop around nothing but such operations is
DEVICE as a whole, ``gpu.launch`` is a BARRIER.
"""

from __future__ import annotations

from enum import Enum, auto

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import opwalk, views
from aot.lower.hostmodule import rtcalls
from aot.lower.source import sourcelevel


class Kind(Enum):
    """What moving an operation means."""

    PURE = auto()
    """Computes on values only: may run on either side."""
    DEVICE = auto()
    """Accesses device memory, itself or in its regions, and can run there as a whole."""
    STAY = auto()
    """Runs on the host and touches no existing device memory: host memory, allocation, host-only control flow."""
    BARRIER = auto()
    """Everything else: launches, calls, control flow around them. Device accesses do not pass it."""


_PURE_DIALECTS = frozenset({"arith", "math", "complex", "index", "ub", "vector", "shape"})
_PURE_OPS = views.VIEWS | {
    "affine.apply",
    "affine.min",
    "affine.max",
    "affine.delinearize_index",
    "affine.linearize_index",
    "memref.dim",
    "memref.rank",
    "memref.get_global",
    "memref.extract_aligned_pointer_as_index",
}
WRITES = frozenset(
    {
        "affine.store",
        "affine.vector_store",
        "memref.atomic_rmw",
        "memref.copy",
        "memref.generic_atomic_rmw",
        "memref.store",
        "vector.compressstore",
        "vector.maskedstore",
        "vector.scatter",
        "vector.store",
        "vector.transfer_write",
    }
)
"""Operations that write memory, beside those of linalg."""
ACCESSES = WRITES | {
    "affine.load",
    "affine.vector_load",
    "memref.load",
    "memref.prefetch",
    "vector.expandload",
    "vector.gather",
    "vector.load",
    "vector.maskedload",
    "vector.transfer_read",
}
"""Operations that read or write memory on the spot, beside those of linalg."""
_NOT_PURE = ACCESSES | {"vector.print", "vector.mask", "vector.yield", "vector.warp_execute_on_lane_0"}
_DIVISIONS = frozenset(
    f"{dialect}.{name}"
    for dialect in ("arith", "index")
    for name in (
        "divsi",
        "divui",
        "ceildivsi",
        "ceildivui",
        "floordivsi",
        "remsi",
        "remui",
        "divs",
        "divu",
        "ceildivs",
        "ceildivu",
        "floordivs",
        "rems",
        "remu",
    )
)
_READS = frozenset({"memref.load", "affine.load", "vector.load", "vector.transfer_read"})
CONTROL = frozenset(
    {
        "affine.for",
        "affine.if",
        "affine.parallel",
        "scf.execute_region",
        "scf.for",
        "scf.if",
        "scf.index_switch",
        "scf.parallel",
        "scf.while",
    }
)
"""Structured control flow: moves as a whole, or runs on the host around launches."""
HAND_ON = sourcelevel.LAUNCH_OPS | {
    "arith.select",
    "builtin.unrealized_conversion_cast",
    "cf.br",
    "cf.cond_br",
    "cf.switch",
    "func.call",
    "func.return",
}
"""Operations of host code that hand memrefs on: they touch no memory themselves, or that of either side."""
_TERMINATORS = frozenset(
    {
        "affine.yield",
        "cf.br",
        "cf.cond_br",
        "cf.switch",
        "linalg.index",
        "linalg.yield",
        "memref.atomic_yield",
        "scf.condition",
        "scf.reduce",
        "scf.reduce.return",
        "scf.yield",
    }
)
_ALLOCATIONS = (*rtcalls.ALLOCATORS, "aot_rt_result_extent")


def kind_of(op: mlir.Operation) -> Kind:
    """The operation's kind."""
    if is_access(op):
        return _kind_of_access(op)
    if op.name in CONTROL:
        return _kind_of_control(op)
    if is_pure(op):
        return Kind.PURE
    if op.name == "memref.alloca" or rtcalls.callee(op) in _ALLOCATIONS:
        return Kind.STAY
    return Kind.BARRIER


def is_access(op: mlir.Operation) -> bool:
    """Whether the operation itself reads or writes memory, on either side."""
    if op.name.startswith("linalg.") and op.name not in _TERMINATORS:
        return True
    return op.name in ACCESSES


def is_pure(op: mlir.Operation) -> bool:
    """Whether the operation computes on values, types, addresses and constants only."""
    if is_access(op):
        return _kind_of_access(op) is Kind.PURE
    if len(op.regions) or op.name in _NOT_PURE:
        return False
    return op.name in _PURE_OPS or op.name.partition(".")[0] in _PURE_DIALECTS


def speculatable(op: mlir.Operation) -> bool:
    """Whether a pure operation may run before the checks in front of it: a division traps, a read can go astray."""
    return is_pure(op) and not is_access(op) and op.name not in _DIVISIONS


def storable(type_: ir.Type) -> bool:
    """Whether a value of the type can be handed over through memory."""
    return isinstance(type_, ir.IntegerType | ir.IndexType | ir.FloatType | ir.ComplexType | ir.VectorType)


def _kind_of_access(op: mlir.Operation) -> Kind:
    arrays = [value for value in op.operands if views.is_memref(value)]
    device = [value for value in arrays if not views.is_host(value)]
    host = [value for value in arrays if views.is_host(value) and not views.is_constant(value)]
    if device and host:
        raise _refusal(op, f"'{op.name}' uses host memory and device memory at once")
    if device:
        return Kind.DEVICE
    return Kind.PURE if op.name in _READS and not host else Kind.STAY


def _kind_of_control(op: mlir.Operation) -> Kind:
    """DEVICE when all of it can move, STAY when nothing in it touches the device, else BARRIER."""
    if opwalk.holds(op, "gpu.launch"):
        return Kind.BARRIER
    nested = [each for each in mlir.walk(op) if each != op]
    kinds = {_kind_of_nested(each, op) for each in nested}
    if Kind.BARRIER in kinds:
        return Kind.BARRIER
    if Kind.DEVICE not in kinds:
        return Kind.STAY
    movable = Kind.STAY not in kinds and all(storable(r.type) or not list(r.uses) for r in op.results)
    return Kind.DEVICE if movable else Kind.BARRIER


def _kind_of_nested(op: mlir.Operation, control: mlir.Operation) -> Kind:
    if op.name in CONTROL or op.name in _TERMINATORS:
        return Kind.PURE
    if not is_access(op):
        # Stack memory of the control flow itself becomes the thread's own.
        return Kind.PURE if op.name == "memref.alloca" else kind_of(op)
    own = {views.root(value) for value in op.operands if views.is_memref(value) and _is_inside(value, control)}
    if own and all(views.root(v) in own or views.is_constant(v) for v in op.operands if views.is_memref(v)):
        return Kind.PURE
    return Kind.DEVICE if own else _kind_of_access(op)


def _is_inside(value: mlir.Value, control: mlir.Operation) -> bool:
    """Whether the memory is stack memory taken inside the control flow."""
    op = mlir.owner(views.root(value))
    return not isinstance(op, ir.Block) and op.name == "memref.alloca" and control in mlir.parents(op)


def _refusal(op: mlir.Operation, message: str) -> LoweringError:
    return LoweringError(
        "a function mixes host and device memory",
        diagnostics=(mlir.diagnostic_at(op, message),),
        hint="in tensor-level functions every array is device memory; keep host work in numbers",
    )
