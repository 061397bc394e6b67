"""Tensor-level functions as CPU code: the order of the steps, and nothing else.

In: the module that ``tensor.lower`` takes, before it takes it. Out: for each variant LLVM IR with one entry
``void aot_cpu_entry_<source>__<function>__<variant>(void **slots)`` per function. Signatures, roles of arguments and
results are those of the GPU code: the same model.Function describes both.

>>> prepared = prepare(module, names, Options(), mlir.no_dump)                    # doctest: +SKIP
>>> code = lower(prepared, CpuJob("softmax", VARIANTS[1], ()), mlir.no_dump)      # doctest: +SKIP
>>> "define hidden void @aot_cpu_entry_softmax__softmax__v3(ptr" in code.llvm_ir  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from mlir import ir

from aot import mlir
from aot.lower import tensor
from aot.lower.bufferization import bufferize, bufferpipeline, results
from aot.lower.checks import asserts
from aot.lower.cpu import code, elementary, loops, parallel, stack
from aot.lower.hostmodule import division, resultextents
from aot.lower.numbers import atomics, integerpowers, smallfloat
from aot.lower.source import signature
from aot.lower.tensor import Options
from aot.mlir import Dumper
from aot.model import Function
from aot.targets.cpuvariant import Variant


@dataclass(frozen=True)
class Prepared:
    """Functions on buffers, as they are for every variant."""

    bytecode: bytes
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class CpuJob:
    """One variant of one source."""

    source: str
    """Namespace of the source."""
    variant: Variant
    messages: tuple[str, ...]
    """Texts of assertions that have a number already."""


@dataclass(frozen=True)
class CpuCode:
    """Code of one variant, before LLVM optimises it."""

    variant: Variant
    llvm_ir: str
    messages: tuple[str, ...]
    """All texts of assertions, those of the job first."""


def copy(module: ir.Module) -> ir.Module:
    """The module again, with its locations."""
    return ir.Module.parse(_bytecode(module), context=module.context)


def _bytecode(module: ir.Module) -> bytes:
    data = BytesIO()
    module.operation.write_bytecode(data)
    return data.getvalue()


def prepare(module: ir.Module, names: Mapping[str, Sequence[str]], options: Options, dump: Dumper) -> Prepared:
    """Bring the functions to linalg on buffers; the module is used up."""
    functions = signature.read(module, names)
    signature.protect_inputs(module, functions)
    tensor.to_linalg(module, functions, options)
    bufferize.to_memrefs(module)
    module = bufferpipeline.settle(module, functions, everywhere=True).module
    stack.to_heap(module)
    dump("cpu-buffers", module)
    return Prepared(_bytecode(module), resultextents.found(module, functions))


def lower(prepared: Prepared, job: CpuJob, context: mlir.Context, dump: Dumper) -> CpuCode:
    """LLVM IR for one variant."""
    module = ir.Module.parse(prepared.bytecode, context=context)
    name = job.variant.name
    loops.emit(module, prepared.functions, job.variant)
    dump(f"cpu-{name}-loops", module)
    results.hand_over(module, prepared.functions)
    messages = asserts.rewrite(module, earlier=job.messages)
    regions = parallel.outline(module)
    smallfloat.rewrite(module)
    atomics.lower(module)
    elementary.expand(module, fma=job.variant.fma)
    integerpowers.lower(module)
    division.guard(module)
    mlir.run_passes(module, ["canonicalize", "cse"], "simplifying code for the CPU")
    dump(f"cpu-{name}-parallel", module)
    functions = named(prepared.functions, job)
    text = code.lower(module, functions, code.Code(job.source, name, regions), dump)
    return CpuCode(job.variant, text, job.messages + messages)


def named(functions: Sequence[Function], job: CpuJob) -> tuple[Function, ...]:
    """The functions with the entry symbols of the variant."""
    return tuple(
        replace(each, entry=f"aot_cpu_entry_{job.source}__{each.name}__{job.variant.name}") for each in functions
    )
