"""What Python shows of a function or kernel: signature, docstring, stub.

In: model.Function or model.Kernel. Out: text for ``__doc__`` (CPython's ``__text_signature__`` on top) and for stubs.

>>> function_doc(forward).splitlines()[0]                                     # doctest: +SKIP
'forward(x, eps, *, stream=None, out=None)'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot import dtype
from aot.model import Argument, ArrayType, CompiledSource, Function, Kernel, Result, ScalarType

_ROLES = {"destination": ", written and returned", "ref": ", may be written"}
_KERNEL_OPTIONS = {
    "grid": "_Extents",
    "block": "_Extents",
    "shared": "int",
    "cluster": "_Extents | None",
    "cooperative": "bool | None",
    "programmatic": "bool | None",
    "priority": "int | None",
}


@dataclass(frozen=True)
class Stub:
    """One function of a stub file."""

    name: str
    signature: str
    """As ``help()`` shows it: ``forward(x, *, stream=None)``."""
    parameters: str
    """With types."""
    returns: str
    doc: str


def function_doc(function: Function) -> str:
    """Docstring with the signature on its first line."""
    return f"{_function_signature(function)}\n--\n\n{_function_text(function)}"


def kernel_doc(kernel: Kernel) -> str:
    """Docstring with the signature on its first line."""
    return f"{_kernel_signature(kernel)}\n--\n\n{_kernel_text(kernel)}"


def stubs(source: CompiledSource) -> tuple[Stub, ...]:
    """The functions and callable kernels of a namespace, as its stub declares them."""
    functions = [
        Stub(
            function.name,
            _function_signature(function),
            _function_parameters(function),
            _returns(function.results),
            _function_text(function),
        )
        for function in source.functions
    ]
    kernels = [
        Stub(kernel.name, _kernel_signature(kernel), _kernel_parameters(kernel), "None", _kernel_text(kernel))
        for kernel in source.kernels
        if kernel.callable
    ]
    return tuple(functions + kernels)


def _function_signature(function: Function) -> str:
    options = [*(["stream=None"] if function.entry else []), *(["out=None"] if _takes_out(function) else [])]
    return _signature(function.name, function.args, options)


def _kernel_signature(kernel: Kernel) -> str:
    grid = "grid=None" if kernel.grid else "grid"
    block = "block=None" if kernel.block or kernel.max_block else "block"
    others = [f"{name}=None" for name in _KERNEL_OPTIONS if name not in ("grid", "block")]
    return _signature(kernel.name, kernel.params, [grid, block, *others, "stream=None"])


def _signature(name: str, args: Sequence[Argument], options: Sequence[str]) -> str:
    names = [argument.name for argument in args]
    free = [option for option in options if option.partition("=")[0] not in names]
    return f"{name}({', '.join([*names, *(['*', *free] if free else [])])})"


def _takes_out(function: Function) -> bool:
    fresh = [r for r in function.results if r.argument is None and isinstance(r.type, ArrayType)]
    return bool(fresh) and all(argument.name != "out" for argument in function.args)


def _function_text(function: Function) -> str:
    results = ", ".join(_result_text(function, result) for result in function.results) or "nothing"
    waits = ["Waits for the GPU."] if {"reads_device", "host_sync", "messages"} & set(function.flags) else []
    place = _cpu_text(function)
    return "\n".join([*_head(function.doc), *_lines(function.args), f"Returns {results}.", *waits, *place])


def _cpu_text(function: Function) -> list[str]:
    if not function.cpu:
        return []
    return ["With arrays in host memory it runs on the CPU."] if function.entry else ["Runs on the CPU."]


def _kernel_text(kernel: Kernel) -> str:
    block = [f"Blocks are of {kernel.max_block} threads."] if kernel.max_block else []
    return "\n".join([*_head(kernel.doc), *_lines(kernel.params), *block])


def _head(doc: str) -> list[str]:
    return [doc.strip(), ""] if doc.strip() else []


def _lines(args: Sequence[Argument]) -> list[str]:
    return [f"{argument.name}: {argument.type.text()}{_ROLES.get(argument.role, '')}" for argument in args]


def _result_text(function: Function, result: Result) -> str:
    return result.type.text() if result.argument is None else function.args[result.argument].name


def _function_parameters(function: Function) -> str:
    options = ["stream: _Stream | None = ..."] if function.entry else []
    if _takes_out(function):
        options.append("out: _Array | tuple[_Array | None, ...] | None = ...")
    return ", ".join([*(_parameter(argument) for argument in function.args), *(["*", *options] if options else [])])


def _kernel_parameters(kernel: Kernel) -> str:
    required = [*([] if kernel.grid else ["grid"]), *([] if kernel.block or kernel.max_block else ["block"])]
    options = [f"{name}: {kind}{'' if name in required else ' = ...'}" for name, kind in _KERNEL_OPTIONS.items()]
    arguments = [_parameter(argument, kernel=True) for argument in kernel.params]
    return ", ".join([*arguments, "*", *options, "stream: _Stream | None = ..."])


def _parameter(argument: Argument, *, kernel: bool = False) -> str:
    return f"{argument.name}: {_python_type(argument.type, kernel=kernel)}"


def _python_type(kind: ArrayType | ScalarType, *, kernel: bool = False) -> str:
    if isinstance(kind, ArrayType) or kind.dtype == "ptr":
        return "_Array | int | None" if kernel else "_Array"
    return dtype.of(kind.dtype).python or "_Array"


def _returns(results: Sequence[Result]) -> str:
    kinds = [_python_type(result.type) for result in results]
    if not kinds:
        return "None"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"
