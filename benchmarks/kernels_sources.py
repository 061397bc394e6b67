"""The sources of memory-bound work in ``benchmarks/kernels.py``: by family and type, one function for each shape.

Every function takes a destination last; ``..._dyn`` has dynamic extents, the others have those in their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ROWS = {128: 262144, 768: 65536, 1000: 32768, 4096: 16384, 8192: 8192, 11008: 8192, 50257: 2048, 262144: 512}
"""Rows for each number of columns."""
SOFTMAX = (128, 1000, 4096, 8192, 50257, 262144)
NORM = (768, 4096, 8192, 11008)
SUMS = ((32768, 4096), (4096, 4096), (65536, 1000))
POINTWISE = (16384, 8192)
TRANSPOSE = (8192, 8192)
HEADS = (8, 4096, 16, 128)
ARGMAX = (1000, 4096, 50257)
TYPES = ("f32", "f16", "bf16")
_MAPS = """#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>
#vec = affine_map<(i) -> (i)>
"""
_PARALLEL = 'iterator_types = ["parallel", "parallel"]'
_REDUCE = 'iterator_types = ["parallel", "reduction"]'


@dataclass(frozen=True)
class Shape:
    """Extents of a function, and how it is called."""

    name: str
    rows: int | None = None
    columns: int | None = None

    def full(self, kind: str) -> str:
        return f"tensor<{self._text(self.rows)}x{self._text(self.columns)}x{kind}>"

    def row(self, kind: str) -> str:
        return f"tensor<{self._text(self.rows)}x{kind}>"

    def column(self, kind: str) -> str:
        return f"tensor<{self._text(self.columns)}x{kind}>"

    @staticmethod
    def _text(extent: int | None) -> str:
        return "?" if extent is None else str(extent)


def shapes(columns: tuple[int, ...]) -> list[Shape]:
    """A static shape for each number of columns, and the dynamic one."""
    return [*(Shape(f"n{n}", ROWS[n], n) for n in columns), Shape("dyn")]


def _wide(kind: str, value: str, name: str) -> tuple[str, str]:
    """Lines that make an f32 of a value, and its name."""
    return ("", value) if kind == "f32" else (f"    {name} = arith.extf {value} : {kind} to f32\n", name)


def _narrow(kind: str, value: str, name: str) -> tuple[str, str]:
    return ("", value) if kind == "f32" else (f"    {name} = arith.truncf {value} : f32 to {kind}\n", name)


def pointwise(
    name: str, kind: str, shape: Shape, inputs: int, body: str, out: str | None = None, *, column: bool = False
) -> str:
    """A function of arrays of one shape; the body computes ``%r`` from ``%a0``, ``%a1`` in f32."""
    out = out or kind
    types = [shape.column(kind) if column and n == 1 else shape.full(kind) for n in range(inputs)]
    arguments = ", ".join(f"%x{n}: {each}" for n, each in enumerate(types))
    maps = ", ".join(["#col" if column and n == 1 else "#full" for n in range(inputs)] + ["#full"])
    lines = "".join(_wide(kind, f"%b{n}", f"%a{n}")[0] for n in range(inputs))
    for n in range(inputs):
        body = body.replace(f"%a{n}", _wide(kind, f"%b{n}", f"%a{n}")[1])
    last, result = _narrow(out, "%r", "%q")
    return f"""func.func @{name}_{shape.name}({arguments}, %out: {shape.full(out)}) -> {shape.full(out)} {{
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %root = arith.constant 0.70710678118 : f32
  %y = linalg.generic {{indexing_maps = [{maps}], {_PARALLEL}}}
      ins({", ".join(f"%x{n}" for n in range(inputs))} : {", ".join(types)}) outs(%out : {shape.full(out)}) {{
  ^bb0({", ".join(f"%b{n}: {kind}" for n in range(inputs))}, %o: {out}):
{lines}{body}{last}    linalg.yield {result} : {out}
  }} -> {shape.full(out)}
  return %y : {shape.full(out)}
}}
"""


_ADD = "    %r = arith.addf %a0, %a1 : f32\n"
_RELU = "    %s = arith.addf %a0, %a1 : f32\n    %r = arith.maximumf %s, %zero : f32\n"
GELU = """    %s = arith.addf %a0, %a1 : f32
    %t = arith.mulf %s, %root : f32
    %u = math.erf %t : f32
    %v = arith.addf %u, %one : f32
    %w = arith.mulf %s, %v : f32
    %r = arith.mulf %w, %half : f32
"""
SILU = """    %n = arith.negf %a0 : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %s = arith.divf %a0, %d : f32
    %r = arith.mulf %s, %a1 : f32
