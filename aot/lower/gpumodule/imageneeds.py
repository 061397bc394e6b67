"""Kernels that only some images hold.

A schedule may mark a ``gpu.launch`` with the architecture that its kernel needs: ``sm_80`` means that one or any later,
``sm_90a`` exactly that. Where an image is lowered for a target that does not serve the need, the kernel is left out
of it; host code asks at the call (``rtcalls.serves``) and launches another kernel there. So is a kernel that stands in
for one with more shared memory, where all GPUs that run the image have that.

In: a launch and a need; later a module with the source's joined gpu.module, and a target. Out: the mark; the
module without the kernels that the target cannot have.

>>> with branch_if(rtcalls.serves("sm_90a")):                                 # doctest: +SKIP
...     imageneeds.mark(launch, "sm_90a")
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.errors import UnknownArch
from aot.lower.analysis import opwalk
from aot.lower.source import sourcelevel
from aot.targets import arch, archneed
from aot.targets.arch import Target

ATTRIBUTE = "aot.needs"
"""Attribute of a ``gpu.launch``, and later of its kernel."""
_AT_LEAST = int(arith.CmpIPredicate.uge)
LESS_SHARED = "aot.less_shared"
"""Another one: bytes of shared memory that a block cannot have where the kernel is launched."""


def mark(launch: mlir.Operation, need: str) -> None:
    """Say what architecture the kernel of a launch needs, in canonical spelling."""
    launch.attributes[ATTRIBUTE] = ir.StringAttr.get(arch.target(need).name)


def of(kernel: mlir.Operation) -> str:
    """The need of a kernel; empty: none. UnknownArch when it names no architecture."""
    if ATTRIBUTE not in kernel.attributes:
        return ""
    need = kernel.attributes[ATTRIBUTE]
    if not isinstance(need, ir.StringAttr):
        raise UnknownArch(f"{ATTRIBUTE}: '{need}' is no text, such as \"sm_90\"")
    return arch.target(need.value).name


def mark_less_shared(module: mlir.Module) -> None:
    """Find launches that host code makes where a block cannot have some shared memory, and say how much."""
    for launch in opwalk.named(module, "gpu.launch"):
        inner, sizes = launch, []
        for around in mlir.parents(launch):
            sizes += _lacked(inner, around)
            inner = around
        if sizes:
            launch.attributes[LESS_SHARED] = ir.IntegerAttr.get(ir.IndexType.get(), min(sizes))


def _lacked(op: mlir.Operation, around: mlir.Operation) -> list[int]:
    """Bytes of shared memory that the call's device has not, for ``op`` is in the other branch of ``around``."""
    if around.name != "scf.if" or op.block not in list(around.regions[1].blocks):
        return []
    asked = mlir.owner(around.operands[0])
    if isinstance(asked, ir.Block) or asked.name != "arith.cmpi" or _value(asked, "predicate") != _AT_LEAST:
        return []
    limit, size = map(mlir.owner, asked.operands)
    if isinstance(limit, ir.Block) or isinstance(size, ir.Block):
        return []
    is_limit = limit.name == "func.call" and str(limit.attributes["callee"]) == "@aot_rt_shared_limit"
    return [_value(size, "value")] if is_limit and size.name == "arith.constant" else []


def less_shared(kernel: mlir.Operation) -> int:
    """What ``mark_less_shared`` found of it; 0: it may be launched on any GPU."""
    return _value(kernel, LESS_SHARED) if LESS_SHARED in kernel.attributes else 0


def _value(op: mlir.Operation, name: str) -> int:
    return int(ir.IntegerAttr(op.attributes[name]).value)


def kernels(module: mlir.Module) -> list[mlir.Operation]:
    """Those of its gpu.module."""
    containers = [op for op in sourcelevel.top(module) if op.name == "gpu.module"]
    return [op for container in containers for op in sourcelevel.top(container) if sourcelevel.is_kernel(op)]


def unmet(module: mlir.Module, target: Target) -> list[mlir.Operation]:
    """The kernels that an image for this target cannot hold."""
    return [op for op in kernels(module) if not archneed.meets(target, of(op), less_shared(op))]


def leave_out(module: mlir.Module, names: Collection[str]) -> None:
    """Erase the kernels of these names."""
    for op in kernels(module):
        if mlir.symbol_name(op) in names:
            op.erase()
