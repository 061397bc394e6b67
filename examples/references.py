"""What the examples should compute, in NumPy: ``aot verify demo_kernels --against examples/references.py``.

Each function is named as the package's and gets its arguments as NumPy arrays and numbers. It computes in float64 and
returns what the function returns, or writes what the function writes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DIMS = {
    # Kernels with tiles of a fixed size check nothing: their callers must.
    "reverse_tiles": "x.0=3584,out.0=3584",
    "mma_nt": "a.0=48,a.1=160,b.0=24,b.1=160,c.0=48,c.1=24",
    "wgmma__matmul": "a.0=128,a.1=192,b.0=192,b.1=256,d.0=128,d.1=256",
    "block_sum": "x.0=10007,partial.0=7",
    "smooth": "x.0=10007,out.0=10007",
}
_erf = np.vectorize(math.erf, otypes=["f8"])


def square(x: Array, out: Array) -> Array:
    return x * x


def vector_add(x: Array, y: Array) -> Array:
    return x + y


def gelu(x: Array) -> Array:
    wide = x.astype("f8")
    return wide * (1 + _erf(wide / math.sqrt(2))) / 2


def gelu_tanh(x: Array) -> Array:
    wide = x.astype("f8")
    return wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2


def softmax(x: Array) -> Array:
    if not x.size:
        return x
    e = np.exp(x.astype("f8") - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    wide = x.astype("f8")
    return (wide - _mean(wide)) / np.sqrt(_mean(np.square(wide - _mean(wide))) + eps) * gamma + beta


def rmsnorm(x: Array, weight: Array, eps: float) -> Array:
    wide = x.astype("f8")
    return wide / np.sqrt(_mean(wide * wide) + eps) * weight


def matmul(a: Array, b: Array) -> Array:
    return a.astype("f8") @ b.astype("f8")


matmul_f16 = matmul


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = q.astype("f8") @ k.astype("f8").transpose(0, 2, 1) / np.sqrt(np.float64(q.shape[2]))
    return softmax(scores) @ v.astype("f8")


def times4(a: int, out: Array) -> None:
    out[:] = np.int64(4 * a).astype("i4")


def smooth(x: Array, out: Array, steps: int, negate: bool) -> None:
    wide = x.astype("f8")
    for _ in range(2 * steps):
        framed = np.concatenate([wide[:1], wide, wide[-1:]])
        wide = framed[:-2] / 4 + framed[1:-1] / 2 + framed[2:] / 4
    out[:] = -wide if negate else wide


def block_sum(x: Array, partial: Array) -> None:
    whole = 256 * len(partial)
    padded = np.zeros(math.ceil(len(x) / whole) * whole)
    padded[: len(x)] = x
    partial[:] = padded.reshape(-1, len(partial), 256).sum((0, 2))


def reverse_tiles(x: Array, out: Array) -> None:
    out[:] = x.reshape(-1, 512)[:, ::-1].reshape(-1)


def mma_nt(a: Array, b: Array, c: Array) -> None:
    c[:] = a.astype("f8") @ b.astype("f8").T


def wgmma__matmul(a: Array, b: Array, d: Array) -> None:
    d[:] = a.astype("f8") @ b.astype("f8")


def _mean(x: Array) -> Any:
    return x.sum(-1, keepdims=True) / max(1, x.shape[-1])
