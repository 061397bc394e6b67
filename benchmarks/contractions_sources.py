"""The sources of contractions in ``benchmarks/kernels.py``: one for each product, with one function ``f``.

>>> Product("matmul", "f16", "f16", (1024, 1024, 1024)).source
'contractions_matmul_f16_1024x1024x1024'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import kernels_sources

Sizes = tuple[int, int, int]

SQUARES: tuple[Sizes, ...] = tuple((size, size, size) for size in (1024, 2048, 4096, 8192))
LARGE: Sizes = (4096, 4096, 4096)
FFN: Sizes = (4096, 11008, 4096)
FEW_ROWS: tuple[Sizes, ...] = tuple((m, n, 4096) for m in (1, 16, 128) for n in (4096, 14336))
ODD: tuple[Sizes, ...] = ((4095, 8200, 4104), (1000, 1000, 1000))
ODD_PITCHES: tuple[Sizes, ...] = ((4095, 8201, 4101), (1001, 999, 1003))
"""Rows that are no multiples of 16 bytes."""
SIZES = (*SQUARES, FFN, *FEW_ROWS, *ODD, *ODD_PITCHES)
BATCHED: Sizes = (512, 512, 64)
BATCH = 64
IMAGE = (32, 56, 56, 64)
"""Images, rows, columns and channels of a convolution."""
FILTER, FILTERS = 3, 64
HALVES = ("f16", "bf16")
SHORT = ((64, 4096, 4096), (4096, 4096, 4096), (8192, 8192, 8192))
"""Of one-byte elements; PyTorch wants more than 16 rows of them."""
_MAPS = {"kn": "(m, n, k) -> (k, n)", "nk": "(m, n, k) -> (n, k)"}
_NAMES = {"f8": "f8E4M3FN"}


@dataclass(frozen=True)
class Product:
    """``out[m, n] = epilogue(sum over k of left[m, k] * right[k, n])``."""

    name: str
    kind: str
    """Type of the factors."""
    out: str
    sizes: Sizes | None
    """m, n, k; None: dynamic. Of a convolution only whether they are known counts: see ``IMAGE``."""
    right: str = "kn"
    """Order of the right factor's dimensions."""
    epilogue: str = ""
    """``bias_gelu`` or ``silu_gate``, whose operand comes after the factors."""
    batch: int | None = None
    """Loops around the product; of a dynamic one the number does not count."""

    @property
    def source(self) -> str:
        """Name of its source."""
        suffix = "dyn" if self.sizes is None else "x".join(map(str, self.sizes))
        return f"contractions_{self.name}_{self.kind}_{suffix}"

    @property
    def sums(self) -> str:
        """Type that it adds up in."""
        return "i32" if self.kind == "i8" else "f32"

    def text(self) -> str:
        """The source."""
        return _convolution(self) if self.name == "conv" else _product(self)


def products() -> Iterator[Product]:
    """All static ones."""
    for kind in HALVES:
        for sizes in SIZES:
            yield Product("matmul", kind, kind, sizes)
            yield Product("matmul_f32", kind, "f32", sizes)
        for sizes in (SQUARES[0], LARGE, *FEW_ROWS):
            yield Product("weights_nk", kind, kind, sizes, "nk")
        for epilogue in ("bias_gelu", "silu_gate"):
            for sizes in (LARGE, FFN):
                yield Product(epilogue, kind, kind, sizes, epilogue=epilogue)
        yield Product("batched", kind, kind, BATCHED, batch=BATCH)
        yield Product("conv", kind, kind, (IMAGE[0] * IMAGE[1] * IMAGE[2], FILTERS, FILTER * FILTER * IMAGE[3]))
    yield Product("matmul", "f32", "f32", LARGE)
    for sizes in SHORT:
        yield Product("matmul", "i8", "i32", sizes)
        yield Product("weights_nk", "i8", "i32", sizes, "nk")
        yield Product("weights_nk", "f8", "bf16", sizes, "nk")


def dynamic(product: Product) -> Product:
    """The same with dynamic extents."""
    return replace(product, sizes=None)


def sources() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for each in dict.fromkeys(found for product in products() for found in (product, dynamic(product))):
        yield each.source, each.text()


def _product(product: Product) -> str:
    batch = [str(product.batch) if product.sizes else "?"] if product.batch else []
    m, n, k = (str(each) for each in product.sizes or ("?", "?", "?"))
    kind, sums = _NAMES.get(product.kind, product.kind), product.sums
    left, out, total = (_tensor([*batch, *each]) for each in ((m, k, kind), (m, n, product.out), (m, n, sums)))
    right = _tensor([*batch, *((n, k) if product.right == "nk" else (k, n)), kind])
    extra = {"bias_gelu": _tensor([n, product.out]), "silu_gate": out}.get(product.epilogue)
    arguments = ", ".join(
        f"%{name}: {each}" for name, each in (("a", left), ("b", right), ("x", extra), ("out", out)) if each
    )
    head = f"func.func @f({arguments}) -> {out} {{\n{_constants(sums)}"
    inner = len(batch)
    axes = [("a", left, 0)] * inner + [("a", left, inner), ("b", right, inner + (product.right == "kn"))]
    sizes = _sizes(axes) if product.sizes is None else ("", "")
    if product.out == sums and not product.epilogue:
        lines = f"  %start = linalg.fill ins(%zero : {sums}) outs(%out : {total}) -> {total}\n"
        return f"{head}{lines}{_sum(product, left, right, total)}  return %p : {total}\n}}\n"
    lines = f"{sizes[0]}  %empty = tensor.empty({sizes[1]}) : {total}\n"
    lines += f"  %start = linalg.fill ins(%zero : {sums}) outs(%empty : {total}) -> {total}\n"
    return f"{head}{lines}{_sum(product, left, right, total)}{_epilogue(product, total, extra, out)}"


