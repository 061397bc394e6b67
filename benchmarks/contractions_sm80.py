"""The product of ``contractions_triton.py`` as Triton compiles it for sm_80, on whatever GPU is here.

Triton's own launcher loads cubins, and one for sm_80 runs on no other GPU; the driver compiles the PTX that it was made
from, as it does with that of a package without a fitting image. The first call of ``make``'s result tries ``TILES``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from contractions_sources import Product
from contractions_triton import product, strides
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TILES = ((128, 256, 64, 3, 8), (128, 256, 32, 4, 8), (256, 128, 32, 4, 8), (128, 128, 32, 4, 4), (128, 128, 64, 3, 4))
"""Rows, columns, depth, stages, warps."""
_TARGET = GPUTarget("cuda", 80, 32)
_GROUP = 8
_WIDE = 16
"""What Triton specialises addresses and numbers for, if they are multiples."""
_MOST_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""
_POINTERS = {torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32"}
_CALLS = 10
_driver = ctypes.CDLL("libcuda.so.1")


@dataclass(frozen=True)
class Kernel:
    """One that the driver has loaded."""

    function: ctypes.c_void_p
    threads: int
    shared: int
    tile: tuple[int, ...]

    def launch(self, arguments: Sequence[Any], m: int, n: int) -> None:
        """On the current stream; without what became a constant."""
        values = [
            ctypes.c_void_p(each.data_ptr()) if isinstance(each, torch.Tensor) else ctypes.c_int32(each)
            for each in arguments
            if not _is_constant(each)
        ]
        # Memory that Triton's kernels may ask for, and these do not.
        values += [ctypes.c_void_p(), ctypes.c_void_p()]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        blocks = triton.cdiv(m, self.tile[0]) * triton.cdiv(n, self.tile[1])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        sizes = (blocks, 1, 1, self.threads, 1, 1, self.shared)
        _check(_driver.cuLaunchKernel(self.function, *sizes, stream, pointers, None))


def make(of: Product, out: torch.dtype) -> Callable[..., Any]:
    """A callable that allocates its result, as the eager functions do."""
    chosen: list[Kernel] = []

    def call(a: Any, b: Any, x: Any = None) -> Any:
        m, k = a.shape
        n = b.shape[-2 if of.right == "nk" else -1]
        r = torch.empty(m, n, device=a.device, dtype=out)
        arguments = [a, b, a if x is None else x, r, m, n, k, *strides(of, b), m * k, n * k]
        if not chosen:
            kernels = [_compile(of, arguments, tile) for tile in TILES]
            chosen.append(min(kernels, key=lambda kernel: _time(lambda: kernel.launch(arguments, m, n))))
        chosen[0].launch(arguments, m, n)
        return r

    return call


def _is_constant(argument: Any) -> bool:
    """Numbers that are 1 are known to the kernel."""
    return isinstance(argument, int) and argument == 1


def _compile(of: Product, arguments: Sequence[Any], tile: tuple[int, ...]) -> Kernel:
    *sizes, stages, warps = tile
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    facts: dict[tuple[int], list[list[Any]]] = {}
    for number, (name, value) in enumerate(
        zip(product.arg_names, [*arguments, of.epilogue, tl.float32, *sizes, _GROUP], strict=True)
    ):
        if number >= len(arguments) or _is_constant(value):
            signature[name], constants[number,] = "constexpr", value
        else:
            signature[name] = _POINTERS[value.dtype] if isinstance(value, torch.Tensor) else "i32"
            if isinstance(value, torch.Tensor) or value % _WIDE == 0:
                facts[number,] = [["tt.divisibility", _WIDE]]
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(ASTSource(product, signature, constants, facts), target=_TARGET, options=options)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver.cuModuleLoadData(ctypes.byref(module), made.asm["ptx"].encode()))
    _check(_driver.cuModuleGetFunction(ctypes.byref(function), module, made.metadata.name.encode()))
    _check(_driver.cuFuncSetAttribute(function, _MOST_SHARED, made.metadata.shared))
    return Kernel(function, warps * 32, made.metadata.shared, tile)


def _time(call: Callable[[], None]) -> float:
    """Milliseconds of a few calls, after one that is not counted."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    begin.record()
    for _ in range(_CALLS):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"the driver says {code}")
