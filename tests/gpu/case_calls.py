"""The calls of every input in tests/cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from example_calls import normal
from gpu_calls import Argument, Call
from references import newton_sqrt, softmax

Array = np.ndarray[Any, Any]
SHAPES = ((0, 5), (5, 0), (1, 1), (7, 1), (3, 257), (33, 1009))
WEIGHTS = np.array([0.5, -1.0, 2.0, 3.25], "f4")


def rotated(x: Array) -> Array:
    return np.concatenate([x[:, 32:], -x[:, :32]], 1)


def bytes_product(a: Array, b: Array) -> Array:
    return a.astype("i4") @ b.astype("i4")


def _sized() -> list[Call]:
    calls = []
    for m, n in SHAPES:
        name = f"{m}x{n}"
        calls += [
            Call(name, "softmax_named", "softmax", lambda rng, m=m, n=n: (normal(rng, m, n),), softmax),
            Call(name, "sums", "rows", lambda rng, m=m, n=n: (normal(rng, m, n),), lambda x: x.sum(1), atol=1e-4),
            Call(name, "sums", "cols", lambda rng, m=m, n=n: (normal(rng, m, n),), lambda x: x.sum(0), atol=1e-4),
            Call(
                name,
                "sums",
                "total",
                lambda rng, m=m, n=n: (normal(rng, m, n),),
                lambda x: np.asarray(x.astype("f8").sum(), "f4"),
                rtol=1e-4,
                atol=1e-3,
            ),
            Call(
                name,
                "masks",
                "where",
                lambda rng, m=m, n=n: (rng.random((m, n)) < 0.5, normal(rng, m, n)),
                lambda mask, x: np.where(mask, x, np.float32(-np.inf)),
            ),
            Call(
                name,
                "masks",
                "greater",
                lambda rng, m=m, n=n: (normal(rng, m, n), 0.25),
                lambda x, t: x > np.float32(t),
            ),
        ]
    return calls


def _fixed() -> list[Call]:
    calls = [
        Call(
            "10x10",
            "seed_square",
            "square",
            lambda rng: (normal(rng, 10, 10), normal(rng, 10, 10)),
            lambda x, out: Argument(1),
            lambda x, out: {1: x * x},
        ),
        Call(
            "five",
            "seed_launch_func",
            "times4",
            lambda rng: (5, np.zeros(2, "i4")),
            None,
            lambda a, out: {1: np.full(2, 4 * a, "i4")},
        ),
        Call(
            "wraps",
            "seed_launch_func",
            "times4",
            lambda rng: (-(2**30), np.ones(2, "i4")),
            None,
            lambda a, out: {1: np.zeros(2, "i4")},
        ),
        Call("once", "seed_alloc", "sync", lambda rng: ()),
        Call("once", "seed_alloc", "with_tokens", lambda rng: ()),
    ]
    for m in (0, 1, 31, 1009):
        calls += [
            Call(str(m), "constants", "affine4", lambda rng, m=m: (normal(rng, m, 4),), lambda x: x * WEIGHTS + 1),
            Call(
                str(m),
                "slices",
                "rotate_half",
                lambda rng, m=m: (normal(rng, m, 64),),
                lambda x: (Argument(0), rotated(x)),
                rtol=0,
                atol=0,
            ),
        ]
    for n in (1, 257, 5000):
        calls.append(
            Call(
                str(n),
                "newton_sqrt",
                "newton_sqrt",
                lambda rng, n=n: ((1 + 99 * rng.random(n)).astype("f4"), 1e-3),
                newton_sqrt,
            )
        )
    for rows, width, count in ((1, 1, 1), (50, 33, 257), (50, 33, 0), (7, 0, 3)):
        calls.append(
            Call(
                f"{rows}x{width}x{count}",
                "embedding",
                "embedding",
                lambda rng, r=rows, w=width, c=count: (normal(rng, r, w, dtype="f2"), rng.integers(0, r, c)),
                lambda table, ids: table[ids],
                rtol=0,
                atol=0,
            )
        )
    for m, n, k in ((1, 1, 1), (0, 3, 2), (3, 4, 0), (33, 65, 129), (128, 64, 256)):
        calls.append(
            Call(
                f"{m}x{n}x{k}",
                "int8_matmul",
                "matmul",
                lambda rng, m=m, n=n, k=k: (
                    rng.integers(-128, 128, (m, k), "i1"),
                    rng.integers(-128, 128, (k, n), "i1"),
                ),
                bytes_product,
            )
        )
    return calls


CASES = [*_fixed(), *_sized()]
