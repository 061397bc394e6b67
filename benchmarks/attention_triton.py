"""Attention in Triton, in the manner of its tutorial, as a peer of ``benchmarks/kernels.py``.

Pieces of keys that all of a tile's queries see come first, without comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from attention_sources import SCALE, Attention

TILES = ((128, 64, 3, 4), (128, 64, 3, 8), (128, 32, 3, 4), (128, 128, 3, 8), (64, 64, 3, 4))
"""Queries, keys, stages, warps."""
EXPONENTS = SCALE * 1.4426950408889634


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    queries,
    keys,
    group,
    exponents,
    CAUSAL: tl.constexpr,
    DEPTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile
    i = tile * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    d = tl.arange(0, DEPTH)
    at = head * queries * DEPTH + i[:, None] * DEPTH + d[None, :]
    inside = (i < queries)[:, None]
    x = tl.load(q + at, inside, 0.0)
    k += head // group * keys * DEPTH
    v += head // group * keys * DEPTH
    total = tl.zeros((ROWS, DEPTH), tl.float32)
    largest = tl.full((ROWS,), -float("inf"), tl.float32)
    weights = tl.zeros((ROWS,), tl.float32)
    some, whole = keys, keys
    if CAUSAL:
        some, whole = min(some, tile * ROWS + ROWS), min(whole, tile * ROWS + 1)
    whole = whole // COLUMNS * COLUMNS
    for first in range(0, whole, COLUMNS):
        n = first + j
        scores = tl.dot(x, tl.load(k + n[None, :] * DEPTH + d[:, None])) * exponents
        larger = tl.maximum(largest, tl.max(scores, 1))
        power = tl.math.exp2(scores - larger[:, None])
        before = tl.math.exp2(largest - larger)
        weights = weights * before + tl.sum(power, 1)
        values = tl.load(v + n[:, None] * DEPTH + d[None, :])
        total = tl.dot(power.to(values.dtype), values, total * before[:, None])
        largest = larger
    for first in range(whole, some, COLUMNS):
        n = first + j
        scores = tl.dot(x, tl.load(k + n[None, :] * DEPTH + d[:, None], (n < keys)[None, :], 0.0)) * exponents
        seen = (n < keys)[None, :]
        if CAUSAL:
            seen = seen & (n[None, :] <= i[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        power = tl.math.exp2(scores - larger[:, None])
        before = tl.math.exp2(largest - larger)
        weights = weights * before + tl.sum(power, 1)
        values = tl.load(v + n[:, None] * DEPTH + d[None, :], (n < keys)[:, None], 0.0)
        total = tl.dot(power.to(values.dtype), values, total * before[:, None])
        largest = larger
    tl.store(out + at, (total / weights[:, None]).to(out.dtype.element_ty), inside)


def make(of: Attention) -> Callable[..., Any]:
    """A callable that allocates its result, as PyTorch's do."""
    tuned = triton.autotune(
        [triton.Config({"ROWS": m, "COLUMNS": n}, num_stages=stages, num_warps=warps) for m, n, stages, warps in TILES],
        ["queries", "keys", "group"],
        warmup=5,
        rep=20,
    )(attention)

    def call(q: Any, k: Any, v: Any) -> Any:
        batch, heads, group, queries, depth = q.shape
        r = torch.empty_like(q)
        tuned[lambda meta: (triton.cdiv(queries, meta["ROWS"]), batch * heads * group)](
            *(q, k, v, r, queries, k.shape[2], group, EXPONENTS, bool(of.mask), depth)
        )
        return r

    return call
