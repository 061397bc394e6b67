"""Attention in ``benchmarks/kernels.py``: cases, bars, peers, and float64's word on results.

In: the attentions of ``attention_sources.py``. Out: Cases with a static and the dynamic function each; awkward ones
with the dynamic function alone. ``attention_sm80`` compares the same sources, built for ``compute_80`` alone, with
Triton's code for sm_80.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import attention_sources as sources
import torch
from attention_sources import SCALE, Attention
from kernels_case import EPSILON, Call, Case, Group, compiled
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
AWKWARD = (1, 77, 129, 1000, 2050)
"""Queries and keys, with groups of 4."""
AWKWARD_KEYS = (100, 1111, 8192)
"""Of single queries."""
BAR, DECODE_BAR = 1.0, 0.98
_MOST_SCORES = 2**31
"""That PyTorch may have in memory."""
_HEADS, _ROWS = 3, 144
"""Compared with float64: heads, and first, last and other rows of long ones."""
_BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def large(family: str, kind: str) -> Iterator[Case]:
    """Every source at its sizes; for sm_80 without single queries, for which Triton's kernel has no parts."""
    for each in sources.attentions():
        if each.kind == kind and (family == "attention" or each.queries != 1):
            yield _case(family, each, is_static=True)


def small(family: str, kind: str) -> Iterator[Case]:
    """None."""
    return iter(())


def awkward(family: str, kind: str) -> Iterator[Case]:
    """Sequences at the edges of what tiles can take."""
    for depth in sources.DEPTHS:
        for mask in sources.MASKS:
            for length in AWKWARD:
                one = Attention(kind, (1, 2), 4, length, length, depth, depth, mask)
                yield _case(family, one, is_static=False)
        for keys in AWKWARD_KEYS:
            yield _case(family, Attention(kind, (2, 3), 4, 1, keys, depth, depth), is_static=False)


def _case(family: str, of: Attention, *, is_static: bool) -> Case:
    batch, heads, group, queries, keys = _extents(of)
    functions = {"static": f"{of.source}.f"} if is_static else {}
    own, is_one = DTYPES[of.kind], queries == 1
    inputs = [
        (batch, heads, group, queries, of.depth),
        (batch, heads, keys, of.depth),
        (batch, heads, keys, of.width),
    ]
    output = (batch, heads, group, queries, of.width)
    pairs = sum(min(keys, row + 1) for row in range(queries)) if of.mask else queries * keys
    return Case(
        *(family, f"{of.mask or 'full'}-{of.depth}", of.kind, (batch, heads, group, queries, keys)),
        functions | {"dynamic": f"{sources.dynamic(of).source}.f"},
        lambda device: [torch.randn(shape, device=device).to(own) for shape in inputs],
        *(output, own, _peers(family, of), lambda arrays, got: _wrong(of, arrays, got)),
        own.itemsize * sum(map(math.prod, [*inputs, output])),
        # Memory bounds those of one query.
        flops=0 if is_one else 2 * batch * heads * group * pairs * (of.depth + of.width),
        bar=DECODE_BAR if is_one else BAR,
    )


def _extents(of: Attention) -> tuple[int, int, int, int, int]:
    found = [int(each) for each in (*of.around, of.group, of.queries, of.keys)]
    batch, heads, group, queries, keys = found
    return batch, heads, group, queries, keys


# ---------------------------------------------------------------- what else computes it


def _peers(family: str, of: Attention) -> dict[str, Callable[[], Call | None]]:
    def triton(name: str) -> Call | None:
        # Where nothing is compared with Triton it need not be there.
        return None if of.queries == 1 else cast("Call", importlib.import_module(name).make(of))

    if family == "attention_sm80":
        return {"triton80": lambda: triton("attention_sm80")}
    backends = {name: _made(of, [backend]) for name, backend in _BACKENDS.items()}
    return {
        **backends,
        "sdpa": _made(of, None),
        "compile": lambda: compiled(_naive(of)) if math.prod(_extents(of)) <= _MOST_SCORES else None,
        "triton": lambda: triton("attention_triton"),
    }


def _made(of: Attention, backends: list[Any] | None) -> Callable[[], Call]:
    return lambda: _sdpa(of, backends)


def _sdpa(of: Attention, backends: list[Any] | None) -> Call:
    """PyTorch's own, by some backend or the one that it takes."""

    def call(q: Any, k: Any, v: Any) -> Any:
        given = {"is_causal": of.mask == "causal", "scale": SCALE, "enable_gqa": q.shape[2] > 1}
        q = q.flatten(1, 2)
        if backends is None:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **given)
        with sdpa_kernel(backends):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **given)

    return call


def _naive(of: Attention) -> Call:
    """As the source has it."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.unsqueeze(2).transpose(-1, -2)).float() * SCALE
        if of.mask:
            rows, columns = (torch.arange(each, device=q.device) for each in scores.shape[-2:])
            scores = scores.masked_fill(columns > rows[:, None], -math.inf)
        return torch.softmax(scores, -1).to(q.dtype) @ v.unsqueeze(2)

    return attention


# ---------------------------------------------------------------- what is right


def _wrong(of: Attention, arrays: list[Any], got: Any) -> str:
    q, k, v = arrays
    batch, heads, group, queries, _ = _extents(of)
    rows = _rows(queries, q.device)
    error = 0.0
    for number in range(0, batch * heads * group, max(1, batch * heads * group // _HEADS)):
        b, h, g = number // group // heads, number // group % heads, number % group
        scores = q[b, h, g, rows].double() @ k[b, h].double().T * SCALE
        if of.mask:
            scores = scores.masked_fill(torch.arange(scores.shape[1], device=q.device) > rows[:, None], -math.inf)
        want = torch.softmax(scores, -1) @ v[b, h].double()
        here = (got[b, h, g, rows].double() - want).abs() / (want.abs() + _size(scores))
        error = max(error, float(here.nan_to_num(float("inf")).max()))
    if bool(got.isnan().any()):
        return "results that are no numbers"
    limit = 2 * EPSILON[got.dtype]
    return f"error {error:.3g}, {limit:.3g} allowed" if error > limit else ""


def _size(scores: Any) -> Any:
    """Of a row's result: weights are rounded one by one."""
    return torch.softmax(scores, -1).square().sum(-1, keepdim=True).sqrt()


def _rows(queries: int, device: Any) -> Any:
    if queries <= max(AWKWARD):
        return torch.arange(queries, device=device)
    some = torch.randint(queries, (_ROWS,), device=device)
    first = torch.arange(_ROWS, device=device)
    return torch.cat([first, queries - 1 - first, some])


PEERS = ("cudnn", "flash", "sdpa", "compile", "triton")
GROUP = Group("attention", ("attention",), sources.KINDS, PEERS, large, small, awkward)
ON_SM_80 = replace(GROUP, name="attention for sm_80", families=("attention_sm80",), peers=("triton80",))
ON_SM_80 = replace(ON_SM_80, needs_own_package=True)
