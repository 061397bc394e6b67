"""The product of ``contractions_triton.py`` as Triton compiles it for sm_80; the first call tries ``TILES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
import triton_sm80
from contractions_sources import Product
from contractions_triton import product, strides
from triton_sm80 import Kernel

TILES = ((128, 256, 64, 3, 8), (128, 256, 32, 4, 8), (256, 128, 32, 4, 8), (128, 128, 32, 4, 4), (128, 128, 64, 3, 4))
"""Rows, columns, depth, stages, warps."""
_GROUP = 8


def make(of: Product, out: torch.dtype) -> Callable[..., Any]:
    """A callable that allocates its result, as the eager functions do."""
    chosen: list[Kernel] = []

    def call(a: Any, b: Any, x: Any = None) -> Any:
        m, k = a.shape
        n = b.shape[-2 if of.right == "nk" else -1]
        r = torch.empty(m, n, device=a.device, dtype=out)
        arguments = [a, b, a if x is None else x, r, m, n, k, *strides(of, b), m * k, n * k]

        def launch(kernel: Kernel) -> None:
            kernel.launch(arguments, (triton.cdiv(m, kernel.tile[0]) * triton.cdiv(n, kernel.tile[1]), 1))

        if not chosen:
            constants = [(of.epilogue, tl.float32, *tile[:3], _GROUP) for tile in TILES]
            kernels = [
                triton_sm80.compile_for(product, arguments, known, tile)
                for known, tile in zip(constants, TILES, strict=True)
            ]
            chosen.append(triton_sm80.fastest(kernels, launch))
        launch(chosen[0])
        return r

    return call
