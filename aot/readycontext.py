"""MLIR contexts with everything loaded: one is made ahead, for it takes as long as a step of a small source.

In: the module ``mlir.ir``. Out: a context that nobody has used. What is forked from a process that prepared one has it,
each its own copy.

>>> prepare(ir); take(ir)                                               # doctest: +SKIP
<mlir._mlir_libs.Context object at 0x7f64>
"""

from __future__ import annotations

from typing import Any

_ready: list[Any] = []
"""At most one."""


def prepare(ir: Any) -> None:
    """Makes one for later."""
    if not _ready:
        _ready.append(_new(ir))


def take(ir: Any) -> Any:
    """The one that is ready, or a new one."""
    return _ready.pop() if _ready else _new(ir)


def _new(ir: Any) -> Any:
    ctx = ir.Context()
    # With threads, a diagnostic handler written in Python takes the process down.
    ctx.enable_multithreading(False)
    # Conversions create operations of dialects that the source does not mention, and only find loaded ones.
    ctx.load_all_available_dialects()
    ctx.allow_unregistered_dialects = False
    return ctx
