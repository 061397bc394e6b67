"""Triton kernels in the manner of its tutorials, as peers of ``benchmarks/kernels.py``.

Each function returns a callable for one case, or None where Triton has no natural kernel for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _pointwise(x, y, out, n, columns, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, inside).to(tl.float32)
    if OP == "cast":
        r = a
    elif OP == "bias_gelu":
        s = a + tl.load(y + at % columns, inside).to(tl.float32)
        r = 0.5 * s * (1.0 + tl.math.erf(s * 0.70710678118))
    else:
        b = tl.load(y + at, inside).to(tl.float32)
        if OP == "silu_mul":
            r = a / (1.0 + tl.exp(-a)) * b
        elif OP == "add_relu":
            r = tl.maximum(a + b, 0.0)
        else:
            r = a + b
    tl.store(out + at, r.to(out.dtype.element_ty), inside)


@triton.jit
def _softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row + at, at < columns, -float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row + at, (e / tl.sum(e, 0)).to(out.dtype.element_ty), at < columns)


@triton.jit
def _norm(x, gamma, beta, out, columns, LAYER: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row + at, inside, 0.0).to(tl.float32)
    if LAYER:
        v = tl.where(inside, v - tl.sum(v, 0) / columns, 0.0)
    r = v * tl.rsqrt(tl.sum(v * v, 0) / columns + 1e-5) * tl.load(gamma + at, inside).to(tl.float32)
    if LAYER:
        r += tl.load(beta + at, inside).to(tl.float32)
    tl.store(out + row + at, r.to(out.dtype.element_ty), inside)


@triton.jit
def _row(x, out, columns, ARG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    if ARG:
        v = tl.load(x + row * columns + at, at < columns, -float("inf")).to(tl.float32)
        tl.store(out + row, tl.argmax(v, 0).to(tl.int64))
    else:
        v = tl.load(x + row * columns + at, at < columns, 0.0).to(tl.float32)
        tl.store(out + row, tl.sum(v, 0).to(out.dtype.element_ty))


@triton.jit
def _transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i[:, None].to(tl.int64) * columns + j[None, :], (i[:, None] < rows) & (j[None, :] < columns))
    tl.store(
        out + j[:, None].to(tl.int64) * rows + i[None, :], tl.trans(v), (j[:, None] < columns) & (i[None, :] < rows)
    )


_LONGEST = 65536
"""Columns that a row in registers may have in these kernels."""


def _warps(columns: int) -> int:
    return min(16, max(4, triton.next_power_of_2(columns) // 1024))


def make(family: str, name: str, columns: int, out: torch.dtype) -> Callable[..., Any] | None:
    """A callable that allocates its result, as the eager functions do."""
    block, warps = triton.next_power_of_2(columns), _warps(columns)
    if family == "pointwise":

        def pointwise(x: Any, y: Any = None) -> Any:
            r = torch.empty_like(x, dtype=out)
            _pointwise[(triton.cdiv(x.numel(), 2048),)](
                x, x if y is None else y, r, x.numel(), columns, name, 2048, num_warps=8
            )
            return r

        return pointwise
    if family == "transposes":
        return _transposed if name == "transpose" else None
    if columns > _LONGEST or name in ("sum_columns", "sum_all"):
        return None

    def rows(x: Any, gamma: Any = None, beta: Any = None) -> Any:
        grid = (x.shape[0],)
        if family == "softmax":
            r = torch.empty_like(x)
            _softmax[grid](x, r, columns, block, num_warps=warps)
        elif family in ("layernorm", "rmsnorm"):
            r = torch.empty_like(x)
            _norm[grid](
                x, gamma, gamma if beta is None else beta, r, columns, family == "layernorm", block, num_warps=warps
            )
        else:
            r = torch.empty(x.shape[0], device=x.device, dtype=out)
            _row[grid](x, r, columns, name == "argmax", block, num_warps=warps)
        return r

    return rows


def _transposed(x: Any) -> Any:
    r = torch.empty(x.shape[1], x.shape[0], device=x.device, dtype=x.dtype)
    _transpose[(triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))](x, r, *x.shape, 64, num_warps=8)
    return r
