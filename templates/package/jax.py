"""The package's functions for ``jax.jit``: import it when needed.

``PACKAGE.jax.softmax.forward(x)`` computes what ``PACKAGE.softmax.forward(x)`` does, as a foreign function of XLA, on GPUs and
on the CPU, inside of ``jax.jit`` and outside. JAX's arrays do not change, so an argument that the function writes (a destination,
a memref) is not: its new contents are a result. The results are those of the function; memrefs that are not among them follow,
in order. Numbers that go in are part of the program, so they must be known when it is traced.

XLA must know the shapes of results before the call. Where only the call knows them, ``shapes=`` says what they will be: a tuple
with one shape per new array (None where the package can tell).
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np

from ._shapes import Shapes, is_fresh, is_integer

_NAME = __name__.rpartition(".")[0]
_TARGET = f"{_NAME}.call"
_DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "index": "int64", "i1": "bool",
    "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
}


def _dtype(mlir: str) -> Any:
    """Integers of odd widths lie in the next whole number of bytes."""
    name = _DTYPES.get(mlir)
    if name is None and is_integer(mlir):
        width = next(size for size in (8, 16, 32, 64) if size >= int(mlir.lstrip("sui")))
        name = f"{'u' if mlir.startswith('u') else ''}int{width}"
    if name is None:
        raise TypeError(f"JAX has no element type for {mlir}")
    dtype = np.dtype(getattr(jax.numpy, name))
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"{mlir} needs 64-bit numbers in JAX: jax.config.update('jax_enable_x64', True)")
    return dtype


class _Target:
    """One function as a foreign function."""

    def __init__(self, number: int, function: dict[str, Any]) -> None:
        self.number, self.function, self.shapes = number, function, Shapes(function)
        self.args = function["args"]
        self.written = [i for i, each in enumerate(self.args) if each["role"] in ("destination", "ref")]
        self.arrays = [i for i, each in enumerate(self.args) if each["kind"] != "scalar"]

    def __call__(self, *arguments: Any, shapes: Sequence[Any] | None = None, **named: Any) -> Any:
        values = self._bound(arguments, named)
        for i in self.arrays:
            values[i] = self._array(i, values[i])
        numbers = self._numbers(values)
        outputs = self._new_arrays(values, shapes) + [jax.ShapeDtypeStruct(values[i].shape, values[i].dtype) for i in self.written]
        first = len(outputs) - len(self.written)
        aliases = {self.arrays.index(i): first + place for place, i in enumerate(self.written)}
        call = jax.ffi.ffi_call(_TARGET, outputs, vmap_method="sequential", input_output_aliases=aliases)
        got = list(call(*(values[i] for i in self.arrays), function=np.int64(self.number), **numbers))
        return self._results(values, got, first)

    def _bound(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Arguments in order, by position or by name."""
        names = [each["name"] for each in self.args]
        unknown = [name for name in named if name not in names[len(arguments) :]]
        missing = [name for name in names[len(arguments) :] if name not in named]
        if unknown or missing or len(arguments) > len(names):
            wrong = f"no argument '{unknown[0]}'" if unknown else f"missing '{missing[0]}'" if missing else f"got {len(arguments)}"
            raise TypeError(f"{self.function['name']}({', '.join(names)}): {wrong}")
        return [*arguments, *(named[name] for name in names[len(arguments) :])]

    def _wrong(self, index: int, got: str) -> str:
        spec = self.args[index]
        return f"{self.function['name']}() argument '{spec['name']}': expected {spec['type']}, got {got}"

    def _array(self, index: int, given: Any) -> Any:
        spec = self.args[index]
        try:
            value = jax.numpy.asarray(given)
        except (TypeError, ValueError) as error:
            raise TypeError(self._wrong(index, f"{type(given).__name__}: an array is needed")) from error
        dtype = _dtype(spec["dtype"])
        unsigned = dtype.kind == "i" and spec["dtype"] != "index" and value.dtype == np.dtype(f"uint{8 * dtype.itemsize}")
        if value.dtype != dtype and not unsigned:
            raise TypeError(self._wrong(index, f"{value.dtype}: another element type"))
        return value

    def _new_arrays(self, values: list[Any], given: Sequence[Any] | None) -> list[Any]:
        """Shapes and element types of the results that are no arguments."""
        known = self.shapes(values)
        wanted = list(given) if given is not None else [None] * len(known)
        if len(wanted) != len(known):
            raise TypeError(f"{self.function['name']}(): shapes= takes {len(known)}, got {len(wanted)}")
        chosen = iter([shape if own is None else tuple(own) for shape, own in zip(known, wanted)])
        made = []
        for spec in self.function["results"]:
            if spec["argument"] is not None:
                continue
            shape = next(chosen) if is_fresh(spec) else ()
            if None in shape:
                raise TypeError(f"{self.function['name']}(): only the call knows the shape of {spec['type']}: pass shapes=, a shape per new array")
            made.append(jax.ShapeDtypeStruct(tuple(int(each) for each in shape), _dtype(spec["dtype"])))
        return made

    def _numbers(self, values: list[Any]) -> dict[str, Any]:
        """Numbers that go in, as attributes of the call."""
        found = {}
        for i, spec in enumerate(self.args):
            if spec["kind"] != "scalar":
                continue
            if isinstance(values[i], jax.core.Tracer):
                raise TypeError(f"argument '{spec['name']}' ({spec['dtype']}) must be a number when the program is traced: see static_argnums of jax.jit")
            if spec["dtype"].startswith("complex"):
                raise TypeError(f"argument '{spec['name']}': complex numbers cannot be passed to XLA")
            found[f"n{i}"] = self._number(i, values[i])
        return found

    def _number(self, index: int, given: Any) -> Any:
        """As XLA takes it; that it is in its type's range is checked by the call."""
        dtype = self.args[index]["dtype"]
        whole = is_integer(dtype)
        truth = dtype == "i1" and isinstance(given, np.bool_)
        try:
            if not whole and isinstance(given, (str, bytes)):  # float() would read it
                raise TypeError
            return np.int64(operator.index(bool(given) if truth else given)) if whole else np.float64(float(given))
        except TypeError as error:
            raise TypeError(self._wrong(index, f"{type(given).__name__}: {'an int' if whole else 'a float'} is needed")) from error
        except OverflowError as error:
            raise OverflowError(self._wrong(index, "a number out of its range")) from error

    def _results(self, values: list[Any], got: list[Any], first: int) -> Any:
        """As the function has them, and then what else was written."""
        fresh, written = iter(got[:first]), dict(zip(self.written, got[first:]))
        results = []
        for spec in self.function["results"]:
            place = spec["argument"]
            results.append(next(fresh) if place is None else written.get(place, values[place]))
        returned = {spec["argument"] for spec in self.function["results"]}
        results += [array for place, array in written.items() if place not in returned]
        return None if not results else results[0] if len(results) == 1 else tuple(results)