"""


def softmax(kind: str, shape: Shape) -> str:
    """exp(x - max) / sum, in f32."""
    full, row = shape.full(kind), shape.row("f32")
    wide, x = _wide(kind, "%v", "%w")
    last, result = _narrow(kind, "%r", "%q")
    return f"""func.func @softmax_{shape.name}(%x: {full}, %out: {full}) -> {full} {{
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
{_empty(shape)}  %f = linalg.fill ins(%low : f32) outs(%e : {row}) -> {row}
  %g = linalg.fill ins(%zero : f32) outs(%e : {row}) -> {row}
  %m = linalg.generic {{indexing_maps = [#full, #row], {_REDUCE}}} ins(%x : {full}) outs(%f : {row}) {{
  ^bb0(%v: {kind}, %a: f32):
{wide}    %r = arith.maximumf {x}, %a : f32
    linalg.yield %r : f32
  }} -> {row}
  %s = linalg.generic {{indexing_maps = [#full, #row, #row], {_REDUCE}}} ins(%x, %m : {full}, {row}) outs(%g : {row}) {{
  ^bb0(%v: {kind}, %b: f32, %a: f32):
{wide}    %d = arith.subf {x}, %b : f32
    %t = math.exp %d : f32
    %r = arith.addf %t, %a : f32
    linalg.yield %r : f32
  }} -> {row}
  %y = linalg.generic {{indexing_maps = [#full, #row, #row, #full], {_PARALLEL}}}
      ins(%x, %m, %s : {full}, {row}, {row}) outs(%out : {full}) {{
  ^bb0(%v: {kind}, %b: f32, %c: f32, %o: {kind}):
{wide}    %d = arith.subf {x}, %b : f32
    %t = math.exp %d : f32
    %r = arith.divf %t, %c : f32
{last}    linalg.yield {result} : {kind}
  }} -> {full}
  return %y : {full}
}}
"""


def _empty(shape: Shape) -> str:
    """``%e``: a tensor with a number for each row. ``KIND`` stands for the type of ``%x``, until it is written."""
    row = shape.row("f32")
    if shape.rows is not None:
        return f"  %e = tensor.empty() : {row}\n"
    return f"  %rows = tensor.dim %x, %c0 : KIND\n  %e = tensor.empty(%rows) : {row}\n"


def norm(name: str, kind: str, shape: Shape) -> str:
    """Layer normalisation, or by the root of the mean square alone, with weights, in f32."""
    full, row, column = shape.full(kind), shape.row("f32"), shape.column(kind)
    layer = name == "layernorm"
    wide, x = _wide(kind, "%v", "%w")
    scale, g = _wide(kind, "%h", "%hw")
    move, p = _wide(kind, "%k", "%kw")
    last, result = _narrow(kind, "%r", "%q")
    center = f"    %mu = arith.mulf %b, %rn : f32\n    %d = arith.subf {x}, %mu : f32\n" if layer else ""
    value = "%d" if layer else x
    mean = f"""  %t = linalg.generic {{indexing_maps = [#full, #row], {_REDUCE}}} ins(%x : {full}) outs(%f : {row}) {{
  ^bb0(%v: {kind}, %a: f32):
{wide}    %r = arith.addf {x}, %a : f32
    linalg.yield %r : f32
  }} -> {row}
"""
    more, more_types, more_map = (", %t", f", {row}", ", #row") if layer else ("", "", "")
    argument = ", %b: f32" if layer else ""
    beta, beta_type, beta_map, beta_argument = (
        (", %beta", f", {column}", ", #col", f", %k: {kind}") if layer else ("", "", "", "")
    )
    parameter = f", %beta: {column}" if layer else ""
    finish = f"    %z = arith.mulf %u, {g} : f32\n" + (f"{move}    %r = arith.addf %z, {p} : f32\n" if layer else "")
    finish = finish if layer else finish.replace("%z", "%r")
    return f"""func.func @{name}_{shape.name}(%x: {full}, %gamma: {column}{parameter}, %out: {full}) -> {full} {{
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : {full}
  %ni = arith.index_cast %n : index to i32
  %nf = arith.sitofp %ni : i32 to f32
  %rn = arith.divf %one, %nf : f32
{_empty(shape)}  %f = linalg.fill ins(%zero : f32) outs(%e : {row}) -> {row}
{mean if layer else ""}  %s = linalg.generic {{indexing_maps = [#full{more_map}, #row], {_REDUCE}}}
      ins(%x{more} : {full}{more_types}) outs(%f : {row}) {{
  ^bb0(%v: {kind}{argument}, %a: f32):
{wide}{center}    %sq = arith.mulf {value}, {value} : f32
    %r = arith.addf %sq, %a : f32
    linalg.yield %r : f32
  }} -> {row}
  %y = linalg.generic {{indexing_maps = [#full{more_map}, #row, #col{beta_map}, #full], {_PARALLEL}}}
      ins(%x{more}, %s, %gamma{beta} : {full}{more_types}, {row}, {column}{beta_type}) outs(%out : {full}) {{
  ^bb0(%v: {kind}{argument}, %c: f32, %h: {kind}{beta_argument}, %o: {kind}):
{wide}{center}    %ms = arith.mulf %c, %rn : f32
    %me = arith.addf %ms, %eps : f32
    %rs = math.rsqrt %me : f32
    %u = arith.mulf {value}, %rs : f32
{scale}{finish}{last}    linalg.yield {result} : {kind}
  }} -> {full}
  return %y : {full}
}}
"""


def total(kind: str, shape: Shape, dimensions: str) -> str:
    """A sum over one dimension or both, of the type of the elements."""
    full = shape.full(kind)
    name, out = {
        "1": ("rows", shape.row(kind)),
        "0": ("columns", shape.column(kind)),
        "0, 1": ("all", f"tensor<{kind}>"),
    }[dimensions]
    return f"""func.func @sum_{name}_{shape.name}(%x: {full}, %out: {out}) -> {out} {{
  %zero = arith.constant 0.0 : {kind}
  %f = linalg.fill ins(%zero : {kind}) outs(%out : {out}) -> {out}
  %y = linalg.reduce {{ arith.addf }} ins(%x : {full}) outs(%f : {out}) dimensions = [{dimensions}]
  return %y : {out}
}}
"""


def argmax(kind: str, shape: Shape) -> str:
    """The first place of the largest element of each row."""
    full, row, places = shape.full(kind), shape.row(kind), shape.row("i64")
    low = {"f32": "0xFF800000", "f16": "0xFC00", "bf16": "0xFF80"}[kind]
    return f"""func.func @argmax_{shape.name}(%x: {full}, %out: {places}) -> {places} {{
  %low = arith.constant {low} : {kind}
  %none = arith.constant 0 : i64
  %c0 = arith.constant 0 : index
{_empty(shape).replace(shape.row("f32"), row)}  %f = linalg.fill ins(%low : {kind}) outs(%e : {row}) -> {row}
  %g = linalg.fill ins(%none : i64) outs(%out : {places}) -> {places}
  %m, %y = linalg.generic {{indexing_maps = [#full, #row, #row], {_REDUCE}}}
      ins(%x : {full}) outs(%f, %g : {row}, {places}) {{
  ^bb0(%v: {kind}, %a: {kind}, %b: i64):
    %i = linalg.index 1 : index
    %p = arith.index_cast %i : index to i64
    %c = arith.cmpf ogt, %v, %a : {kind}
    %r = arith.select %c, %v, %a : {kind}
    %q = arith.select %c, %p, %b : i64
    linalg.yield %r, %q : {kind}, i64
  }} -> ({row}, {places})
  return %y : {places}
}}
"""


def transpose(kind: str, shape: Shape) -> str:
    """Rows become columns."""
    turned = Shape("", shape.columns, shape.rows).full(kind)
    return f"""func.func @transpose_{shape.name}(%x: {shape.full(kind)}, %out: {turned}) -> {turned} {{
  %y = linalg.transpose ins(%x : {shape.full(kind)}) outs(%out : {turned}) permutation = [1, 0]
  return %y : {turned}
}}
"""


def heads(kind: str, static: bool) -> str:
    """The two dimensions in the middle change places."""
    b, s, h, d = HEADS if static else ("?", "?", "?", HEADS[3])
    x, y = f"tensor<{b}x{s}x{h}x{d}x{kind}>", f"tensor<{b}x{h}x{s}x{d}x{kind}>"
    return f"""func.func @heads_{"static" if static else "dyn"}(%x: {x}, %out: {y}) -> {y} {{
  %y = linalg.transpose ins(%x : {x}) outs(%out : {y}) permutation = [0, 2, 1, 3]
  return %y : {y}
}}
"""


def sources() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for name, functions in _sources():
        kind = name.rsplit("_", 1)[1]
        yield name, _MAPS + "\n" + "\n".join(functions).replace("KIND", f"tensor<?x?x{kind}>")


def _sources() -> Iterator[tuple[str, list[str]]]:
    plain = [Shape(f"n{POINTWISE[1]}", *POINTWISE), Shape("dyn")]
    for kind in TYPES:
        yield (
            f"pointwise_{kind}",
            [
                text
                for shape in plain
                for text in (
                    pointwise("add", kind, shape, 2, _ADD),
                    pointwise("add_relu", kind, shape, 2, _RELU),
                    pointwise("bias_gelu", kind, shape, 2, GELU, column=True),
                    pointwise("silu_mul", kind, shape, 2, SILU),
                    *(
                        [pointwise("cast", kind, shape, 1, "    %r = arith.mulf %a0, %one : f32\n", "bf16")]
                        * (kind == "f32")
                    ),
                )
            ],
        )
        yield f"softmax_{kind}", [softmax(kind, shape) for shape in shapes(SOFTMAX)]
        yield f"layernorm_{kind}", [norm("layernorm", kind, shape) for shape in shapes(NORM)]
        yield f"rmsnorm_{kind}", [norm("rmsnorm", kind, shape) for shape in shapes(NORM)]
        sums = [*(Shape(f"m{m}_n{n}", m, n) for m, n in SUMS), Shape("dyn")]
        yield f"sums_{kind}", [total(kind, shape, each) for shape in sums for each in ("1", "0", "0, 1")]
        yield f"argmax_{kind}", [argmax(kind, shape) for shape in shapes(ARGMAX)]
        turns = [Shape(f"n{TRANSPOSE[1]}", *TRANSPOSE), Shape("dyn")]
        yield (
            f"transposes_{kind}",
            [transpose(kind, shape) for shape in turns] + [heads(kind, s) for s in (True, False)],
        )
