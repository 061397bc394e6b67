"""Kernels of our own begin while the last blocks of the work ahead of them still run (programmatic dependent launch).

Blocks are handed out, read their parameters, and find their place before the kernel ahead has ended; then each thread
waits until that is done and its memory is visible. Nothing is read or written before: the order of a stream stays what
it was. Short kernels take a third less time so, one behind the other. A kernel lets the next one begin when it has
waited itself, unless it has many blocks: the word takes each of them about a quarter of a nanosecond (measured on an
H200), more than the next kernel gains, which begins with the last blocks anyhow.

Every block seems to pay for the wait: on an H200, large arrays took a fifth longer where threads had a single load of
16 bytes each (permuted heads, f32 and f16; softmax of 128 columns), and not where they had two. Tables give them two.

In: a module with kernels in the LLVM dialect. Out: the same, with one piece of assembly before the first access to
memory of each, for any target: LLVM writes the same code for old and new ones so. The text of PTX for a target that
cannot wait loses it (``aot.fatbins.ptxtext``). The manifest says ``programmatic`` of these kernels; the runtime
launches them so where the driver took an image for 9.0 or later."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.fatbins.ptxtext import early_start
from aot.lower.analysis import opwalk
from aot.lower.launches import tiling

_MANY = 4096
"""Blocks from which on a kernel does not say that the next one may begin: it may when they have ended."""


_PURE = frozenset(
    f"llvm.{name}"
    for name in (
        *("mlir.addressof", "mlir.constant", "mlir.poison", "mlir.undef", "mlir.zero", "extractvalue", "insertvalue"),
        *("add", "and", "ashr", "icmp", "lshr", "mul", "or", "sdiv", "select", "shl", "srem", "sub", "udiv", "urem"),
        *("getelementptr", "inttoptr", "ptrtoint", "sext", "trunc", "xor", "zext"),
        *("intr.smax", "intr.smin", "intr.umax", "intr.umin"),
    )
)
_REGISTERS = "nvvm.read.ptx.sreg."
"""What blocks do to find their place: it asks for no memory."""


def is_ours(kernel: mlir.Operation) -> bool:
    """Whether a kernel, or a launch, was made by a schedule; what a user wrote is launched as he says."""
    return tiling.SCHEDULE in kernel.attributes


def insert(module: mlir.Module) -> None:
    """Have our kernels wait."""
    text = early_start(_MANY)
    for kernel in opwalk.named(module, "llvm.func"):
        if is_ours(kernel):
            with ir.InsertionPoint(_first_access(kernel.regions[0].blocks[0])), kernel.location:
                # It touches memory as far as LLVM knows: nothing is read or written before.
                llvm.inline_asm(None, [], text, "~{memory}", has_side_effects=True)


def _first_access(block: ir.Block) -> mlir.Operation:
    """The first operation that memory may matter to, or the block's end: a thread finds its place before it waits."""
    ops = (op.operation for op in block.operations)
    return next(op for op in ops if op.name not in _PURE and not op.name.startswith(_REGISTERS))
