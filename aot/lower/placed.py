"""Attributes of ours where they mean nothing: on a ``gpu.launch``, or on a function of the host.

In: the module as the user wrote it. Out: LoweringError for attributes ``aot.…`` that would pass for what they are not.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

import difflib

from aot import mlir
from aot.errors import LoweringError
from aot.lower import imageneeds, launchsize, precision, tiling

_LAUNCH = (imageneeds.ATTRIBUTE, *tiling.ATTRIBUTES)
_KNOWN = {"gpu.launch": _LAUNCH, "gpu.launch_func": _LAUNCH, "func.func": (precision.ATTRIBUTE,)}


def check(module: mlir.Module) -> None:
    """Refuse unknown ones."""
    faults = [
        mlir.diagnostic_at(op, _problem(name, _KNOWN[op.name]))
        for op in mlir.walk(module)
        if op.name in _KNOWN
        for name in op.attributes
        if name.startswith("aot.") and name not in _KNOWN[op.name]
    ]
    if faults:
        raise LoweringError(f"{module.context.aot_path}: attributes that mean nothing here", diagnostics=tuple(faults))


def _problem(name: str, known: tuple[str, ...]) -> str:
    if name in launchsize.ATTRIBUTES:
        return f"{name}: it belongs on a kernel (gpu.func) that Python launches; it has no effect here"
    near = difflib.get_close_matches(name, known[:1], 1)
    return f"{name}: unknown attribute; {'did you mean' if near else 'known here is'} {known[0]}{'?' if near else ''}"
