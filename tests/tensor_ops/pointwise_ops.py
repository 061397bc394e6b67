"""Elementwise operations: every named unary and binary op, math functions, element types, casts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ops import NUMPY, Op, random, text

Array = np.ndarray[Any, Any]
erf = np.vectorize(math.erf, otypes=["f8"])
ID = "affine_map<(i) -> (i)>"

UNARY = {
    "exp": np.exp,
    "log": np.log,
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "negf": np.negative,
    "reciprocal": np.reciprocal,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "square": np.square,
    "tanh": np.tanh,
    "erf": erf,
}
POSITIVE = {"log", "sqrt", "rsqrt"}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "powf": np.power,
}
MATH = {"sin": np.sin, "cos": np.cos, "log1p": np.log1p, "expm1": np.expm1, "atan": np.arctan, "exp2": np.exp2}


def unary(name: str) -> Op:
    """linalg.<name> on a vector of any length, in f32."""
    body = f"""
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.{name} ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>"""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = random(rng, (1009,))
        return (np.abs(x) + np.float32(0.01),) if name in POSITIVE else (x,)

    reference = lambda x: UNARY[name](x.astype("f8")).astype("f4")  # noqa: E731
    function = text(f"unary_{name}", "%x: tensor<?xf32>", "tensor<?xf32>", body, "%r")
    return Op("unary", f"unary_{name}", function, make, reference)


def binary(name: str, element: str = "f32") -> Op:
    """linalg.<name> on two matrices of any size."""
    kind = f"tensor<?x?x{element}>"
    function = f"binary_{name}" if element == "f32" else f"binary_{name}_{element}"
    body = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : {kind}
  %n = tensor.dim %x, %c1 : {kind}
  %e = tensor.empty(%m, %n) : {kind}
  %r = linalg.{name} ins(%x, %y : {kind}, {kind}) outs(%e : {kind}) -> {kind}"""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x, y = random(rng, (33, 65), element), random(rng, (33, 65), element)
        return (np.abs(x), y) if name == "powf" else (x, y)

    def reference(x: Array, y: Array) -> Array:
        wide = (x.astype("f8"), y.astype("f8")) if x.dtype.kind == "f" else (x, y)
        return np.asarray(BINARY[name](*wide)).astype(NUMPY[element])

    rtol = {"f16": 2e-3, "f64": 1e-12}.get(element, 1e-5)
    return Op("binary", function, text(function, f"%x: {kind}, %y: {kind}", kind, body, "%r"), make, reference, rtol)


def elementwise(name: str, element: str, result: str, block: str, make: Any, reference: Any, rtol: float = 1e-5) -> Op:
    """A linalg.generic over one vector; ``block`` computes %w from %v."""
    body = f"""
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x{element}>
  %e = tensor.empty(%n) : tensor<?x{result}>
  %r = linalg.generic {{indexing_maps = [{ID}, {ID}], iterator_types = ["parallel"]}}
      ins(%x : tensor<?x{element}>) outs(%e : tensor<?x{result}>) {{
  ^bb0(%v: {element}, %o: {result}):
    {block}
    linalg.yield %w : {result}
  }} -> tensor<?x{result}>"""
    function = text(name, f"%x: tensor<?x{element}>", f"tensor<?x{result}>", body, "%r")
    return Op("elements", name, function, make, reference, rtol)


def _math() -> list[Op]:
    positive = lambda rng: (np.abs(random(rng, (257,))),)  # noqa: E731
    return [
        elementwise(f"math_{name}", "f32", "f32", f"%w = math.{name} %v : f32", positive,
                    lambda x, f=function: f(x.astype("f8")).astype("f4"))
        for name, function in MATH.items()
    ]  # fmt: skip


