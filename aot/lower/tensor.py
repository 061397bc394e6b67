"""Tensor level: host functions on tensors and buffers become host code that launches.

In: a module whose public functions compute with linalg, tensor, affine, scf, memref (functions inlined, nothing
else done), and the argument names found in the source text. Out: functions on memrefs that return numbers only,
with all work inside ``gpu.launch`` and memory from the runtime; their signatures; texts of host assertions.

>>> done = lower(module, {"add": ["x", "y"]}, Options(), mlir.no_dump)        # doctest: +SKIP
>>> done.functions[0].results
(Result(type=ArrayType(kind='tensor', dtype='f32', shape=(None,)), argument=None),)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from aot import mlir
from aot.lower.bufferization import bufferize, bufferpipeline, buffers, constants, results
from aot.lower.checks import asserts, hostcheck, negativesizes, shapecheck
from aot.lower.contract import dispatch as contractions
from aot.lower.contract.choice import Images
from aot.lower.fast import dispatch
from aot.lower.fast.dispatch import General
from aot.lower.fast.wished import Wished
from aot.lower.general import launchnest, leftovers, mapped, schedule
from aot.lower.gpumodule import imageneeds
from aot.lower.hostmodule import cost, resultextents
from aot.lower.launches import captures, grid, tiling, vectors
from aot.lower.numbers import numerics, powers, precision, scaledfloats, smallfloat
from aot.lower.source import badconstants, signature
from aot.lower.tolinalg import (
    affinetensors,
    argmax,
    elementwise,
    frontend,
    keptdims,
    repeatedheads,
    turnedfactors,
    unitslices,
)
from aot.mlir import Dumper
from aot.model import READS_DEVICE, Function
from aot.settings.wishes import FAST, Dropped, Wish
from aot.targets.arch import Capability


@dataclass(frozen=True)
class Options:
    """What a user may choose for a source."""

    wide_accumulation: bool = True
    """f16 and bf16 reductions accumulate in f32; a sum of many small values would stand still otherwise."""
    precision: str = precision.EXACT
    """Of products of f32 matrices, where the source does not say it."""
    masked_zeros: bool = False
    """Rows of a softmax that have nothing but minus infinity become zeros, not NaN."""
    schedules: str = FAST
    """Of functions without wishes: by class where one covers the work; or the general one for all of it."""
    wishes: tuple[Wish, ...] = ()
    """Schedules that the user chose."""
    dropped: tuple[Dropped, ...] = ()
    """Kernels that turned out to need too many registers."""
    capabilities: tuple[Capability, ...] = ()
    """Of the images to be made; empty where none are."""


@dataclass(frozen=True)
class TensorLowered:
    """A lowered tensor-level module."""

    module: ir.Module
    """Not always the object that was given."""
    functions: tuple[Function, ...]
    """``entry`` is empty: symbols are named when host code is compiled."""
    messages: tuple[str, ...]
    """Of host assertions, by the index that ``@aot_rt_assert`` gets."""
    notes: tuple[str, ...] = ()
    general: General = field(default_factory=General)


def lower(module: ir.Module, names: Mapping[str, Sequence[str]], options: Options, dump: Dumper) -> TensorLowered:
    """Lower all functions of a module; the module is changed."""
    functions = signature.read(module, names)
    signature.protect_inputs(module, functions)
    precision.mark(module, options.precision)
    to_linalg(module, functions, options)
    functions = cost.estimate(module, functions)
    argmax.lower(module)
    dump("linalg", module)
    bufferize.to_memrefs(module)
    dump("buffers", module)
    done = bufferpipeline.settle(module, functions, everywhere=False)
    functions = tuple(replace(each, checked=each.name not in done.unchecked) for each in functions)
    module = done.module
    dump("memory", module)
    mapped.emit(module)
    wished = Wished(options.wishes, options.dropped, options.schedules)
    if wished.heard(functions):
        dispatch.generalize(module)
        contractions.emit(module, wished.free(functions), Images(options.capabilities), wished)
        dump("contractions", module)
    precision.forget(module)
    general = dispatch.emit(module, functions, wished)
    dump("regions", module)
    launchnest.emit(module, functions)
    dump("launches", module)
    functions = resultextents.found(module, functions)
    # As allocations until here: passes know that fresh memory overlaps nothing.
    results.hand_over(module, functions)
    buffers.to_device(module)
    messages = asserts.rewrite(module)
    reads = _finish(module)
    dump("device", module)
    functions = tuple(replace(each, flags=(READS_DEVICE,)) if each.name in reads else each for each in functions)
    return TensorLowered(module, functions, messages, (done.note,) if done.note else (), general)


def to_linalg(module: ir.Module, functions: Sequence[Function], options: Options) -> None:
    """Bring functions to linalg on tensors, with their checks of extents; what GPU and CPU code have in common."""
    frontend.run_scripts(module)
    frontend.refuse(module)
    affinetensors.lower(module)
    scaledfloats.lower(module)
    frontend.decompose(module, masked_zeros=options.masked_zeros)
    unitslices.settle(module)
    elementwise.lower_foldable(module)
    negativesizes.check(module)
    mlir.run_passes(module, ["canonicalize"], "simplifying")
    # Of what became a constant, too.
    negativesizes.check(module)
    badconstants.check(module)
    if options.wide_accumulation:
        numerics.widen(module)
    shapecheck.of_concatenations(module, functions)
    frontend.to_linalg(module)
    powers.lower(module)
    turnedfactors.fold(module)
    frontend.fuse(module)
    keptdims.drop(module)
    repeatedheads.split(module)
    shapecheck.insert(module, functions)
    results.aim(module, functions)
    frontend.clean(module)
    frontend.separate_fills(module)


def _finish(module: ir.Module) -> frozenset[str]:
    """What launches need to be outlined; the functions whose host code reads device memory."""
    grid.linearise(module)
    constants.sink(module)
    reads = leftovers.to_device(module)
    vectors.sink(module)
    constants.sink(module)
    smallfloat.rewrite(module)
    mlir.run_passes(module, ["canonicalize", "cse"], "simplifying host code")
    # What host code reads, too, has become one operation outside of the kernels.
    constants.sink(module)
    for op in mlir.walk(module):
        if op.name == "gpu.launch" and tiling.SCHEDULE not in op.attributes:
            tiling.mark(op, "leftover", 0, schedule.ONE_THREAD, {"threads": 1})
    imageneeds.mark_less_shared(module)
    captures.slim(module)
    hostcheck.check(module)
    mlir.verify(module, "tensor-level lowering")
    return reads
