"""A source of which no image is built: what is left of it runs on CPUs.

In: CompiledSource with GPU and CPU code. Out: the same with its CPU code alone; functions without any are left out.

>>> reduced(compiled).kernels   # doctest: +SKIP
()
"""

from __future__ import annotations

from dataclasses import replace

from aot.model import CompiledSource


def reduced(compiled: CompiledSource) -> CompiledSource:
    """The source without GPU code."""
    gone = [function.name for function in compiled.functions if not function.cpu]
    gone += [kernel.name for kernel in compiled.kernels if kernel.callable]
    note = f"left out, since only tensor-level functions run on a CPU: {', '.join(gone)}"
    return replace(
        compiled,
        functions=tuple(replace(each, entry="", flags=()) for each in compiled.functions if each.cpu),
        kernels=(),
        fatbin=None,
        host=tuple(code for code in compiled.host if code.variant),
        general=(),
        remarks=(),
        notes=(*compiled.notes, *((note,) if gone else ())),
        passthrough=(),
    )
