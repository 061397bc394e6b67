"""Tensor-level operations as functions: MLIR text, arguments, and NumPy's result.

In: nothing. Out: Op values, collected by ``ops_table``. An Op's text is one ``func.func`` whose
name is the Op's; the Ops of one family make one source.

>>> text("twice", "%x: tensor<4xf32>", "tensor<4xf32>", "%r = arith.addf %x, %x : tensor<4xf32>", "%r")[:15]
'func.func @twic'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Op:
    """One function and what it must give."""

    family: str
    """Name of the source it stands in."""
    name: str
    mlir: str
    make: Callable[[np.random.Generator], tuple[Any, ...]]
    results: Callable[..., Any]
    rtol: float = 1e-5
    atol: float = 1e-6


def text(name: str, arguments: str, results: str, body: str, returned: str) -> str:
    """A public function; ``body`` is indented as it is given."""
    head = f"func.func @{name}({arguments}) -> ({results}) {{"
    return f"{head}\n{body.strip(chr(10))}\n  return {returned} : {results}\n}}\n"


def named(op: str, inputs: list[tuple[str, str]], out: str, *, attributes: str = "", init: str = "0.0") -> str:
    """Body of a function that runs a linalg op on a filled output of static type ``out``: the value is ``%r``."""
    element = out.removesuffix(">").rsplit("x", 1)[-1] if "x" in out else out[7:-1]
    names = ", ".join(name for name, _ in inputs)
    types = ", ".join(kind for _, kind in inputs)
    return f"""
  %init = arith.constant {init} : {element}
  %empty = tensor.empty() : {out}
  %filled = linalg.fill ins(%init : {element}) outs(%empty : {out}) -> {out}
  %r = linalg.{op} {attributes} ins({names} : {types}) outs(%filled : {out}) -> {out}"""


def tensor(shape: tuple[int, ...], element: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + element + ">"


NUMPY = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "i1": "?"}


def random(rng: np.random.Generator, shape: tuple[int, ...], element: str = "f32") -> Array:
    """Normal floats, or integers that fit eight bits."""
    dtype = np.dtype(NUMPY[element])
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(-100, 100, shape).astype(dtype)


def static(
    family: str,
    name: str,
    op: str,
    shapes: list[tuple[int, ...]],
    out: tuple[int, ...],
    reference: Callable[..., Any],
    *,
    element: str = "f32",
    result: str | None = None,
    attributes: str = "",
    init: str | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> Op:
    """An Op that is one named op on static shapes with a filled output."""
    result = result or element
    inputs = [(f"%x{i}", tensor(shape, element)) for i, shape in enumerate(shapes)]
    zero = init or ("0.0" if result.startswith(("f", "b")) else "0")
    body = named(op, inputs, tensor(out, result), attributes=attributes, init=zero)
    arguments = ", ".join(f"{n}: {t}" for n, t in inputs)
    return Op(
        family,
        name,
        text(name, arguments, tensor(out, result), body, "%r"),
        lambda rng: tuple(random(rng, shape, element) for shape in shapes),
        reference,
        rtol,
        atol,
    )
