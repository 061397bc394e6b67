"""The manifest: what a package holds, as one JSON document (``aot.json``, ``__aot__``, ``aot inspect --json``).

In: CompiledSources and a PackageSpec. Out: plain dicts and lists, the same for the same input. ``schema`` grows when a
field changes its meaning or goes; new fields come without notice.

>>> module(source)["images"]                                                  # doctest: +SKIP
[{'requested': 'sm_90', 'target': 'sm_90', 'kind': 'cubin', 'bytes': 5336, 'ptx_version': ''}]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aot import dtype
from aot.model import (
    Argument,
    ArrayType,
    CompiledSource,
    Cost,
    Function,
    Kernel,
    PackageSpec,
    Result,
    ValueType,
)
from aot.tiling import Tiling

SCHEMA = 1
_MACHINES = {"x86_64-linux-gnu": "x86-64", "aarch64-linux-gnu": "aarch64"}
_INFIX = {4: "{} + {}", 5: "{} * {}", 6: "floordiv({}, {})", 7: "ceildiv({}, {})", 8: "mod({}, {})"}
"""AOT_EXPR_ADD to AOT_EXPR_MOD of the runtime."""
_LEAVES = {1: "{}", 2: "d{}", 3: "s{}"}
"""AOT_EXPR_CONST, _DIM, _SYM."""

_ADD, _MUL = 4, 5


@dataclass(frozen=True)
class _Text:
    """A part of an expression; a sum needs parentheses as a factor, everything else binds closer."""

    text: str
    is_sum: bool = False

    def grouped(self) -> str:
        return f"({self.text})" if self.is_sum else self.text


def manifest(spec: PackageSpec, modules: Mapping[str, Any]) -> dict[str, Any]:
    """The document of DESIGN: package, toolchain, and one entry per source: what ``module`` made, by name."""
    return {
        "schema": SCHEMA,
        "package": spec.name,
        "distribution": spec.distribution,
        "version": spec.version,
        "toolchain": asdict(spec.versions),
        "modules": [modules[name] for name in sorted(modules)],
    }


def module(source: CompiledSource) -> dict[str, Any]:
    """The entry of one source."""
    blob = source.fatbin
    return {
        "name": source.name,
        "source_sha256": source.sha256,
        "blob_bytes": len(blob.data) if blob else 0,
        "blob_sha256": hashlib.sha256(blob.data).hexdigest() if blob else None,
        "images": [asdict(image) for image in blob.images] if blob else [],
        "host": sorted(_MACHINES.get(code.triple, code.triple) for code in source.host if not code.variant),
        "cpu": _cpu(source),
        "functions": [_function(function) for function in source.functions],
        "kernels": [_kernel(source, kernel) for kernel in source.kernels],
        "skipped": list(source.skipped),
        "notes": list(source.notes),
        "schedules": source.schedules,
        "general": list(source.general),
        "remarks": list(source.remarks),
        "passthrough": list(source.passthrough),
    }


def _cpu(source: CompiledSource) -> dict[str, list[str]]:
    """Kinds of processors that the source has CPU code for, by machine."""
    found: dict[str, list[str]] = {}
    for code in source.host:
        if code.variant:
            found.setdefault(_MACHINES.get(code.triple, code.triple), []).append(code.variant)
    return found


def _function(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "level": function.level,
        "gpu": bool(function.entry),
        "cpu": function.cpu,
        "args": [_argument(argument) for argument in function.args],
        "results": [_result(result) for result in function.results],
        "flags": list(function.flags),
        "checked": function.checked,
        "cost": None if function.cost is None else _cost(function.cost),
        "doc": function.doc,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    """Each polynomial as a list of terms: a factor, and the extents it is multiplied with as [argument, axis]."""
    return {
        name: None if terms is None else [{"factor": t.factor, "dims": [list(dim) for dim in t.dims]} for t in terms]
        for name, terms in vars(cost).items()
    }


def _argument(argument: Argument) -> dict[str, Any]:
    return {"name": argument.name, **_value(argument.type), "role": argument.role, "type": argument.type.text()}


def _result(result: Result) -> dict[str, Any]:
    """``extents``: of a new array, per axis a number or an expression over d0, d1, … (dimensions of array arguments)
    and s0, s1, … (integer arguments), both in order; None where only the call knows it."""
    extents = result.extents and [None if each is None else expression(each) for each in result.extents]
    described = {**_value(result.type), "argument": result.argument, "type": result.type.text()}
    return {**described, "extents": None if extents is None else list(extents)}


def _value(kind: ValueType) -> dict[str, Any]:
    if not isinstance(kind, ArrayType):
        return {"kind": "scalar", "dtype": kind.dtype}
    layout = None if kind.strides is None else {"strides": list(kind.strides), "offset": kind.offset}
    return {"kind": kind.kind, "dtype": kind.dtype, "shape": list(kind.shape), "layout": layout}


def _kernel(source: CompiledSource, kernel: Kernel) -> dict[str, Any]:
    usage = source.fatbin.usage if source.fatbin else ()
    return {
        "name": kernel.name,
        "module": kernel.module,
        "symbol": kernel.symbol,
        "callable": kernel.callable,
        "params": [_parameter(parameter, kernel) for parameter in kernel.params],
        "grid": _programs(kernel.grid),
        "block": _programs(kernel.block) or (list(kernel.max_block) if kernel.max_block else None),
        "required_block": list(kernel.max_block) if kernel.max_block else None,
        "shared": expression(kernel.shared) if kernel.shared is not None else None,
        "cluster": list(kernel.cluster) if kernel.cluster else None,
        "cooperative": kernel.cooperative,
        "programmatic": kernel.programmatic,
        "priority": kernel.priority,
        "schedule": kernel.schedule,
        "tiling": None if kernel.tiling is None else _tiling(kernel.tiling),
        "targets": list(kernel.targets),
        "usage": {target: asdict(taken) for symbol, target, taken in usage if symbol == kernel.symbol},
        "doc": kernel.doc,
    }


def _tiling(tiling: Tiling) -> dict[str, Any]:
    return {
        "class": tiling.kind,
        "region": tiling.region,
        "tile": dict(tiling.tile),
        "remarks": list(tiling.remarks),
        "grid": list(tiling.grid),
        "block": list(tiling.block),
    }


def _parameter(parameter: Argument, kernel: Kernel) -> dict[str, Any]:
    """``bytes``: of the parameter as the driver passes it; an array is its descriptor unless it is a bare pointer.

    None for what only compiled host code passes: a descriptor of vectors, a struct.
    """
    kind = parameter.type
    size: int | None
    if not isinstance(kind, ArrayType):
        internal = not kernel.callable and not dtype.known(kind.dtype) and kind.dtype != "ptr"
        size = None if internal else dtype.of(kind.dtype).storage
    else:
        size = 8 if kernel.bare else 8 * (3 + 2 * len(kind.shape))
    return {**_argument(parameter), "bytes": size}


def _programs(programs: tuple[tuple[int, ...], ...] | None) -> list[int | str] | None:
    return None if programs is None else [expression(program) for program in programs]


def expression(program: Sequence[int]) -> int | str:
    """A postfix program as people write it: ``ceildiv(d0, 256)``; a plain number stays a number."""
    stack: list[_Text] = []
    words = iter(program)
    for word in words:
        if word == 0:
            break
        if word in _LEAVES:
            stack.append(_Text(_LEAVES[word].format(next(words))))
            continue
        right, left = stack.pop(), stack.pop()
        factors = word == _MUL
        text = _INFIX[word].format(left.grouped() if factors else left.text, right.grouped() if factors else right.text)
        stack.append(_Text(text, is_sum=word == _ADD))
    text = stack.pop().text
    return int(text) if text.lstrip("-").isdigit() else text
