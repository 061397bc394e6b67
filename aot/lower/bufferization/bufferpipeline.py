"""Buffers in their final form: what bounds checks, constants, results and frees need, in the order that they need.

In: functions on buffers, as bufferization left them. Out: a module, which is another object, in which every buffer that
a call makes is freed or returned; a note for the user, or an empty text.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot.lower.bufferization import bufferize, buffers, constants, expandshape, results
from aot.lower.checks import reshapecheck, slicecheck, stepcheck
from aot.lower.source import sourcelevel
from aot.model import Function


def settle(module: ir.Module, functions: Sequence[Function], *, everywhere: bool) -> tuple[ir.Module, str]:
    """Constants and results are settled before deallocation. ``everywhere``: see ``stepcheck``."""
    stepcheck.insert(sourcelevel.host_functions(module), everywhere=everywhere)
    slicecheck.insert(module, functions)
    reshapecheck.insert(module)
    expandshape.rewrite(module)
    constants.escape(module)
    results.settle(module, functions)
    buffers.expand_reallocs(module)
    buffers.expand_reshapes(module)
    module, note = bufferize.release(module)
    results.renew(module, functions)
    buffers.copies_to_linalg(module)
    return module, note
