"""Launches of one thread, made from operations of host code.

In: operations of one block, in order. Out: a ``gpu.launch`` of one block and one thread, which holds them.
Values that others use come out through a scalar in device memory: kernels load it there, the host reads it.

``%v = memref.load %x[]``, ``memref.store %v, %y[]``, ``return %v``  becomes  a launch that also stores ``%v`` in
a scratch scalar, and ``%r = call @aot_rt_load_i32``, ``return %r``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import gpu, memref, scf

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis.demand import ancestor_in, launch_around
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tiling

SCHEDULE = "one-thread"
"""Name of the schedule, for reports."""


class Group:
    """Operations of one block that will run together, and the operations of the block that use their results."""

    def __init__(self, members: Iterable[mlir.Operation] = ()) -> None:
        self.members: dict[mlir.Operation, None] = {}
        self._users: set[mlir.Operation] = set()
        for op in members:
            self.add(op)

    def add(self, op: mlir.Operation) -> None:
        """Take an operation in."""
        self.members[op] = None
        for result in op.results:
            for use in result.uses:
                user = ancestor_in(op.block, use.owner.operation)
                if user is not None:
                    self._users.add(user)

    def feeds(self, op: mlir.Operation) -> bool:
        """Whether the operation, or one inside it, uses a result of a member."""
        return op in self._users


@dataclass(frozen=True)
class _Use:
    """One operand, of an operation outside the launch."""

    user: mlir.Operation
    number: int


@dataclass(frozen=True)
class _Escape:
    """A result that is used outside the launch."""

    value: mlir.Value
    uses: tuple[_Use, ...]
    block: mlir.Block
    """Block of the launch."""

    def on_host(self) -> bool:
        """Whether host code is among the users. Kernels launched from elsewhere get the host's copy."""
        return any(launch_around(use.user) is None or ancestor_in(self.block, use.user) is None for use in self.uses)


def outline(members: Sequence[mlir.Operation], place: mlir.Operation) -> None:
    """Move the operations into a launch of one thread that stands where ``place``, one of them, stood."""
    escapes = _escapes(members)
    _require_readable(escapes)
    with ir.InsertionPoint.after(place), members[0].location:
        scratch = [rtcalls.device_buffer(ir.MemRefType.get([], escape.value.type), []) for escape in escapes]
        one = rtcalls.index(1)
        launch = gpu.LaunchOp((one, one, one), (one, one, one)).operation
        tiling.mark(launch, "leftover", 0, SCHEDULE, {"threads": 1})
        with ir.InsertionPoint(launch.regions[0].blocks[0]):
            end = gpu.TerminatorOp().operation
    for op in members:
        op.move_before(end)
    for escape, scalar in zip(escapes, scratch, strict=True):
        with ir.InsertionPoint(end), members[0].location:
            memref.StoreOp(escape.value, scalar, [])
        if escape.on_host():
            _read_on_host(escape, scalar, launch)
        else:
            _load_in_kernels(escape, scalar)
    for copy in [op for op in mlir.walk(launch) if op.name == "memref.copy"]:
        _copy_by_elements(copy)


def _escapes(members: Sequence[mlir.Operation]) -> list[_Escape]:
    inside = {op for member in members for op in mlir.walk(member)}
    escapes = []
    for result in (result for op in members for result in op.results):
        uses = tuple(_Use(u.owner.operation, u.operand_number) for u in result.uses if u.owner.operation not in inside)
        if uses:
            escapes.append(_Escape(result, uses, members[0].block))
    return escapes


def _require_readable(escapes: Sequence[_Escape]) -> None:
    for escape in escapes:
        if escape.on_host() and not rtcalls.readable(escape.value.type):
            op = mlir.owner(escape.value)
            message = f"the host needs this value of type '{escape.value.type}' from device memory"
            raise LoweringError(
                "a value cannot be read from device memory",
                diagnostics=(mlir.diagnostic_at(op, message),),
                hint="only numbers of at most 64 bits can steer host code",
            )


def _read_on_host(escape: _Escape, scalar: mlir.Value, launch: mlir.Operation) -> None:
    with ir.InsertionPoint.after(launch), launch.location:
        value = rtcalls.load(scalar, [])
        rtcalls.free(scalar)
    for use in escape.uses:
        use.user.operands[use.number] = value


def _load_in_kernels(escape: _Escape, scalar: mlir.Value) -> None:
    loads: dict[mlir.Operation, mlir.Value] = {}
    for use in escape.uses:
        kernel = launch_around(use.user)
        assert kernel is not None, "the escape has host users"
        if kernel not in loads:
            with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]), kernel.location:
                loads[kernel] = memref.LoadOp(scalar, []).result
        use.user.operands[use.number] = loads[kernel]
    last = None
    for kernel in loads:
        user = ancestor_in(escape.block, kernel)
        last = user if last is None or last.is_before_in_block(user) else last
    assert last is not None, "an escape has users"
    with ir.InsertionPoint.after(last), last.location:
        rtcalls.free(scalar)


def _copy_by_elements(copy: mlir.Operation) -> None:
    """Kernels have no memcpy for strided memory: loops instead."""
    source, target = copy.operands
    if not isinstance(source.type, ir.MemRefType) or not isinstance(target.type, ir.MemRefType):
        message = "a copy of unranked memory would run on the host"
        raise LoweringError("not device code", diagnostics=(mlir.diagnostic_at(copy, message),))
    with ir.InsertionPoint(copy), copy.location:
        zero, one = rtcalls.index(0), rtcalls.index(1)
        extents = [memref.DimOp(source, rtcalls.index(axis)).result for axis in range(source.type.rank)]
        _copy_axes(source, target, extents, [], (zero, one))
    copy.erase()


def _copy_axes(
    source: mlir.Value,
    target: mlir.Value,
    extents: Sequence[mlir.Value],
    indices: list[mlir.Value],
    bounds: tuple[mlir.Value, mlir.Value],
) -> None:
    if len(indices) == len(extents):
        memref.StoreOp(memref.LoadOp(source, indices).result, target, indices)
        return
    zero, one = bounds
    loop = scf.ForOp(zero, extents[len(indices)], one)
    with ir.InsertionPoint(loop.body):
        _copy_axes(source, target, extents, [*indices, loop.induction_variable], bounds)
        scf.YieldOp([])
