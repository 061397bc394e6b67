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

import cpuslots
from cpurun import CallError, linked, scratch, told

from aot import host, mlir
from aot.lower import cpu, tensor
from aot.lower.tolinalg import unitviews
from aot.model import Function
from aot.targets import cpuvariant
from aot.tools import toolchain

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
    loads: int = 0
    """Host reads of device memory: CPU code has none."""


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
        slots, keep = cpuslots.slots(function, arguments, lambda value: int(value.ctypes.data))
        entry = ctypes.cast(getattr(self.library, f"aot_cpu_entry_test__{name}__{self.variant}"), ctypes.c_void_p)
        self.library.cpucall_call.restype = ctypes.c_char_p
        for option, value in (("threads", threads), ("split", int(split))):
            ctypes.c_int.in_dll(self.library, f"cpucall_{option}").value = value
        error = self.library.cpucall_call(entry, slots)
        regions = ctypes.c_int64.in_dll(self.library, "cpucall_regions").value
        results = [] if error else cpuslots.results((self.library, "cpucall_results"), function, arguments, keep)
        swept = self.library.cpucall_sweep()
        if error:
            raise CallError(told(error, self.messages))
        return Outcome(results, swept, regions, self.library.cpucall_allocations())


def build(source: str, variant: str, *, wide: bool = True, zeros: bool = False) -> Program:
    """Compile a source for one variant."""
    chosen = next(each for each in cpuvariant.of(TRIPLE) if each.name == variant)
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "test.mlir", ctx)
        unitviews.settle(module)
        mlir.run_passes(module, ["inline{default-pipeline=}"], "inlining")
        options = tensor.Options(wide_accumulation=wide, masked_zeros=zeros)
        prepared = cpu.prepare(module, {}, options, mlir.no_dump)
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
