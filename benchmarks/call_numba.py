"""Numba's kernels of call.py: sums of 256 floats, by numbers of arrays and scalars; the last array is written."""

from __future__ import annotations

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.30 asks for this name of it, which NumPy 2.5 has no more
from numba import cuda


@cuda.jit
def arrays0():
    pass


@cuda.jit
def arrays1(out):
    i = cuda.threadIdx.x
    out[i] = i


@cuda.jit
def arrays2(a, out):
    i = cuda.threadIdx.x
    out[i] = a[i]


@cuda.jit
def arrays4(a, b, c, out):
    i = cuda.threadIdx.x
    out[i] = a[i] + b[i] + c[i]


@cuda.jit
def arrays8(a, b, c, d, e, f, g, out):
    i = cuda.threadIdx.x
    out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i]


@cuda.jit
def arrays4_scalars2(a, b, c, out, s, t):
    i = cuda.threadIdx.x
    out[i] = s * (a[i] + b[i] + c[i]) + t


KERNELS = {
    (0, 0): arrays0,
    (1, 0): arrays1,
    (2, 0): arrays2,
    (4, 0): arrays4,
    (8, 0): arrays8,
    (4, 2): arrays4_scalars2,
}
