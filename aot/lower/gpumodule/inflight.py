"""Remarks about accumulators that are stored while the tensor cores may still write them.

In: a module with nvgpu code. Out: one remark per store.

``%d = nvgpu.warpgroup.mma ...`` waits until at most ``waitGroup`` groups are in flight, and that is 1 unless the source
says something else: ``nvgpu.warpgroup.mma.store %d`` right behind it reads registers that its own group still writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk

_STORE, _MMA, _WAIT = "nvgpu.warpgroup.mma.store", "nvgpu.warpgroup.mma", "nvvm.wgmma.wait.group.sync.aligned"
_DEFAULT = 1


def notes(module: mlir.Module) -> tuple[str, ...]:
    """What to tell the user, by line."""
    found = []
    for op in opwalk.named(module, _STORE):
        if not _waits_before(op):
            groups = [groups for groups in map(_groups, _makers(op.operands[0], set())) if groups]
            if groups:
                found.append(
                    f"line {mlir.location_of(op).line}: the accumulator is stored while the wgmma that makes it may "
                    f"still run (waitGroup = {max(groups)}): set waitGroup = 0 on that nvgpu.warpgroup.mma"
                )
    return tuple(dict.fromkeys(found))


def _groups(mma: mlir.Operation) -> int:
    return ir.IntegerAttr(mma.attributes["waitGroup"]).value if "waitGroup" in mma.attributes else _DEFAULT


def _waits_before(store: mlir.Operation) -> bool:
    """Whether the source itself waits for all groups, in the block of the store or of what is around it."""
    places = [store, *mlir.parents(store)]
    for place in places:
        if place.name in mlir.KERNEL_SCOPES or place.parent is None:
            return False
        for op in place.block.operations:
            if op.operation == place:
                break
            if op.operation.name == _WAIT and ir.IntegerAttr(op.operation.attributes["group"]).value == 0:
                return True
    return False


def _makers(value: mlir.Value, seen: set[int]) -> Iterator[mlir.Operation]:
    """The matrix operations that a value may come from, through loops and branches."""
    made_by = mlir.owner(value)
    if not isinstance(made_by, ir.Operation) or hash(value) in seen:
        return
    seen.add(hash(value))
    if made_by.name == _MMA:
        yield made_by
        return
    number = ir.OpResult(value).result_number
    for region in made_by.regions:
        for block in region.blocks:
            end = list(block.operations)[-1].operation
            if end.name == "scf.yield":
                yield from _makers(end.operands[number], seen)
