"""Triton kernels in the manner of its tutorials, as peers of ``benchmarks/kernels.py``.

``make`` returns a callable for one case, or None where Triton has no natural kernel for it.
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


@triton.jit
def _long_softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, at < columns, -float("inf")).to(tl.float32)
        larger = tl.maximum(most, v)
        total = total * tl.exp(most - larger) + tl.exp(v - larger)
        most = larger
    peak = tl.max(most, 0)
    scale = 1.0 / tl.sum(total * tl.exp(most - peak), 0)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, at < columns, 0.0).to(tl.float32)
        tl.store(out + row + at, (tl.exp(v - peak) * scale).to(out.dtype.element_ty), at < columns)


@triton.jit
def _columns(x, out, rows, columns, per_program, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * per_program
    last = tl.minimum(rows, first + per_program)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(first, last, ROWS):
        i = begin + tl.arange(0, ROWS)
        inside = (i[:, None] < last) & (j[None, :] < columns)
        total += tl.load(x + i[:, None].to(tl.int64) * columns + j[None, :], inside, 0.0).to(tl.float32)
    at = tl.program_id(1).to(tl.int64) * columns + j
    tl.store(out + at, tl.sum(total, 0).to(out.dtype.element_ty), j < columns)


@triton.jit
def _all(x, out, n, programs, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(tl.program_id(0).to(tl.int64) * BLOCK, n, programs * BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x + at, at < n, 0.0).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.sum(total, 0).to(out.dtype.element_ty))


@triton.jit
def _heads(x, out, steps, heads, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    source = ((batch * steps + i) * heads + head)[:, None] * COLUMNS + j[None, :]
    target = ((batch * heads + head) * steps + i)[:, None] * COLUMNS + j[None, :]
    tl.store(out + target, tl.load(x + source, (i < steps)[:, None]), (i < steps)[:, None])


_LONGEST = 65536
"""Columns that a row in registers may have in these kernels."""
_PROGRAMS = 528
"""Of two-stage sums: four for each multiprocessor of an H200."""


def _warps(columns: int) -> int:
    return min(16, max(4, triton.next_power_of_2(columns) // 1024))


def make(family: str, name: str, columns: int, out: torch.dtype) -> Callable[..., Any] | None:
    """A callable that allocates its result, as the eager functions do."""
    if family == "pointwise":
        return _make_pointwise(name, columns, out)
    if family == "transposes":
        return _transposed if name == "transpose" else _moved_heads
    if name in ("sum_columns", "sum_all"):
        return _summed_columns if name == "sum_columns" else _summed_all
    if columns > _LONGEST:
        return _softmax_of_long_rows if family == "softmax" else None
    return _make_rows(family, name, columns, out)


def _make_pointwise(name: str, columns: int, out: torch.dtype) -> Callable[..., Any]:
    def pointwise(x: Any, y: Any = None) -> Any:
        r = torch.empty_like(x, dtype=out)
        _pointwise[(triton.cdiv(x.numel(), 2048),)](
            x, x if y is None else y, r, x.numel(), columns, name, 2048, num_warps=8
        )
        return r

    return pointwise


def _make_rows(family: str, name: str, columns: int, out: torch.dtype) -> Callable[..., Any]:
    block, warps = triton.next_power_of_2(columns), _warps(columns)

    def rows(x: Any, gamma: Any = None, beta: Any = None) -> Any:
        grid = (x.shape[0],)
        if family == "softmax":
            r = torch.empty_like(x)
            _softmax[grid](x, r, columns, block, num_warps=warps)
        elif family in ("layernorm", "rmsnorm"):
            r = torch.empty_like(x)
            layer = family == "layernorm"
            _norm[grid](x, gamma, gamma if beta is None else beta, r, columns, layer, block, num_warps=warps)
        else:
            r = torch.empty(x.shape[0], device=x.device, dtype=out)
            _row[grid](x, r, columns, name == "argmax", block, num_warps=warps)
        return r

    return rows


def _softmax_of_long_rows(x: Any) -> Any:
    r = torch.empty_like(x)
    _long_softmax[(x.shape[0],)](x, r, x.shape[1], 8192, num_warps=16)
    return r


def _summed_columns(x: Any) -> Any:
    rows, columns = x.shape
    across = triton.cdiv(columns, 128)
    parts = max(1, min(triton.cdiv(rows, 64), _PROGRAMS // across))
    per_program = triton.cdiv(rows, parts)
    r = torch.empty(columns, device=x.device, dtype=x.dtype)
    if parts == 1:
        _columns[(across, 1)](x, r, rows, columns, per_program, 32, 128, num_warps=8)
        return r
    partial = torch.empty(parts, columns, device=x.device, dtype=torch.float32)
    _columns[(across, parts)](x, partial, rows, columns, per_program, 32, 128, num_warps=8)
    _columns[(triton.cdiv(columns, 32), 1)](partial, r, parts, columns, parts, 32, 32, num_warps=4)
    return r


def _summed_all(x: Any) -> Any:
    programs = min(_PROGRAMS, triton.cdiv(x.numel(), 4096))
    partial = torch.empty(programs, device=x.device, dtype=torch.float32)
    r = torch.empty((), device=x.device, dtype=x.dtype)
    _all[(programs,)](x, partial, x.numel(), programs, 4096, num_warps=8)
    _all[(1,)](partial, r, programs, 1, 1024, num_warps=4)
    return r


def _transposed(x: Any) -> Any:
    r = torch.empty(x.shape[1], x.shape[0], device=x.device, dtype=x.dtype)
    _transpose[(triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))](x, r, *x.shape, 64, num_warps=8)
    return r


def _moved_heads(x: Any) -> Any:
    batch, steps, heads, columns = x.shape
    r = torch.empty(batch, heads, steps, columns, device=x.device, dtype=x.dtype)
    _heads[(triton.cdiv(steps, 32), heads, batch)](x, r, steps, heads, 32, columns, num_warps=4)
    return r