def _tensor(parts: list[str]) -> str:
    return f"tensor<{'x'.join(parts)}>"


def _constants(sums: str) -> str:
    numbers = (("one", "1.0"), ("half", "0.5"), ("root", "0.70710678118"))
    lines = [f"  %zero = arith.constant {'0' if sums == 'i32' else '0.0'} : {sums}"]
    lines += [f"  %{name} = arith.constant {number} : f32" for name, number in numbers]
    lines += [f"  %c{number} = arith.constant {number} : index" for number in range(3)]
    return "\n".join(lines) + "\n"


def _sizes(axes: list[tuple[str, str, int]]) -> tuple[str, str]:
    """Lines that read extents of arguments, and the list of them."""
    lines = "".join(f"  %d{n} = tensor.dim %{name}, %c{axis} : {kind}\n" for n, (name, kind, axis) in enumerate(axes))
    return lines, ", ".join(f"%d{n}" for n in range(len(axes)))


def _sum(product: Product, left: str, right: str, total: str) -> str:
    operands = f"ins(%a, %b : {left}, {right}) outs(%start : {total})"
    if product.right == "kn":
        return f"  %p = linalg.{'batch_' * bool(product.batch)}matmul {operands} -> {total}\n"
    kind, sums = _NAMES.get(product.kind, product.kind), product.sums
    wide, multiply, add = ("extsi", "muli", "addi") if sums == "i32" else ("extf", "mulf", "addf")
    return f"""  %p = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}} {operands} {{
  ^bb0(%l: {kind}, %r: {kind}, %s: {sums}):
    %lw = arith.{wide} %l : {kind} to {sums}
    %rw = arith.{wide} %r : {kind} to {sums}
    %q = arith.{multiply} %lw, %rw : {sums}
    %t = arith.{add} %s, %q : {sums}
    linalg.yield %t : {sums}
  }} -> {total}
"""


def _epilogue(product: Product, total: str, extra: str | None, out: str) -> str:
    """From the sums to the result, and the end of the function."""
    rank = total.count("x")
    loops = ", ".join(f"d{number}" for number in range(rank))
    own = f"affine_map<({loops}) -> ({loops})>"
    maps = {"": [own], "bias_gelu": [own, f"affine_map<({loops}) -> (d{rank - 1})>"], "silu_gate": [own, own]}
    body = {"": "", "bias_gelu": kernels_sources.GELU, "silu_gate": kernels_sources.SILU}[product.epilogue]
    body = body.replace("%a1", "%wide").replace("%a0", "%sum")
    widened = f"    %wide = arith.extf %operand : {product.out} to f32\n" if extra else ""
    return f"""  %y = linalg.generic {{indexing_maps = [{", ".join([*maps[product.epilogue], own])}],
      iterator_types = [{", ".join(['"parallel"'] * rank)}]}}
      ins(%p{", %x" if extra else ""} : {total}{f", {extra}" if extra else ""}) outs(%out : {out}) {{
  ^bb0(%sum: f32{f", %operand: {product.out}" if extra else ""}, %old: {product.out}):
{widened}{body}    %narrow = arith.truncf {"%r" if product.epilogue else "%sum"} : f32 to {product.out}
    linalg.yield %narrow : {product.out}
  }} -> {out}
  return %y : {out}
}}
"""


def _convolution(product: Product) -> str:
    """A square filter over images with channels last, which keeps to their inside."""
    images, rows, columns, channels = (str(each) for each in IMAGE)
    edge = FILTER - 1
    shape, result = [images, rows, columns], [images, str(IMAGE[1] - edge), str(IMAGE[2] - edge)]
    if product.sizes is None:
        shape = result = ["?"] * 3
    kind = product.kind
    left, right = _tensor([*shape, channels, kind]), f"tensor<{FILTER}x{FILTER}x{channels}x{FILTERS}x{kind}>"
    total, out = (_tensor([*result, str(FILTERS), each]) for each in (product.sums, product.out))
    lines, sizes = "", ""
    if product.sizes is None:
        lines, _ = _sizes([("a", left, axis) for axis in range(3)])
        lines += f"  %edge = arith.constant {edge} : index\n"
        lines += "".join(f"  %i{number} = arith.subi %d{number}, %edge : index\n" for number in (1, 2))
        sizes = "%d0, %i1, %i2"
    return f"""func.func @f(%a: {left}, %b: {right}, %out: {out}) -> {out} {{
{_constants(product.sums)}{lines}  %empty = tensor.empty({sizes}) : {total}
  %start = linalg.fill ins(%zero : {product.sums}) outs(%empty : {total}) -> {total}
  %p = linalg.conv_2d_nhwc_hwcf {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%a, %b : {left}, {right}) outs(%start : {total}) -> {total}
{_epilogue(product, total, None, out)}"""