def _types() -> list[Op]:
    import ml_dtypes

    half = lambda rng: (random(rng, (1000,), "f16"),)  # noqa: E731
    brain = lambda rng: (random(rng, (1000,)).astype(ml_dtypes.bfloat16),)  # noqa: E731
    integers = lambda rng: (random(rng, (1000,), "i32"),)  # noqa: E731
    return [
        elementwise("tanh_f16", "f16", "f16", "%w = math.tanh %v : f16", half,
                    lambda x: np.tanh(x.astype("f8")).astype("f2"), 2e-3),
        elementwise("exp_f64", "f64", "f64", "%w = math.exp %v : f64", lambda rng: (random(rng, (500,), "f64"),),
                    np.exp, 1e-13),
        elementwise("exp_bf16", "bf16", "bf16", "%w = math.exp %v : bf16", brain,
                    lambda x: np.exp(x.astype("f8")).astype(x.dtype), 1e-2),
        elementwise("half_to_single", "f16", "f32", "%w = arith.extf %v : f16 to f32", half,
                    lambda x: x.astype("f4"), 0),
        elementwise("single_to_brain", "f32", "bf16", "%w = arith.truncf %v : f32 to bf16",
                    lambda rng: (random(rng, (1000,)),), lambda x: x.astype(ml_dtypes.bfloat16), 0),
        elementwise("float_to_int", "f32", "i32", "%w = arith.fptosi %v : f32 to i32",
                    lambda rng: (100 * random(rng, (1000,)),), lambda x: x.astype("i4")),
        elementwise("int_to_float", "i64", "f64", "%w = arith.sitofp %v : i64 to f64",
                    lambda rng: (random(rng, (1000,), "i64"),), lambda x: x.astype("f8"), 0),
        elementwise("shift_and_mask", "i32", "i32",
                    "%k = arith.constant 3 : i32\n    %s = arith.shrsi %v, %k : i32\n    %w = arith.andi %s, %k : i32",
                    integers, lambda x: (x >> 3) & 3),
        elementwise("is_negative", "i32", "i1",
                    "%k = arith.constant 0 : i32\n    %w = arith.cmpi slt, %v, %k : i32", integers, lambda x: x < 0),
        elementwise("popcount", "i16", "i16", "%w = math.ctpop %v : i16", lambda rng: (random(rng, (1000,), "i16"),),
                    lambda x: np.array([bin(int(v) & 0xFFFF).count("1") for v in x], "i2")),
        elementwise("magnitude", "complex<f32>", "f32", "%w = complex.abs %v : complex<f32>",
                    lambda rng: ((random(rng, (100,)) + 1j * random(rng, (100,))).astype("c8"),), np.abs),
    ]  # fmt: skip


def _chains() -> list[Op]:
    chain = """
  %half = arith.constant dense<0.5> : tensor<64xf32>
  %a = arith.mulf %x, %half : tensor<64xf32>
  %b = arith.addf %a, %y : tensor<64xf32>
  %c = math.exp %b : tensor<64xf32>
  %d = arith.maximumf %c, %half : tensor<64xf32>
  %m = arith.cmpf ogt, %d, %y : tensor<64xf32>
  %r = arith.select %m, %d, %y : tensor<64xi1>, tensor<64xf32>"""

    def reference(x: Array, y: Array) -> Array:
        d = np.maximum(np.exp(x / 2 + y), np.float32(0.5))
        return np.where(d > y, d, y).astype("f4")

    arguments = "%x: tensor<64xf32>, %y: tensor<64xf32>"
    pair = lambda rng: (random(rng, (64,)), random(rng, (64,)))  # noqa: E731
    mapped = """
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.map ins(%x, %y : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>)
    (%a: f32, %b: f32, %o: f32) {
      %s = arith.subf %a, %b : f32
      %q = arith.mulf %s, %s : f32
      linalg.yield %q : f32
    }"""
    ternary = """
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.select ins(%m, %x, %y : tensor<64xi1>, tensor<64xf32>, tensor<64xf32>)
      outs(%e : tensor<64xf32>) -> tensor<64xf32>"""
    return [
        Op("elements", "arith_chain", text("arith_chain", arguments, "tensor<64xf32>", chain, "%r"), pair, reference),
        Op("elements", "mapped", text("mapped", arguments, "tensor<64xf32>", mapped, "%r"), pair,
           lambda x, y: (x - y) ** 2),
        Op("elements", "selected", text("selected", "%m: tensor<64xi1>, " + arguments, "tensor<64xf32>", ternary, "%r"),
           lambda rng: (random(rng, (64,), "i1"), *pair(rng)), lambda m, x, y: np.where(m, x, y)),
    ]  # fmt: skip


POINTWISE = [
    *(unary(name) for name in UNARY),
    *(binary(name) for name in BINARY),
    *(binary("add", element) for element in ("f16", "f64", "i8", "i16", "i32", "i64")),
    *_math(),
    *_types(),
    *_chains(),
]
