"""NumPy's word on what the functions under test compute, in float64, rounded to the result's type at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf = np.vectorize(math.erf, otypes=["f8"])


def softmax(x: Array, axis: int = -1) -> Array:
    wide = x.astype("f8")
    if not wide.size:
        return x.copy()
    with np.errstate(invalid="ignore"):
        e = np.exp(wide - wide.max(axis, keepdims=True))
        return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def layernorm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    wide = x.astype("f8")
    if not wide.size:
        return x.copy()
    centred = wide - wide.mean(1, keepdims=True)
    return (centred / np.sqrt(wide.var(1, keepdims=True) + eps) * gamma + beta).astype(x.dtype)


def rmsnorm(x: Array, weight: Array, eps: float) -> Array:
    wide = x.astype("f8")
    if not wide.size:
        return x.copy()
    return (wide / np.sqrt((wide * wide).mean(1, keepdims=True) + eps) * weight.astype("f8")).astype(x.dtype)


def gelu(x: Array) -> Array:
    wide = x.astype("f8")
    return (wide * (1 + _erf(wide / math.sqrt(2))) / 2).astype(x.dtype)


def gelu_tanh(x: Array) -> Array:
    wide = x.astype("f8")
    return (wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2).astype(x.dtype)


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = q.astype("f8") @ k.astype("f8").transpose(0, 2, 1) / math.sqrt(q.shape[2])
    return (softmax(scores) @ v.astype("f8")).astype(q.dtype)


def smooth(x: Array, steps: int, negate: bool) -> Array:
    wide = x.astype("f8")
    for _ in range(2 * steps if len(x) else 0):
        framed = np.concatenate([wide[:1], wide, wide[-1:]])
        wide = framed[:-2] / 4 + framed[1:-1] / 2 + framed[2:] / 4
    return (-wide if negate else wide).astype(x.dtype)


def newton_sqrt(x: Array, tol: float) -> tuple[Array, int]:
    """Newton steps in f32, as the source has them, until the largest change is at most ``tol``."""
    y, change, steps = x.copy(), np.float32(np.inf), 0
    while change > np.float32(tol):
        following = ((y + x / y) * np.float32(0.5)).astype("f4")
        change = np.abs(following - y).max(initial=np.float32(0))
        y, steps = following, steps + 1
    return y, steps