def _callable(target: _Target, doc: str | None) -> Callable[..., Any]:
    def call(*arguments: Any, shapes: Sequence[Any] | None = None, **named: Any) -> Any:
        return target(*arguments, shapes=shapes, **named)

    call.__name__ = call.__qualname__ = target.function["name"]
    call.__doc__ = doc
    return call


def _register(package: ModuleType) -> dict[str, Any]:
    """The handlers, and all functions: by namespace, and those that the package has at top level."""
    extension = importlib.import_module(f"{_NAME}._{_NAME.rpartition('.')[2]}")
    for platform, handler in zip(("cpu", "CUDA"), extension._xla_handlers()):
        jax.ffi.register_ffi_target(_TARGET, handler, platform=platform, api_version=1)
    found: dict[str, Any] = {}
    made: dict[int, Any] = {}
    number = 0
    for module in package.__aot__["modules"]:
        namespace = getattr(package, module["name"])
        members = {}
        for function in module["functions"]:
            own = getattr(namespace, function["name"])
            members[function["name"]] = made[id(own)] = _callable(_Target(number, function), own.__doc__)
            number += 1
        found[module["name"]] = SimpleNamespace(**members)
    return {name: made[id(value)] for name, value in vars(package).items() if id(value) in made} | found


_functions = _register(importlib.import_module(_NAME))


def __getattr__(name: str) -> Any:
    try:
        return _functions[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(_functions)
