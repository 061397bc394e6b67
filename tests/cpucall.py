"""Calls CPU code of tensor-level functions, as a package's runtime does, with numpy arrays.

In: the text of a source. Out: functions on numpy arrays, for one kind of processor. The runtime is a small one
(``cpucall.c``) that is harder to please than the real one.

>>> program = build("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { ... }", "v3")   # doctest: +SKIP
>>> program.call("f", numpy.ones(3, "f4")).results
[array([2., 2., 2.], dtype=float32)]
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from cpurun import CallError, dtype, linked, scratch

from aot import cpuvariant, host, mlir, toolchain
from aot.lower import cpu
from aot.model import ArrayType, Function, ScalarType

RUNTIME = Path(__file__).with_name("cpucall.c")
HALVES = Path(__file__).parents[1] / "templates" / "runtime" / "rt_half.c"
TRIPLE = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}[platform.machine()]
_NEEDS = {"v2": "sse4_2", "v3": "avx2", "v4": "avx512vl", "generic": ""}


def runnable() -> list[str]:
    """Variants that this machine can run."""
    flags = Path("/proc/cpuinfo").read_text()
    return [each.name for each in cpuvariant.of(TRIPLE) if _NEEDS[each.name] in flags]


@dataclass(frozen=True)
class Outcome:
    """What one call gave."""

    results: list[Any]
    """Arrays and numbers, in the order of the signature; the argument's own array where a result is an argument."""
    swept: int
    """Buffers that were alive at the end."""
    regions: int
    """Calls of aot_rt_parallel."""
    allocations: int


@dataclass(frozen=True)
class Program:
    """The CPU code of a source, loaded."""

    functions: tuple[Function, ...]
    messages: tuple[str, ...]
    library: ctypes.CDLL
    variant: str
    llvm_ir: str

    def call(self, name: str, *arguments: Any, threads: int = 4, split: bool = True) -> Outcome:
        """One call. ``split``: among all threads in uneven parts, however small."""
        function = next(each for each in self.functions if each.name == name)
        slots, keep = _slots(function, arguments)
        entry = ctypes.cast(getattr(self.library, f"aot_cpu_entry_test__{name}__{self.variant}"), ctypes.c_void_p)
        self.library.cpucall_call.restype = ctypes.c_char_p
        for option, value in (("threads", threads), ("split", int(split))):
            ctypes.c_int.in_dll(self.library, f"cpucall_{option}").value = value
        error = self.library.cpucall_call(entry, slots)
        regions = ctypes.c_int64.in_dll(self.library, "cpucall_regions").value
        results = (
            [] if error else [_result(self.library, function, k, arguments, keep) for k in range(len(function.results))]
        )
        swept = self.library.cpucall_sweep()
        if error:
            raise CallError(error.decode())
        return Outcome(results, swept, regions, self.library.cpucall_allocations())


def build(source: str, variant: str, *, wide: bool = True) -> Program:
    """Compile a source for one variant."""
    chosen = next(each for each in cpuvariant.of(TRIPLE) if each.name == variant)
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        mlir.run_passes(module, ["inline{default-pipeline=}"], "inlining")
        prepared = cpu.prepare(module, {}, wide=wide, dump=mlir.no_dump)
        code = cpu.lower(prepared, cpu.CpuJob("test", chosen, ()), ctx, mlir.no_dump)
    made = host.assemble_cpu(code.llvm_ir, chosen, "test.mlir", toolchain.find())
    names = [f"aot_cpu_entry_test__{each.name}__{variant}" for each in prepared.functions]
    return Program(prepared.functions, code.messages, _load(made.assembly, names), variant, code.llvm_ir)


def _load(assembly: bytes, entries: Sequence[str]) -> ctypes.CDLL:
    """Entries are hidden in a package; here they must be seen."""
    folder = scratch()
    for name in entries:
        assembly = assembly.replace(b"\t.hidden\t" + name.encode() + b"\n", b"")
    (folder / "f.s").write_bytes(assembly)
    return linked(folder, "f.s", runtime=(RUNTIME, HALVES))


def _slots(function: Function, arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
    assert len(arguments) == len(function.args), f"{function.name} takes {len(function.args)} arguments"
    keep: list[Any] = []
    for value, argument in zip(arguments, function.args, strict=True):
        kind = dtype(argument.type.dtype)
        if isinstance(argument.type, ArrayType):
            assert value.dtype == kind, (function.name, argument, value.dtype)
            assert value.ndim == len(argument.type.shape), (function.name, argument, value.shape)
            address = value.ctypes.data
            words = [address, address, 0, *value.shape, *(s // kind.itemsize for s in value.strides)]
            keep.append((ctypes.c_int64 * len(words))(*words))
        else:
            keep.append(numpy.array([value]).astype(kind))
    for result in function.results:
        keep.append(numpy.zeros(1, dtype(result.type.dtype)))
    addresses = [each.ctypes.data if isinstance(each, numpy.ndarray) else ctypes.addressof(each) for each in keep]
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses), keep


class _Result(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.c_int64 * 16),
    )


def _result(library: ctypes.CDLL, function: Function, k: int, arguments: Sequence[Any], keep: list[Any]) -> Any:
    result = function.results[k]
    if result.argument is not None:
        return arguments[result.argument]
    if isinstance(result.type, ScalarType):
        return keep[len(function.args) + k][0]
    found = (_Result * 32).in_dll(library, "cpucall_results")[k]
    assert found.memory, f"result {k} of {function.name} was never asked for"
    shape = tuple(found.extents[: found.rank])
    kind = dtype(result.type.dtype)
    assert found.bytes == kind.itemsize * int(numpy.prod(shape, dtype="i8")), (function.name, found.bytes, shape)
    assert all(want in (None, have) for want, have in zip(result.type.shape, shape, strict=True)), shape
    return numpy.frombuffer(ctypes.string_at(found.memory, found.bytes), kind).reshape(shape).copy()
