"""Contractions in ``benchmarks/kernels.py``: cases, bars, peers, and float64's word on results.

In: the products of ``contractions_sources.py``. Out: Cases with a static and the dynamic function each; awkward ones
with the dynamic function alone. ``contractions_sm80`` compares the same sources, built for ``compute_80`` alone, with
Triton's code for sm_80: no cubin for sm_80 runs on an H200, but the driver compiles PTX for it.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import contractions_sources as sources
import torch
from contractions_sources import Product
from kernels_case import EPSILON, Call, Case, Group, Shape, compiled

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
    "f8": torch.float8_e4m3fn,
    "i32": torch.int32,
}
KINDS = ("f16", "bf16", "f32", "i8", "f8")
AWKWARD = ((1, 8, 8), (7, 13, 17), (16, 24, 40), (65, 136, 72), (100, 1000, 333), (129, 264, 1032), (257, 520, 4104))
AWKWARD += ((16, 1000, 2056), (5, 4104, 1032), (16, 8456, 1048), (120, 4360, 1032))
AWKWARD_IMAGES = ((1, 3, 3), (2, 7, 30), (3, 17, 9))
"""Images, rows, columns."""
FEW, LARGE = 128, 2048
MOST, LEAST, ODD_PITCH = 0.95, 0.85, 1.5
"""Bars: of large products and few rows; of all others; of rows that are no multiples of 16 bytes."""
_ACCUMULATED = 2.0**-13
"""What sums in f32 may be off, relative to the root of the sum of squares: tensor cores cut products off."""


def large(family: str, kind: str) -> Iterator[Case]:
    """Every source at its sizes; for sm_80 those that ``_has_sm80`` leaves."""
    for product in sources.products():
        assert product.sizes is not None
        if product.kind == kind and (family == "contractions" or _has_sm80(product)):
            yield _case(family, product, product.sizes, IMAGE_SIZES, is_static=True)


def small(family: str, kind: str) -> Iterator[Case]:
    """None: a few rows are among those that it is judged by."""
    return iter(())


def awkward(family: str, kind: str) -> Iterator[Case]:
    """Sizes at the edges of what tiles can take."""
    for product in dict.fromkeys(map(sources.dynamic, sources.products())):
        if product.kind != kind:
            continue
        if product.name == "conv":
            for images in AWKWARD_IMAGES:
                yield _case(family, product, sources.BATCHED, images, is_static=False)
        else:
            for sizes in AWKWARD:
                yield _case(family, product, sizes, IMAGE_SIZES, is_static=False)


IMAGE_SIZES: Shape = sources.IMAGE[:3]


def _has_sm80(product: Product) -> bool:
    """Products of few rows, and what Triton's kernel cannot do, are left out for sm_80."""
    return product.name in ("matmul", "bias_gelu", "silu_gate") and product.kind in sources.HALVES


def _case(family: str, product: Product, sizes: sources.Sizes, images: Shape, *, is_static: bool) -> Case:
    m, n, k = sizes
    batch = (product.batch,) if product.batch else ()
    left, right, out = (m, k), (n, k) if product.right == "nk" else (k, n), (m, n)
    shape: Shape = (*batch, m, n, k)
    if product.name == "conv":
        count, rows, columns = images
        edge, channels = sources.FILTER - 1, sources.IMAGE[3]
        left, right = (*images, channels), (sources.FILTER, sources.FILTER, channels, sources.FILTERS)
        out = (count, rows - edge, columns - edge, sources.FILTERS)
        shape, k = left, sources.FILTER**2 * channels
    inputs = [(*batch, *left), (*batch, *right)]
    inputs += {"bias_gelu": [(n,)], "silu_gate": [out]}.get(product.epilogue, [])
    result = (*batch, *out)
    own, out_dtype = DTYPES[product.kind], DTYPES[product.out]
    eager = _eager(product)
    functions = {"static": f"{product.source}.f"} if is_static else {}
    return Case(
        *(family, product.name, product.kind, shape),
        functions | {"dynamic": f"{sources.dynamic(product).source}.f"},
        lambda device: _arrays(inputs, own, k, device),
        *(result, out_dtype),
        _peers(family, product, eager, out_dtype),
        lambda arrays, got: _wrong(product, k, arrays, got),
        own.itemsize * sum(map(math.prod, inputs)) + out_dtype.itemsize * math.prod(result),
        flops=2 * math.prod(result) * k,
        for_peers=_as_pytorch_has_them if product.name == "conv" else list,
        bar=_bar(family, product, sizes),
    )


