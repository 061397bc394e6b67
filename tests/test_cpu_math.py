"""Accuracy of the functions that CPU code computes by itself, over all of f32's range."""

from __future__ import annotations

import functools
import math
from typing import Any

import cpucall
import numpy as np
import pytest

FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf")
MAX_ULPS = 4
_erf = np.vectorize(math.erf, otypes=["f8"])
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.72284, 88.8, -103.97, -104.5, 1e-45, -1e-45, 1e-30, 3e38]


@functools.cache
def program(variant: str) -> cpucall.Program:
    functions = [
        f"func.func @{name}_{kind}(%x: tensor<?x{kind}>) -> tensor<?x{kind}> {{\n"
        f"  %r = math.{name} %x : tensor<?x{kind}>\n  return %r : tensor<?x{kind}>\n}}"
        for name, kind in [*((name, "f32") for name in FUNCTIONS), ("exp", "f64")]
    ]
    return cpucall.build("\n".join(functions), variant)


@functools.cache
def arguments() -> Any:
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype("u4").view("f4")
    near = [rng.uniform(-110, 95, 50_000), rng.uniform(-5, 5, 50_000), rng.uniform(0.5, 2, 20_000), SPECIAL]
    return np.concatenate([anything, *(np.asarray(each).astype("f4") for each in near)])


@functools.cache
def reference(name: str) -> Any:
    x = arguments()
    if name == "erf":
        return np.where(np.isnan(x), np.nan, _erf(np.nan_to_num(x.astype("f8"), nan=0.0, posinf=9.0, neginf=-9.0)))
    return getattr(np, name)(x.astype("f8"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("variant", cpucall.runnable())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32(name: str, variant: str) -> None:
    x = arguments()
    got = program(variant).call(f"{name}_f32", x).results[0]
    exact = reference(name)
    rounded = exact.astype("f4")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    infinite = np.isinf(rounded) | np.isinf(got)
    np.testing.assert_array_equal(got[infinite], rounded[infinite])
    np.testing.assert_array_equal(np.signbit(got[rounded == 0]), np.signbit(rounded[rounded == 0]))
    finite = np.isfinite(rounded) & np.isfinite(got)
    ulps = np.abs(got.astype("f8") - exact)[finite] / np.spacing(np.abs(rounded[finite])).astype("f8")
    assert ulps.max() <= MAX_ULPS, (x[finite][ulps.argmax()], ulps.max())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("variant", cpucall.runnable())
def test_exp_f64(variant: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-760, 720, 50_000), rng.uniform(-2, 2, 50_000), [0, np.inf, -np.inf, np.nan]])
    got = program(variant).call("exp_f64", x).results[0]
    exact = np.exp(x.astype(np.longdouble))
    finite = np.isfinite(exact.astype("f8"))
    assert (np.abs(got - exact)[finite] / np.spacing(exact.astype("f8")[finite])).max() <= MAX_ULPS
    assert list(got[-4:-1]) == [1, np.inf, 0]
    assert np.isnan(got[-1])


@pytest.mark.parametrize("kind", ["i8", "i32", "index"])
def test_powers_of_integers(kind: str) -> None:
    text = (
        f"func.func @f(%x: tensor<?x{kind}>, %n: tensor<?x{kind}>) -> tensor<?x{kind}> {{\n"
        f"  %r = math.ipowi %x, %n : tensor<?x{kind}>\n  return %r : tensor<?x{kind}>\n}}\n"
        f"func.func @one(%x: {kind}, %n: {kind}) -> {kind} {{\n"
        f"  %r = math.ipowi %x, %n : {kind}\n  return %r : {kind}\n}}"
    )
    done = cpucall.build(text, cpucall.runnable()[0])
    x, n = (each.ravel() for each in np.meshgrid(np.arange(-4, 5), np.arange(-2, 7)))
    # One over zero is left to whoever asks for it.
    x, n = x[(x != 0) | (n >= 0)], n[(x != 0) | (n >= 0)]
    whole = np.array([int(a) ** int(b) if b >= 0 else int(1 / int(a) ** -int(b)) for a, b in zip(x, n, strict=True)])
    dtype = {"i8": "i1", "i32": "i4", "index": "i8"}[kind]
    given = x.astype(dtype), n.astype(dtype)
    np.testing.assert_array_equal(done.call("f", *given).results[0], whole.astype(dtype))
    assert done.call("one", -3, 3).results == [-27]
