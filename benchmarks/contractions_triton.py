"""A product of matrices in Triton, in the manner of its tutorials: a peer of ``benchmarks/kernels.py``.

``make`` returns a callable for a product, or None where there is no natural kernel. The first call tries ``TILES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from contractions_sources import Product

TILES = (
    (128, 256, 64, 3, 8),
    (128, 128, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 5, 4),
    (16, 128, 128, 4, 4),
    (16, 64, 256, 3, 4),
)
"""Rows, columns, depth, stages, warps."""
_GROUP = 8


@triton.jit
def product(
    a,
    b,
    x,
    out,
    m,
    n,
    k,
    k_step,
    n_step,
    left_batch,
    right_batch,
    EPILOGUE: tl.constexpr,
    SUMS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    number = tl.program_id(0)
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    row = first + number % (GROUP * across) % height
    column = number % (GROUP * across) // height
    i = row * ROWS + tl.arange(0, ROWS)
    j = column * COLUMNS + tl.arange(0, COLUMNS)
    steps = tl.arange(0, DEPTH)
    batch = tl.program_id(1).to(tl.int64)
    left = a + batch * left_batch + (i % m)[:, None].to(tl.int64) * k + steps[None, :]
    right = b + batch * right_batch + steps[:, None].to(tl.int64) * k_step + (j % n)[None, :].to(tl.int64) * n_step
    total = tl.zeros((ROWS, COLUMNS), SUMS)
    for begin in range(0, k, DEPTH):
        one = tl.load(left, steps[None, :] < k - begin, 0.0)
        other = tl.load(right, steps[:, None] < k - begin, 0.0)
        total = tl.dot(one, other, total, input_precision="ieee", out_dtype=SUMS)
        left += DEPTH
        right += DEPTH * k_step
    inside = (i < m)[:, None] & (j < n)[None, :]
    at = batch * m * n + i[:, None].to(tl.int64) * n + j[None, :]
    if EPILOGUE == "bias_gelu":
        total += tl.load(x + j, j < n, 0.0)[None, :].to(tl.float32)
        total = 0.5 * total * (1.0 + tl.math.erf(total * 0.70710678118))
    elif EPILOGUE == "silu_gate":
        total = total / (1.0 + tl.exp(-total)) * tl.load(x + at, inside, 0.0).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), inside)


def strides(of: Product, b: Any) -> tuple[int, int]:
    """Of ``k`` and ``n`` in the right factor."""
    return (1, b.shape[-1]) if of.right == "nk" else (b.shape[-1], 1)


def make(of: Product, out: torch.dtype) -> Callable[..., Any] | None:
    """A callable that allocates its result, as the eager functions do."""
    if of.name == "conv":
        return None
    sums = tl.int32 if out == torch.int32 else tl.float32
    tuned = triton.autotune(
        [
            triton.Config({"ROWS": m, "COLUMNS": n, "DEPTH": k, "GROUP": _GROUP}, num_stages=stages, num_warps=warps)
            for m, n, k, stages, warps in TILES
        ],
        ["m", "n", "k"],
        warmup=5,
        rep=20,
    )(product)

    def call(a: Any, b: Any, x: Any = None) -> Any:
        *batch, m, k = a.shape
        n = b.shape[-2 if of.right == "nk" else -1]
        count = batch[0] if batch else 1
        r = torch.empty(*batch, m, n, device=a.device, dtype=out)
        tuned[lambda meta: (triton.cdiv(m, meta["ROWS"]) * triton.cdiv(n, meta["COLUMNS"]), count)](
            *(a, b, a if x is None else x, r, m, n, k, *strides(of, b), m * k, n * k, of.epilogue, sums)
        )
        return r

    return call
