"""Kernels that only some images hold.

A schedule may mark a ``gpu.launch`` with the architecture that its kernel needs: ``sm_80`` means that one or any later,
``sm_90a`` exactly that. Where an image is lowered for a target that does not serve the need, the kernel is left out
of it; host code asks at the call (``rtcalls.serves``) and launches another kernel there.

In: a launch and a need; later a module with the source's joined gpu.module, and a target. Out: the mark; the
module without the kernels that the target cannot have.

>>> with branch_if(rtcalls.serves("sm_90a")):                                 # doctest: +SKIP
...     imageneeds.mark(launch, "sm_90a")
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir

from aot import arch, archneed, mlir
from aot.arch import Target
from aot.errors import UnknownArch
from aot.lower import level

ATTRIBUTE = "aot.needs"
"""Attribute of a ``gpu.launch``, and later of its kernel."""


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


def kernels(module: mlir.Module) -> list[mlir.Operation]:
    """Those of its gpu.module."""
    containers = [op for op in level.top(module) if op.name == "gpu.module"]
    return [op for container in containers for op in level.top(container) if level.is_kernel(op)]


def unmet(module: mlir.Module, target: Target) -> list[mlir.Operation]:
    """The kernels that an image for this target cannot hold."""
    return [op for op in kernels(module) if not archneed.meets(target, of(op))]


def leave_out(module: mlir.Module, names: Collection[str]) -> None:
    """Erase the kernels of these names."""
    for op in kernels(module):
        if mlir.symbol_name(op) in names:
            op.erase()
