"""Attributes of ours where they mean nothing: ``aot.precision`` on a ``tensor.empty``, ``aot.grid`` on a launch.

In: the module as the user wrote it. Out: LoweringError for attributes ``aot.…`` that would pass for what they are not.
Those of kernels are read with their launch sizes (``launchsize``).

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.gpumodule import imageneeds
from aot.lower.launches import tiling
from aot.lower.numbers import precision
from aot.lower.source import argnames, launchsize, sourcelevel

_LAUNCHES = ("gpu.launch", "gpu.launch_func")
_OF_ARGUMENTS, _OF_RESULTS = "arg_attrs", "res_attrs"
_OURS = "aot."


def check(module: mlir.Module) -> None:
    """Refuse unknown ones."""
    faults = [mlir.diagnostic_at(op, problem) for op in mlir.walk(module) for problem in _problems(op)]
    if faults:
        raise LoweringError(f"{module.context.aot_path}: attributes that mean nothing here", diagnostics=tuple(faults))


def _problems(op: mlir.Operation) -> Iterator[str]:
    if not op.attributes:
        return
    known = _known(op)
    if known is not None:
        yield from (_problem(name, known) for name in op.attributes if name.startswith(_OURS) and name not in known)
        yield from precision.problems(op) if precision.ATTRIBUTE in known else ()
    if op.name.startswith("linalg."):
        others = [name for name in op.attributes if not name.startswith(_OURS)]
        near = difflib.get_close_matches(precision.ATTRIBUTE, others, 1, 0.8)
        yield from (f"{name}: unknown attribute; did you mean {precision.ATTRIBUTE}?" for name in near)
    for of_all, meant in ((_OF_ARGUMENTS, (argnames.ATTRIBUTE,)), (_OF_RESULTS, ())):
        for each in op.attributes.get(of_all, ()):
            names = [one.name for one in ir.DictAttr(each)]
            yield from (_problem(name, meant) for name in names if name.startswith(_OURS) and name not in meant)


def _known(op: mlir.Operation) -> tuple[str, ...] | None:
    """What an operation may have; None where others look."""
    if sourcelevel.is_kernel(op):
        return None
    if op.name in _LAUNCHES:
        return (imageneeds.ATTRIBUTE, *tiling.ATTRIBUTES)
    # A module inside is taken apart, and its attributes with it.
    outermost = op.name == "builtin.module" and not list(mlir.parents(op))
    return (precision.ATTRIBUTE,) if outermost or op.name == "func.func" or op.name.startswith("linalg.") else ()


def _problem(name: str, known: tuple[str, ...]) -> str:
    if name in launchsize.ATTRIBUTES:
        return f"{name}: it belongs on a kernel (gpu.func) that Python launches; it has no effect here"
    if name in _BELONGS:
        return f"{name}: it belongs on {_BELONGS[name]}; it has no effect here"
    words = [each for each in (*known, *_BELONGS) if each not in tiling.ATTRIBUTES]
    near = difflib.get_close_matches(name, words, 1, 0.8)
    if near:
        return f"{name}: unknown attribute; did you mean {near[0]}?"
    return f"{name}: unknown attribute{f'; known here is {known[0]}' if known else ', and none is known here'}"


_BELONGS = {
    precision.ATTRIBUTE: "an operation of linalg, its function, or the module",
    imageneeds.ATTRIBUTE: "a kernel, or a launch",
    argnames.ATTRIBUTE: "an argument of a function",
}
