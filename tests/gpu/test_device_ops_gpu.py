"""Device code that our own rewrites make (tests/hazards/device_ops): math, powers, reductions, vectors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import Any

import pytest

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "erf", "sqrt", "rsqrt", "absf",
    "ceil", "floor", "round", "roundeven", "trunc", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    "cbrt",
)  # fmt: skip
"""Rows of the kernels' results, in order."""
OTHER_NAMES = {"absf": "abs", "roundeven": "round"}
EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}
TORCH = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
}  # fmt: skip
TOLERANCE = 4.0
"""Units in the last place."""


def exact(torch: Any, name: str, x: Any) -> Any:
    """The function in f64."""
    if name == "cbrt":
        return torch.sign(x) * torch.abs(x) ** (1 / 3)
    if name == "round":  # halves away from zero
        return torch.sign(x) * torch.floor(torch.abs(x) + 0.5)
    return getattr(torch, OTHER_NAMES.get(name, name))(x)


@pytest.mark.parametrize("dtype", EPSILON)
def test_math(hazards: ModuleType, torch: Any, dtype: str) -> None:
    x = torch.linspace(-6, 6, 4001, dtype=torch.float64).to(getattr(torch, TORCH[dtype])).cuda()
    out = torch.zeros(len(FUNCTIONS), len(x), dtype=x.dtype, device="cuda")
    getattr(hazards.device_ops, f"math_{dtype}")(x, out)
    for name, row in zip(FUNCTIONS, out.double().cpu(), strict=True):
        wanted = exact(torch, name, x.cpu().double())
        assert torch.equal(row.isnan(), wanted.isnan()), name
        finite = torch.isfinite(wanted) & torch.isfinite(row)
        assert finite.sum() > len(x) / 10, name
        # sin and cos lose all digits of the result beside their zeros; there the input's error counts.
        scale = torch.ones_like(wanted) if name in ("sin", "cos") else wanted.abs()
        ulps = (row - wanted).abs() / (scale * EPSILON[dtype] + SMALLEST[dtype])
        assert ulps[finite].max() <= TOLERANCE, name


def power(base: int, exponent: int) -> int:
    """Integer part of the power; what negative exponents leave of 0 is undefined and not tried."""
    if exponent >= 0:
        return base**exponent
    return {1: 1, -1: (-1) ** -exponent}.get(base, 0)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integer_powers(hazards: ModuleType, torch: Any, bits: int) -> None:
    pairs = [(b, e) for b in range(-5, 6) for e in range(-4, 14) if b or e >= 0] + [(3, 60), (-3, 61), (2, 62)]
    kind = getattr(torch, f"int{bits}")
    bases, exponents = (torch.tensor([pair[k] for pair in pairs], dtype=kind, device="cuda") for k in (0, 1))
    getattr(hazards.device_ops, f"power_i{bits}")(bases, exponents)
    half = 1 << bits - 1
    assert bases.tolist() == [(power(*pair) + half) % (2 * half) - half for pair in pairs]


def wrapped_product(values: list[int]) -> int:
    """Of 16-bit integers."""
    return (reduce(operator.mul, values) + 2**15) % 2**16 - 2**15


WARP: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "f16": ("add", sum),
    "bf16": ("maximumf", max),
    "f32": ("add", sum),
    "f64": ("minnumf", min),
    "i8": ("maxsi", max),
    "i16": ("mul", wrapped_product),
    "i32": ("xor", lambda values: reduce(operator.xor, values)),
    "i64": ("minui", min),
}


@pytest.mark.parametrize("dtype", WARP)
def test_reductions_over_a_warp(hazards: ModuleType, torch: Any, dtype: str) -> None:
    name, combine = WARP[dtype]
    # Small whole numbers: sums are exact in every type.
    x = torch.randint(1, 8, (128,)).to(getattr(torch, TORCH[dtype])).cuda()
    whole, clusters = torch.zeros_like(x), torch.zeros_like(x)
    getattr(hazards.device_ops, f"warp_{name}_{dtype}")(x, whole, clusters)
    values = x.tolist()
    for thread, (all_of_warp, of_cluster) in enumerate(zip(whole.tolist(), clusters.tolist(), strict=True)):
        warp = thread // 32 * 32
        assert all_of_warp == combine(values[warp : warp + 32])
        first = warp + thread % 32 // 16 * 16 + thread % 2
        assert of_cluster == combine(values[first : first + 16 : 2])


def test_reduction_over_a_block(hazards: ModuleType, torch: Any) -> None:
    x = torch.randint(0, 100, (1024,)).float().cuda()
    wanted = x.reshape(4, 256).sum(1, keepdim=True).expand(4, 256).reshape(-1)
    hazards.device_ops.block_add(x)
    assert torch.equal(x, wanted)


def test_vectors_at_the_end_of_memory(hazards: ModuleType, torch: Any) -> None:
    x = torch.randint(0, 100, (256,)).float().cuda()
    out = torch.zeros_like(x)
    hazards.device_ops.windows(x, out)
    padded = torch.cat([x, torch.zeros(3, device="cuda")])
    three = padded[:-3] + padded[1:-2] + padded[2:-1]
    wanted = three + torch.where(torch.arange(256, device="cuda") >= 128, padded[3:], 0)
    assert torch.equal(out, wanted)


def test_gathered_vectors(hazards: ModuleType, torch: Any) -> None:
    x = torch.randn(8, device="cuda")
    out = torch.zeros(32, device="cuda")
    hazards.device_ops.gather(x, out)
    assert torch.allclose(out, (x[0] + x[2] + 100 + x[1]).expand(32), rtol=1e-6)


def test_vectors_of_two_dimensions(hazards: ModuleType, torch: Any) -> None:
    x = torch.randint(-9, 9, (4, 4)).float().cuda()
    product, transposed, sums = torch.zeros_like(x), torch.zeros_like(x), torch.zeros(4, device="cuda")
    hazards.device_ops.tile(x, product, transposed, sums)
    assert torch.equal(product.cpu(), x.cpu() @ x.cpu())
    assert torch.equal(transposed, x.T)
    assert torch.equal(sums, x.sum(1))


def test_wide_copies_into_the_second_array_in_shared_memory(hazards: ModuleType, torch: Any, needs: Any) -> None:
    needs((8, 0))
    x = torch.randn(128, device="cuda")
    out = torch.zeros_like(x)
    hazards.device_ops.odd_shared(x, out)
    assert torch.equal(out[::4], x.flip(0)[::4])