def _bar(family: str, product: Product, sizes: sources.Sizes) -> float:
    if family == "contractions_sm80":
        return 1.0
    if product.name in ("conv", "batched") or product.kind == "f32":
        return LEAST
    if sizes in sources.ODD_PITCHES:
        return ODD_PITCH
    return MOST if min(sizes) >= LARGE or sizes[0] <= FEW else LEAST


def _arrays(shapes: list[Shape], own: torch.dtype, k: int, device: str) -> list[Any]:
    """New inputs; the right factor's elements are so small that results are near 1."""
    if own == torch.int8:
        return [torch.randint(-128, 128, shape, device=device, dtype=own) for shape in shapes]
    scales = [1.0, 1.0 if own == torch.float8_e4m3fn else k**-0.5, 1.0]
    return [
        (torch.randn(shape, device=device) * scale).to(own)
        for shape, scale in zip(shapes, scales[: len(shapes)], strict=True)
    ]


# ---------------------------------------------------------------- what else computes it


def _eager(product: Product) -> Call:
    """With cuBLAS and cuDNN."""
    turned = product.right == "nk"
    if product.name == "conv":
        return _convolution
    if product.kind == "i8":
        return lambda a, b: torch._int_mm(a, b.t() if turned else b)
    if product.kind == "f8":
        return lambda a, b: torch._scaled_mm(a, b.t(), _one(a.device), _one(a.device), out_dtype=torch.bfloat16)
    if product.name == "matmul_f32":
        return lambda a, b: torch.mm(a, b, out_dtype=torch.float32)
    if product.epilogue == "bias_gelu":
        return lambda a, b, x: torch.nn.functional.gelu(torch.addmm(x, a, b))
    if product.epilogue == "silu_gate":
        return lambda a, b, x: torch.nn.functional.silu(a @ b) * x
    return (lambda a, b: a @ b.t()) if turned else (lambda a, b: a @ b)


@functools.cache
def _one(device: Any) -> Any:
    return torch.ones((), device=device)


def _convolution(x: Any, w: Any) -> Any:
    return torch.conv2d(x, w)


def _as_pytorch_has_them(arrays: list[Any]) -> list[Any]:
    """Images and filters of a convolution with channels last in memory, as cuDNN is fastest."""
    x, w = arrays
    return [x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)]


def _peers(family: str, product: Product, eager: Call, out: torch.dtype) -> dict[str, Callable[[], Call | None]]:
    def triton() -> Call | None:
        # Where nothing is compared with Triton it need not be there.
        return cast("Call | None", importlib.import_module("contractions_triton").make(product, out))

    def triton80() -> Call | None:
        return cast("Call | None", importlib.import_module("contractions_sm80").make(product, out))

    if family == "contractions_sm80":
        return {"triton80": triton80}
    # What the compiler makes of PyTorch's own calls for one-byte elements is these calls.
    has_compiled = product.kind not in ("i8", "f8")
    return {
        "eager": lambda: eager,
        "compile": lambda: compiled(eager) if has_compiled else None,
        "triton": triton,
    }


# ---------------------------------------------------------------- what is right


def _wrong(product: Product, k: int, arrays: list[Any], got: Any) -> str:
    a, b, *others = (each.float().double() if each.dtype == torch.float8_e4m3fn else each.double() for each in arrays)
    if product.name == "conv":
        want = _windows(a) @ b.reshape(-1, b.shape[-1])
    else:
        want = a @ (b.t() if product.right == "nk" else b)
    if product.out == "i32":
        bad = int((got.double() != want).sum())
        return f"{bad} places" if bad else ""
    size: Any = k**0.5 if product.kind == "f8" else 1.0
    if product.epilogue == "bias_gelu":
        want = torch.nn.functional.gelu(want + others[0])
    elif product.epilogue == "silu_gate":
        want = torch.nn.functional.silu(want) * others[0]
        size = others[0].abs() + 1.0
    error = ((got.double() - want).abs() / (want.abs() + size)).nan_to_num(float("inf")).max()
    limit = EPSILON[got.dtype] + _ACCUMULATED
    return f"error {float(error):.3g}, {limit:.3g} allowed" if float(error) > limit else ""


def _windows(x: Any) -> Any:
    """For each place of the filter the elements below it, in the order of the filter's."""
    size = sources.FILTER
    found = x.unfold(1, size, 1).unfold(2, size, 1).permute(0, 1, 2, 4, 5, 3)
    return found.reshape(*found.shape[:3], -1)


GROUP = Group("contractions", ("contractions",), KINDS, ("eager", "compile", "triton"), large, small, awkward)
ON_SM_80 = Group(
    "contractions for sm_80",
    *(("contractions_sm80",), sources.HALVES, ("triton80",), large, small, awkward),
    needs_own_package=True,
)
