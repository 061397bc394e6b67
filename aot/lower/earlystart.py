"""Kernels of our own begin while the last blocks of the work ahead of them still run (programmatic dependent launch).

Blocks are handed out, and read their parameters, before the kernel ahead has ended; then each thread waits until that
is done and its memory is visible. Nothing is read or written before: the order of a stream stays what it was. Short
kernels take a third less time so, one behind the other. A kernel lets the next one begin when it has waited itself.

Every block seems to pay for the wait: on an H200, large arrays took a fifth longer where threads had a single load of
16 bytes each (permuted heads, f32 and f16; softmax of 128 columns), and not where they had two. Tables give them two.

In: a module with kernels in the LLVM dialect, for one target. Out: with the two instructions, which 9.0 has first.
The manifest says ``programmatic`` of these kernels; the runtime launches them so where the driver took such an image.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import nvvm

from aot import mlir
from aot.arch import Target
from aot.lower import search, tiling

_SINCE = (9, 0)


def is_ours(kernel: mlir.Operation) -> bool:
    """Whether a kernel, or a launch, was made by a schedule; what a user wrote is launched as he says."""
    return tiling.SCHEDULE in kernel.attributes


def insert(module: mlir.Module, target: Target) -> None:
    """Have our kernels wait, where the target can."""
    if target.capability < _SINCE:
        return
    for kernel in search.named(module, "llvm.func"):
        if is_ours(kernel):
            with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]), kernel.location:
                nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
                nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
