"""What is expected: from a Python file, or from arrays that were saved before.

``FILE.py`` defines functions named as the package's, ``def softmax(x): ...``, or ``softmax__softmax`` where two sources
have functions of one name. They get copies of the arguments as numpy arrays and numbers, and return what the function
returns; arguments that the function writes they write, too, or return. A table ``DIMS`` gives extents and a table
``RANGES`` values that a function needs: ``DIMS = {"reverse_tiles": "x.0=1024,out.0=1024"}``.

``FILE.npz`` holds arguments and results: ``softmax.x``, ``softmax.result`` (``softmax.result.1`` for the second one),
and ``smooth.out.after`` for an argument that is written.

>>> load("references.py").has(signature)                                         # doctest: +SKIP
True
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import UsageError
from aot.verifying.signature import Signature


@dataclass(frozen=True)
class Expected:
    """What one call should give."""

    results: tuple[Any, ...] | None
    """None: only what is written into arguments is compared."""
    arguments: tuple[Any, ...]
    """The arguments afterwards."""


@dataclass(frozen=True)
class PythonFile:
    """Functions of a user's file."""

    path: str
    functions: Mapping[str, Callable[..., Any]]
    dims: Mapping[str, str]
    ranges: Mapping[str, str]

    def has(self, signature: Signature) -> bool:
        return self._function(signature) is not None

    def arguments(self, signature: Signature) -> tuple[Any, ...] | None:
        """Saved arguments; a Python file has none."""
        return None

    def dims_of(self, signature: Signature) -> str:
        return _of(self.dims, signature) or ""

    def ranges_of(self, signature: Signature) -> str:
        return _of(self.ranges, signature) or ""

    def expected(self, signature: Signature, arguments: Sequence[Any]) -> Expected:
        """Calls the reference on copies."""
        function = self._function(signature)
        assert function is not None
        copies = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)
        try:
            with np.errstate(all="ignore"):
                got = function(*copies)
        except Exception as error:
            said = "".join(traceback.format_exception_only(error)).strip()
            raise UsageError(
                f"{self.path}: the reference of {signature.full_name} failed: {said} ({_place(function, error)})"
            ) from error
        return Expected(_results(signature, got, copies), copies)

    def _function(self, signature: Signature) -> Callable[..., Any] | None:
        function: Callable[..., Any] | None = _of(self.functions, signature)
        return function


@dataclass(frozen=True)
class ArrayFile:
    """Saved arguments and results."""

    path: str
    arrays: Mapping[str, Any]

    def has(self, signature: Signature) -> bool:
        return any(name.startswith(f"{self._prefix(signature)}.") for name in self.arrays)

    def dims_of(self, signature: Signature) -> str:
        return ""

    def ranges_of(self, signature: Signature) -> str:
        return ""

    def arguments(self, signature: Signature) -> tuple[Any, ...]:
        """The saved arguments; UsageError when one is missing."""
        prefix = self._prefix(signature)
        missing = [p.name for p in signature.parameters if f"{prefix}.{p.name}" not in self.arrays]
        if missing:
            raise UsageError(f"{self.path}: '{prefix}.{missing[0]}', an argument, is not in the file")
        found = (self.arrays[f"{prefix}.{each.name}"] for each in signature.parameters)
        return tuple(
            array if parameter.shape is not None else array.item()
            for parameter, array in zip(signature.parameters, found, strict=True)
        )

    def expected(self, signature: Signature, arguments: Sequence[Any]) -> Expected:
        """The saved results."""
        prefix = self._prefix(signature)
        names = [f"{prefix}.result" if not n else f"{prefix}.result.{n}" for n in range(len(signature.results))]
        results = tuple(self.arrays[name] for name in names if name in self.arrays)
        after = tuple(
            self.arrays.get(f"{prefix}.{parameter.name}.after", argument)
            for parameter, argument in zip(signature.parameters, arguments, strict=True)
        )
        if len(results) != len(names):
            missing = next(name for name in names if name not in self.arrays)
            raise UsageError(f"{self.path}: '{missing}' is not in the file")
        return Expected(results or None, after)

    def _prefix(self, signature: Signature) -> str:
        long = f"{signature.source}__{signature.name}"
        return long if any(name.startswith(f"{long}.") for name in self.arrays) else signature.name


Reference = PythonFile | ArrayFile


def load(path: str) -> Reference:
    """Reads a file; UsageError when it is none."""
    if not Path(path).is_file():
        raise UsageError(f"--against: '{path}' does not exist", hint="name a .py or .npz file, or host")
    if path.endswith(".npz"):
        try:
            with np.load(path, allow_pickle=False) as saved:
                return ArrayFile(path, {name: saved[name] for name in saved.files})
        except (ValueError, OSError) as error:
            raise UsageError(f"--against: '{path}' cannot be read: {error}") from error
    if not path.endswith(".py"):
        raise UsageError(f"--against: '{path}' is neither a .py nor a .npz file")
    return _python(path)


def _python(path: str) -> PythonFile:
    spec = importlib.util.spec_from_file_location("aot_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        said = "".join(traceback.format_exception_only(error)).strip()
        raise UsageError(f"--against: '{path}' cannot be run: {said}") from error
    functions = {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
    dims, ranges = (_table(path, name, getattr(module, name, {}), functions) for name in ("DIMS", "RANGES"))
    return PythonFile(path, functions, dims, ranges)


def _table(path: str, name: str, table: object, functions: Iterable[str]) -> Mapping[str, str]:
    """``DIMS`` or ``RANGES``; UsageError when it is no table of texts, or names a function that the file has not."""
    if not isinstance(table, dict) or not all(isinstance(text, str) for pair in table.items() for text in pair):
        raise UsageError(f"--against: '{path}': {name} is a table of texts by the names of functions")
    for key in table:
        if not {key, key.replace(".", "__"), key.split(".")[-1], key.split("__")[-1]} & set(functions):
            raise UsageError(f"--against: '{path}': {name} names '{key}', and the file has no function of this name")
    return table


def _place(function: Callable[..., Any], error: Exception) -> str:
    """The last line of the function's file that ran; where the function stands when it could not even be called."""
    code = getattr(function, "__code__", None)
    if code is None:
        return str(function)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == code.co_filename]
    return f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}"


def _of(table: Mapping[str, Any], signature: Signature) -> Any:
    long = f"{signature.source}__{signature.name}"
    return table.get(long, table.get(signature.full_name, table.get(signature.name)))


def _results(signature: Signature, got: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """As many as the function has; what is returned for a written argument may be in that argument instead."""
    if got is None:
        from_arguments = [arguments[n] for n in signature.results if n is not None]
        return tuple(from_arguments) if len(from_arguments) == len(signature.results) else None
    results = got if isinstance(got, tuple) else (got,)
    if signature.results and len(results) != len(signature.results):
        raise UsageError(
            f"the reference of {signature.full_name} returns {len(results)} results, the function has "
            f"{len(signature.results)}"
        )
    return results
