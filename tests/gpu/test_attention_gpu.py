"""Attention by Hopper's kernels, and by those of sm_80 compiled from PTX, gives float64's results."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attention_calls import SHAPES, SOURCES
from build_packages import ATTENTIONS

KERNELS = {"attention_kernels": {"flash", "hopper-decode"}, "attention_ptx_kernels": {"mma-flash", "decode"}}
SCALE = 0.125


def inputs(torch: Any, of: Any, shape: tuple[int, ...]) -> list[Any]:
    batch, heads, group, queries, keys = shape
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[of.kind]
    torch.manual_seed(sum(shape))
    extents = [(batch, heads, group, queries, of.depth), (batch, heads, keys, of.depth), (batch, heads, keys, of.width)]
    if of.turned:
        extents[1] = (batch, heads, of.depth, keys)
    arrays = [torch.randn(each, device="cuda").to(kind) for each in extents]
    if "array" in of.mask:
        arrays.append(torch.where(torch.rand(batch, keys, device="cuda") < 0.3, -math.inf, 1.0))
        arrays[-1][:, 0] = 0.0
    return arrays


def expected(torch: Any, of: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q.double() @ (k if of.turned else k.mT).double()[:, :, None] * SCALE
    if "half" in of.mask:
        scores = scores.to(q.dtype).double()
    if "causal" in of.mask:
        rows, columns = (torch.arange(each, device="cuda") for each in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows[:, None], -math.inf)
    if of.mask == "window":
        rows, columns = (torch.arange(each, device="cuda") for each in scores.shape[-2:])
        own = rows[:, None] + (scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill((columns > own) | (columns <= own - of.window), -math.inf)
    if mask is not None:
        scores = scores + mask.double()[:, None, None, None]
    return torch.einsum("bhgmn,bhnw->bhgmw", torch.softmax(scores, -1), v.double())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("package", ATTENTIONS)
def test_values(variant: Any, torch: Any, needs: Any, package: str, source: str) -> None:
    needs((9, 0))
    of = SOURCES[source]
    call = getattr(variant(package), source).f
    for shape in SHAPES:
        arrays = inputs(torch, of, shape)
        out = torch.full((*arrays[0].shape[:-1], of.width), math.nan, device="cuda", dtype=arrays[0].dtype)
        got = call(*arrays, out).double()
        error = (got - expected(torch, of, *arrays)).abs().nan_to_num(math.inf).max().item()
        assert error < (4e-3 if of.kind == "f16" else 3e-2), (shape, error)


@pytest.mark.parametrize("package", ATTENTIONS)
def test_a_row_without_keys(variant: Any, torch: Any, needs: Any, package: str) -> None:
    """Its softmax is no number, as the source has it; few queries and many."""
    needs((9, 0))
    for queries in (2, 130):
        q, k, v, mask = inputs(torch, SOURCES["masked"], (2, 1, 1, queries, 300))
        mask[1] = -math.inf
        out = torch.zeros((*q.shape[:-1], SOURCES["masked"].width), device="cuda", dtype=q.dtype)
        got = variant(package).masked.f(q, k, v, mask, out)
        assert not got[0].isnan().any()
        assert got[1].isnan().all()


@pytest.mark.parametrize("package", ATTENTIONS)
def test_the_kernels_are_there(variant: Any, needs: Any, package: str) -> None:
    needs((9, 0))
    modules = {each["name"]: each for each in variant(package).__aot__["modules"]}
    assert KERNELS[package] <= {each["schedule"] for each in modules["full"]["kernels"]}
