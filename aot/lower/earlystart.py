"""Kernels of our own begin while the last blocks of the work ahead of them still run (programmatic dependent launch).

Blocks are handed out, and read their parameters, before the kernel ahead has ended; then each thread waits until that
is done and its memory is visible. Nothing is read or written before: the order of a stream stays what it was. Short
kernels take a third less time so, one behind the other. A kernel lets the next one begin when it has waited itself,
unless it has many blocks: the word takes each of them about a quarter of a nanosecond (measured on an H200), more than
the next kernel gains, which begins with the last blocks anyhow.

Every block seems to pay for the wait: on an H200, large arrays took a fifth longer where threads had a single load of
16 bytes each (permuted heads, f32 and f16; softmax of 128 columns), and not where they had two. Tables give them two.

In: a module with kernels in the LLVM dialect, for one target. Out: with the two instructions, which 9.0 has first.
The manifest says ``programmatic`` of these kernels; the runtime launches them so where the driver took such an image.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm, nvvm

from aot import mlir
from aot.arch import Target
from aot.lower import search, tiling

_SINCE = (9, 0)
_MANY = 4096
"""Blocks from which on a kernel does not say that the next one may begin: it may when they have ended."""
_CALL = "@$0 griddepcontrol.launch_dependents;"


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
                _call()


def _call() -> None:
    """Let the next kernel begin. A predicate, no branch: allocations have to stay in the first block."""
    number = ir.IntegerType.get_signless(32)
    sizes = [each(number) for each in (nvvm.read_ptx_sreg_nctaid_x, nvvm.read_ptx_sreg_nctaid_y)]
    blocks = llvm.mul(*sizes, llvm.IntegerOverflowFlags.none)
    many = llvm.mlir_constant(ir.IntegerAttr.get(number, _MANY))
    few = llvm.icmp(llvm.ICmpPredicate.ult, blocks, many)
    llvm.inline_asm(None, [few], _CALL, "b", has_side_effects=True)
