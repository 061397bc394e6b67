"""The calls of every example, with shapes at the edges: 0, 1, a prime, one past a tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gpu_calls import Argument, Call
from references import attention, gelu, gelu_tanh, layernorm, rmsnorm, smooth, softmax

Array = np.ndarray[Any, Any]
LENGTHS = (0, 1, 31, 256, 257, 10007)
MATRICES = ((0, 5), (5, 0), (1, 1), (7, 1), (3, 257), (33, 1009), (4096, 512))
PRODUCTS = ((0, 4, 3), (4, 0, 3), (4, 3, 0), (1, 1, 1), (17, 31, 13), (129, 65, 257), (256, 512, 128))


def normal(rng: np.random.Generator, *shape: int, dtype: str = "f4") -> Array:
    return rng.standard_normal(shape).astype(dtype)


def product(a: Array, b: Array) -> Array:
    return (a.astype("f8") @ b.astype("f8")).astype("f4")


def _pointwise() -> list[Call]:
    calls = [
        Call(
            "10x10",
            "square",
            "square",
            lambda rng: (normal(rng, 10, 10), normal(rng, 10, 10)),
            lambda x, out: Argument(1),
            lambda x, out: {1: x * x},
        )
    ]
    for n in LENGTHS:
        calls += [
            Call(
                str(n),
                "vector_add",
                "vector_add",
                lambda rng, n=n: (normal(rng, n), normal(rng, n)),
                lambda x, y: x + y,
            ),
            Call(str(n), "gelu", "gelu", lambda rng, n=n: (normal(rng, n),), gelu),
            Call(
                str(n),
                "gelu",
                "gelu_tanh",
                lambda rng, n=n: (normal(rng, n, dtype="f2"),),
                gelu_tanh,
                rtol=2e-3,
                atol=1e-3,
            ),
        ]
    return calls


def _rows() -> list[Call]:
    calls = []
    for m, n in MATRICES:
        name = f"{m}x{n}"
        calls += [
            Call(name, "softmax", "softmax", lambda rng, m=m, n=n: (normal(rng, m, n),), softmax),
            Call(
                name,
                "layernorm",
                "layernorm",
                lambda rng, m=m, n=n: (normal(rng, m, n), normal(rng, n), normal(rng, n), 1e-5),
                layernorm,
                rtol=1e-4,
                atol=1e-4,
            ),
            Call(
                name,
                "rmsnorm",
                "rmsnorm",
                lambda rng, m=m, n=n: (normal(rng, m, n, dtype="f2"), normal(rng, n, dtype="f2"), 1e-5),
                rmsnorm,
                rtol=2e-3,
                atol=1e-3,
            ),
        ]
    return calls


def _contractions() -> list[Call]:
    calls = []
    for m, n, k in PRODUCTS:
        name = f"{m}x{n}x{k}"
        calls += [
            Call(
                name,
                "matmul",
                "matmul",
                lambda rng, m=m, n=n, k=k: (normal(rng, m, k), normal(rng, k, n)),
                product,
                rtol=1e-4,
                atol=1e-4,
            ),
            Call(
                name,
                "matmul",
                "matmul_f16",
                lambda rng, m=m, n=n, k=k: (normal(rng, m, k, dtype="f2"), normal(rng, k, n, dtype="f2")),
                product,
                rtol=1e-4,
                atol=1e-3,
            ),
        ]
    for b, m, n, d, w in ((0, 3, 3, 4, 4), (2, 0, 3, 4, 4), (1, 1, 1, 1, 1), (2, 64, 64, 32, 32), (3, 77, 129, 64, 48)):
        calls.append(
            Call(
                f"{b}x{m}x{n}x{d}x{w}",
                "attention",
                "attention",
                lambda rng, b=b, m=m, n=n, d=d, w=w: (normal(rng, b, m, d), normal(rng, b, n, d), normal(rng, b, n, w)),
                attention,
                rtol=1e-4,
                atol=1e-5,
            )
        )
    return calls


def _launches() -> list[Call]:
    calls = [
        Call(
            "five",
            "launch_func",
            "times4",
            lambda rng: (5, np.zeros(2, "i4")),
            None,
            lambda a, out: {1: np.full(2, 4 * a, "i4")},
        ),
        Call(
            "wraps",
            "launch_func",
            "times4",
            lambda rng: (2**30, np.ones(2, "i4")),
            None,
            lambda a, out: {1: np.zeros(2, "i4")},
        ),
        Call("once", "alloc", "sync", lambda rng: ()),
        Call("once", "alloc", "with_tokens", lambda rng: ()),
    ]
    for n in (0, 1, 2, 257, 10007):
        for steps, negate in ((0, False), (1, True), (5, False)):
            calls.append(
                Call(
                    f"{n}-{steps}-{negate}",
                    "smooth",
                    "smooth",
                    lambda rng, n=n, s=steps, g=negate: (normal(rng, n), normal(rng, n), s, g),
                    None,
                    lambda x, out, s, g: {1: smooth(x, s, g)},
                )
            )
    return calls


def _kernels() -> list[Call]:
    calls = []
    for n, blocks in ((0, 3), (1, 1), (255, 2), (257, 1), (1_000_003, 7), (1_000_003, 264)):
        calls.append(
            Call(
                f"{n}-{blocks}",
                "block_sum",
                "block_sum",
                lambda rng, n=n, b=blocks: (normal(rng, n), normal(rng, b)),
                None,
                lambda x, partial: {1: block_sums(x, len(partial))},
                rtol=1e-4,
                atol=1e-3,
            )
        )
    for tiles in (0, 1, 7):
        calls.append(
            Call(
                f"{tiles}",
                "copy_async",
                "reverse_tiles",
                lambda rng, t=tiles: (normal(rng, 512 * t), normal(rng, 512 * t)),
                None,
                lambda x, out: {1: x.reshape(-1, 512)[:, ::-1].reshape(-1)},
                rtol=0,
                atol=0,
                capability=(8, 0),
            )
        )
    for m, n, k in ((16, 8, 16), (48, 24, 160), (128, 64, 96)):
        calls.append(
            Call(
                f"{m}x{n}x{k}",
                "mma_sync",
                "mma_nt",
                lambda rng, m=m, n=n, k=k: (
                    normal(rng, m, k, dtype="f2"),
                    normal(rng, n, k, dtype="f2"),
                    normal(rng, m, n),
                ),
                None,
                lambda a, b, c: {2: product(a, b.T)},
                rtol=1e-4,
                atol=1e-4,
                capability=(8, 0),
            )
        )
    for m, n, k in ((128, 128, 64), (128, 256, 192), (256, 384, 512)):
        calls.append(
            Call(
                f"{m}x{n}x{k}",
                "wgmma",
                "matmul",
                lambda rng, m=m, n=n, k=k: (
                    normal(rng, m, k, dtype="f2"),
                    normal(rng, k, n, dtype="f2"),
                    normal(rng, m, n),
                ),
                None,
                lambda a, b, d: {2: product(a, b)},
                rtol=1e-4,
                atol=1e-3,
                capability=(9, 0),
            )
        )
    return calls


def block_sums(x: Array, blocks: int) -> Array:
    """What each block of 256 threads adds up when all walk over x in a grid-stride loop."""
    padded = np.zeros(math.ceil(max(len(x), 1) / (256 * blocks)) * 256 * blocks)
    padded[: len(x)] = x
    return padded.reshape(-1, blocks, 256).sum((0, 2)).astype("f4")


EXAMPLES = [*_pointwise(), *_rows(), *_contractions(), *_launches(), *_kernels()]
