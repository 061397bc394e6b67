"""Triton's kernels as it compiles them for sm_80, on whatever GPU is here.

Its own launcher loads cubins, and one for sm_80 runs on no other GPU; the driver compiles the PTX that it was made
from, as it does with that of a package without a fitting image.

In: a function, its arguments, constants and options. Out: a Kernel; the fastest one of several.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_TARGET = GPUTarget("cuda", 80, 32)
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

    def launch(self, arguments: Sequence[Any], blocks: tuple[int, int]) -> None:
        """On the current stream; without what became a constant."""
        values = [_value(each) for each in arguments if not _is_constant(each)]
        # Memory that Triton's kernels may ask for, and these do not.
        values += [ctypes.c_void_p(), ctypes.c_void_p()]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        sizes = (*blocks, 1, self.threads, 1, 1, self.shared)
        _check(_driver.cuLaunchKernel(self.function, *sizes, stream, pointers, None))


def compile_for(function: Any, arguments: Sequence[Any], constants: Sequence[Any], tile: tuple[int, ...]) -> Kernel:
    """A kernel; ``tile`` is told by the Kernel, and ends with stages and warps."""
    signature: dict[str, str] = {}
    known: dict[tuple[int], Any] = {}
    facts: dict[tuple[int], list[list[Any]]] = {}
    for number, (name, value) in enumerate(zip(function.arg_names, [*arguments, *constants], strict=True)):
        if number >= len(arguments) or _is_constant(value):
            signature[name], known[number,] = "constexpr", value
        else:
            signature[name] = _type(value)
            if isinstance(value, torch.Tensor) or (isinstance(value, int) and value % _WIDE == 0):
                facts[number,] = [["tt.divisibility", _WIDE]]
    stages, warps = tile[-2:]
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(ASTSource(function, signature, known, facts), target=_TARGET, options=options)
    module, handle = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver.cuModuleLoadData(ctypes.byref(module), made.asm["ptx"].encode()))
    _check(_driver.cuModuleGetFunction(ctypes.byref(handle), module, made.metadata.name.encode()))
    _check(_driver.cuFuncSetAttribute(handle, _MOST_SHARED, made.metadata.shared))
    return Kernel(handle, warps * 32, made.metadata.shared, tile)


def fastest(kernels: Sequence[Kernel], launch: Callable[[Kernel], None]) -> Kernel:
    """The one whose launches take least."""
    return min(kernels, key=lambda kernel: _time(lambda: launch(kernel)))


def _is_constant(argument: Any) -> bool:
    """Numbers that are 1 are known to the kernel."""
    return isinstance(argument, int) and argument == 1


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def _value(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int32(argument)


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
