"""Shapes of results before a call: for frameworks that trace programs.

In: a function of the manifest, and the arguments' shapes and integers; they may be symbols. Out: shapes of the new arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OPERATIONS = {"floordiv": lambda a, b: a // b, "ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b}


def is_integer(dtype: str) -> bool:
    """Whether arguments of this type have a number among the integers."""
    return dtype == "index" or dtype.lstrip("su").startswith("i")


class Shapes:
    """The shapes of one function's new arrays."""

    def __init__(self, function: dict[str, Any]) -> None:
        self._args = function["args"]
        self._results = [
            [_compiled(extent) for extent in _extents(result)] for result in function["results"] if is_fresh(result)
        ]

    def __call__(self, arguments: Sequence[Any]) -> list[list[Any]]:
        """Extents by result; None where only the call knows one. Arguments are arrays with ``shape``, and numbers."""
        dims: list[Any] = []
        numbers: list[Any] = []
        for spec, value in zip(self._args, arguments):
            if spec["kind"] != "scalar":
                _check(spec, value)
                dims += value.shape
            elif is_integer(spec["dtype"]):
                numbers.append(value)
        names = {**_OPERATIONS, **{f"d{i}": d for i, d in enumerate(dims)}, **{f"s{i}": s for i, s in enumerate(numbers)}}
        return [[extent if not hasattr(extent, "co_code") else eval(extent, names) for extent in result] for result in self._results]


def is_fresh(result: dict[str, Any]) -> bool:
    """Whether the call makes this array; a number, or an argument that is returned, is none."""
    return result["kind"] != "scalar" and result["argument"] is None


def _extents(result: dict[str, Any]) -> Sequence[Any]:
    return result["extents"] if result["extents"] is not None else result["shape"]


def _compiled(extent: Any) -> Any:
    """A number, None, or the code of an expression."""
    return compile(extent, "<aot.json>", "eval") if isinstance(extent, str) else extent


def _check(spec: dict[str, Any], value: Any) -> None:
    """As the call does: what it says is better found while tracing."""
    shape = getattr(value, "shape", None)
    if shape is None:
        raise TypeError(f"argument '{spec['name']}': expected {spec['type']}, got {type(value).__name__}: an array is needed")
    if len(shape) != len(spec["shape"]):
        raise ValueError(f"argument '{spec['name']}': expected {spec['type']}, got an array of shape {tuple(shape)}: another rank")
