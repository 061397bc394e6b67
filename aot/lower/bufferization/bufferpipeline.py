"""Buffers in their final form: what bounds checks, constants, results and frees need, in the order that they need.

In: functions on buffers, as bufferization left them. Out: Settled, with a module, which is another object, in which
every buffer that a call makes is freed or returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.bufferization import bufferize, buffers, constants, expandshape, results
from aot.lower.checks import elementcheck, reshapecheck, slicecheck, stepcheck
from aot.lower.source import sourcelevel
from aot.model import Function


@dataclass(frozen=True)
class Settled:
    """Functions with buffers in their final form."""

    module: ir.Module
    note: str
    """For the user; empty where there is nothing to say."""
    unchecked: frozenset[str]
    """Functions with accesses that no check precedes."""


def settle(module: ir.Module, functions: Sequence[Function], *, everywhere: bool) -> Settled:
    """Constants and results are settled before deallocation. ``everywhere``: see ``stepcheck``."""
    stepcheck.insert(sourcelevel.host_functions(module), everywhere=everywhere)
    unchecked = slicecheck.insert(module, functions) | elementcheck.insert(module, functions)
    reshapecheck.insert(module)
    expandshape.rewrite(module)
    constants.escape(module)
    results.settle(module, functions)
    buffers.expand_reallocs(module)
    buffers.expand_reshapes(module)
    module, note = bufferize.release(module)
    results.renew(module, functions)
    buffers.copies_to_linalg(module)
    return Settled(module, note, unchecked)
