"""The package's functions as PyTorch operators: for ``torch.compile``, ``torch.export`` and CUDA graphs. Import it when needed.

``PACKAGE.torch.softmax.forward(x)`` is ``PACKAGE.softmax.forward(x)`` by way of ``torch.ops.PACKAGE.softmax__forward``: it
computes the same, costs more, and can be traced. An operator may not return its arguments, so destinations are arguments that
it writes, and the functions here put them back among the results; it may not return numbers, so it returns tensors of one
element, and ``item()`` is called on them here (``torch._dynamo.config.capture_scalar_outputs`` keeps the graph whole).

Gradients: ``torch.library.register_autograd("PACKAGE::softmax__forward", ...)``.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from ._shapes import Shapes, is_fresh, is_integer

_NAME = __name__.rpartition(".")[0]
_DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "index": "int64", "i1": "bool",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu", "complex<f32>": "complex64", "complex<f64>": "complex128", "complex<f16>": "complex32",
}
_WAITS = {"reads_device", "host_sync"}
"""Flags of functions that cannot be captured in a CUDA graph."""


class _NoOperatorError(Exception):
    """PyTorch has no type for what the function takes or gives: a call of it says so."""


def _dtype(mlir: str) -> torch.dtype:
    """Integers of odd widths lie in the next whole number of bytes."""
    name = _DTYPES.get(mlir)
    if name is None and is_integer(mlir):
        width = next(size for size in (8, 16, 32, 64) if size >= int(mlir.lstrip("sui")))
        name = f"{'u' if mlir.startswith('u') else ''}int{width}"
    found = getattr(torch, name or "", None)
    if not isinstance(found, torch.dtype):
        raise _NoOperatorError(f"PyTorch {torch.__version__} has no element type for {mlir}")
    return found


class _Operator:
    """One function: its operator, and what is put back around it."""

    def __init__(self, source: str, function: dict[str, Any], call: Callable[..., Any]) -> None:
        self.function, self.call, self.shapes = function, call, Shapes(function)
        self.names = [_argument_name(i, each["name"]) for i, each in enumerate(function["args"])]
        self.dtypes = [_dtype(each["dtype"]) if each["argument"] is None else None for each in function["results"]]
        options: dict[str, Any] = {}
        if _WAITS & set(function["flags"]) and hasattr(torch.Tag, "cudagraph_unsafe"):
            options["tags"] = (torch.Tag.cudagraph_unsafe,)
        written = [name for name, each in zip(self.names, function["args"]) if _is_written(each)]
        made = torch.library.custom_op(
            f"{_NAME}::{source}__{function['name']}", self.run, mutates_args=written, schema=self.schema(), **options
        )
        made.register_fake(self.fake)
        self.op = made

    def schema(self) -> str:
        """``(Tensor x, Tensor(a1!) out, float s) -> Tensor``."""
        parameters = [f"{_parameter(i, each)} {name}" for i, (each, name) in enumerate(zip(self.function["args"], self.names))]
        results = ["Tensor"] * sum(dtype is not None for dtype in self.dtypes)
        return f"({', '.join(parameters)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"

    def run(self, *arguments: Any) -> Any:
        """The operator: results that are not arguments."""
        got = self.call(*arguments)
        everything = got if isinstance(got, tuple) else (got,)
        kept = [
            torch.tensor(value, dtype=dtype) if spec["kind"] == "scalar" else _tensor(value)
            for value, spec, dtype in zip(everything, self.function["results"], self.dtypes)
            if dtype is not None
        ]
        return _packed(kept)

    def fake(self, *arguments: Any) -> Any:
        """The same without computing anything."""
        shapes = iter(self.shapes(arguments))
        device = next((each.device for each in arguments if isinstance(each, torch.Tensor)), None)
        if device is None:
            device = torch.device("cuda" if self.function["gpu"] else "cpu")
        made = []
        for spec, dtype in zip(self.function["results"], self.dtypes):
            if dtype is None:
                continue
            if not is_fresh(spec):
                made.append(torch.empty((), dtype=dtype))
                continue
            extents = [torch.library.get_ctx().new_dynamic_size() if each is None else each for each in next(shapes)]
            made.append(torch.empty(extents, dtype=dtype, device=device))
        return _packed(made)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """As the package's own function: destinations and numbers among the results."""
        everything = (*arguments, *(named.pop(name) for name in self.names[len(arguments) :] if name in named))
        got = self.op(*everything, **named)
        fresh = iter(got if isinstance(got, (tuple, list)) else (got,))
        results = [
            everything[spec["argument"]] if spec["argument"] is not None else next(fresh).item() if spec["kind"] == "scalar" else next(fresh)
            for spec in self.function["results"]
        ]
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def _tensor(array: Any) -> torch.Tensor:
    """Without array arguments nobody said that the result shall be a tensor."""
    return array if isinstance(array, torch.Tensor) else torch.from_dlpack(array)


def _packed(values: list[Any]) -> Any:
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _argument_name(number: int, name: str) -> str:
    """Schemas take identifiers that Python would take as parameters."""
    return f"arg{number}" if not name.isidentifier() or keyword.iskeyword(name) else name


def _is_written(argument: dict[str, Any]) -> bool:
    return argument["role"] in ("destination", "ref")


def _parameter(number: int, argument: dict[str, Any]) -> str:
    """The schema's type of an argument."""
    if argument["kind"] != "scalar":
        return f"Tensor(a{number}!)" if _is_written(argument) else "Tensor"
    if argument["dtype"] == "i1":
        return "bool"
    if is_integer(argument["dtype"]):
        return "SymInt"
    return "complex" if argument["dtype"].startswith("complex") else "float"


def _traceable(operator: _Operator) -> Callable[..., Any]:
    """A function, which is what torch.compile follows into."""

    def call(*arguments: Any, **named: Any) -> Any:
        return operator(*arguments, **named)

    call.__name__ = call.__qualname__ = operator.function["name"]
    call.__doc__ = operator.call.__doc__
    return call


def _refused(name: str, reason: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        raise TypeError(f"{name} is no PyTorch operator: {reason}")

    return call


def _made(source: str, function: dict[str, Any], call: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return _traceable(_Operator(source, function, call))
    except _NoOperatorError as error:
        return _refused(f"{_NAME}.{source}.{function['name']}", str(error))


def _register(package: ModuleType) -> dict[str, Any]:
    """All functions: by namespace, and those that the package has at top level."""
    found: dict[str, Any] = {}
    made: dict[int, Any] = {}
    for module in package.__aot__["modules"]:
        namespace = getattr(package, module["name"])
        calls = {each["name"]: getattr(namespace, each["name"]) for each in module["functions"]}
        operators = {each["name"]: _made(module["name"], each, calls[each["name"]]) for each in module["functions"]}
        made |= {id(calls[name]): operators[name] for name in calls}
        found[module["name"]] = SimpleNamespace(**operators)
    top = {name: made[id(value)] for name, value in vars(package).items() if id(value) in made}
    return top | found


_functions = _register(importlib.import_module(_NAME))


def __getattr__(name: str) -> Any:
    try:
        return _functions[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(_functions)
