"""The kernel of ``attention_triton.py`` as Triton compiles it for sm_80; the first call tries ``TILES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton_sm80
from attention_sources import Attention
from attention_triton import EXPONENTS, TILES, attention
from triton_sm80 import Kernel


def make(of: Attention) -> Callable[..., Any]:
    """A callable that allocates its result, as PyTorch's do."""
    chosen: list[Kernel] = []

    def call(q: Any, k: Any, v: Any) -> Any:
        batch, heads, group, queries, depth = q.shape
        r = torch.empty_like(q)
        arguments = [q, k, v, r, queries, k.shape[2], group, EXPONENTS]

        def launch(kernel: Kernel) -> None:
            kernel.launch(arguments, (triton.cdiv(queries, kernel.tile[0]), batch * heads * group))

        if not chosen:
            kernels = [
                triton_sm80.compile_for(attention, arguments, (bool(of.mask), depth, *tile[:2]), tile) for tile in TILES
            ]
            chosen.append(triton_sm80.fastest(kernels, launch))
        launch(chosen[0])
        return r

    return call
