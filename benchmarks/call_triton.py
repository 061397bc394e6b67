"""Triton's kernels of call.py: sums of 256 floats, by numbers of arrays and scalars; the last array is written."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def arrays0():
    return


@triton.jit
def arrays1(out):
    i = tl.arange(0, 256)
    tl.store(out + i, i.to(tl.float32))


@triton.jit
def arrays2(a, out):
    i = tl.arange(0, 256)
    tl.store(out + i, tl.load(a + i))


@triton.jit
def arrays4(a, b, c, out):
    i = tl.arange(0, 256)
    tl.store(out + i, tl.load(a + i) + tl.load(b + i) + tl.load(c + i))


@triton.jit
def arrays8(a, b, c, d, e, f, g, out):
    i = tl.arange(0, 256)
    first = tl.load(a + i) + tl.load(b + i) + tl.load(c + i) + tl.load(d + i)
    tl.store(out + i, first + tl.load(e + i) + tl.load(f + i) + tl.load(g + i))


@triton.jit
def arrays4_scalars2(a, b, c, out, s, t):
    i = tl.arange(0, 256)
    tl.store(out + i, s * (tl.load(a + i) + tl.load(b + i) + tl.load(c + i)) + t)


KERNELS = {
    (0, 0): arrays0,
    (1, 0): arrays1,
    (2, 0): arrays2,
    (4, 0): arrays4,
    (8, 0): arrays8,
    (4, 2): arrays4_scalars2,
}
