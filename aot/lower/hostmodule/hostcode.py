"""Host functions become LLVM IR.

In: the joined module (``outline.join``), signatures and kernels. Out: LLVM IR as text: one hidden entry point per
public function, everything else internal, launches as calls of the runtime, and nothing undefined that the
runtime, the C math library or libc do not have.

>>> text = lower(joined.host, functions, kernels, "softmax")            # doctest: +SKIP
>>> "define hidden void @aot_entry_softmax__softmax(ptr" in text
True
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import symbols
from aot.lower.gpumodule import device, flatvectors, switchblocks
from aot.lower.hostmodule import division, entries, externals, launchcall
from aot.lower.numbers import atomics, integerpowers
from aot.lower.source import sourcelevel
from aot.model import HOST_SYNC, LAUNCH, Function, Kernel

FIRST = {
    "scf.forall": "func.func(scf-forall-to-parallel)",
    "memref.realloc": "expand-realloc",
    "complex.": "func.func(convert-complex-to-standard)",
    "math.clampf": "func.func(math-expand-ops{ops=clampf})",
}
"""Start of an operation's name -> the pass that is needed when there are such operations."""
TO_LOOPS = (
    "convert-linalg-to-loops",
    "convert-vector-to-scf",
    "lower-affine",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    # Names of the runtime's allocator instead of malloc; before gpu-to-llvm, which would choose malloc.
    "finalize-memref-to-llvm{use-generic-functions}",
    "gpu-to-llvm",
    "reconcile-unrealized-casts",
)
ASYNC_REGIONS = ("func.func(gpu-async-region)",)
# Before gpu-to-llvm, these passes would take the tokens away that it needs.
TO_COROUTINES = ("async-to-async-runtime",)
FROM_COROUTINES = ("async-runtime-ref-counting", "convert-async-to-llvm")
FRAMES = {"aligned_alloc": "_mlir_memref_to_llvm_aligned_alloc", "free": "_mlir_memref_to_llvm_free"}
"""Allocator of coroutine frames -> the runtime's, which frees what a failing call leaves behind."""
TO_LLVM = (
    "convert-vector-to-llvm",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-complex-to-llvm",
    "finalize-memref-to-llvm{use-generic-functions}",
    "convert-index-to-llvm",
    "convert-ub-to-llvm",
    "convert-arith-to-llvm",
    "convert-cf-to-llvm",
    "convert-func-to-llvm",
    "canonicalize",
    "cse",
    "reconcile-unrealized-casts",
)


def lower(
    host: mlir.Module, functions: Sequence[Function], kernels: Sequence[Kernel], source: str, dump: mlir.Dumper
) -> str:
    """LLVM IR of the host functions; ``host`` stays as it is."""
    module = host.operation.clone()
    _leave_device_code_out(module)
    drop_interfaces(module)
    stacks = _own_stacks(module)
    atomics.lower(module)
    integerpowers.lower(module)
    division.guard(module)
    _run(module)
    rule = launchcall.LaunchRule(
        f"aot_source_{source}",
        {kernel.symbol: number for number, kernel in enumerate(kernels)},
        frozenset(entries.lowered_name(each, source) for each in functions if not _waits(each)),
    )
    launchcall.lower(module, rule)
    launchcall.hoist_stack_memory(module, stacks)
    _erase_binaries(module)
    text = finish(module, entries.named(functions, source), source)
    dump("host-llvm", module)
    return text


def finish(module: mlir.Module, functions: Sequence[Function], source: str) -> str:
    """LLVM IR of code in the LLVM dialect, with the entry points that ``functions`` name, and nothing undefined."""
    _make_internal(module)
    entries.add(module, functions, source)
    externals.drop_unused(module)
    _check(module)
    switchblocks.separate(module)
    mlir.verify(module, "host code")
    mlir.mark(module.context, "translating host code to LLVM IR")
    return str(llvm.translate_module_to_llvmir(module.operation))


def _waits(function: Function) -> bool:
    return function.level == LAUNCH and HOST_SYNC in function.flags


def _leave_device_code_out(module: mlir.Module) -> None:
    """Put an empty gpu.binary where the gpu.module is: launches need the symbol, host passes must not see kernels."""
    for op in [each.operation for each in module.operation.regions[0].blocks[0].operations]:
        if op.name != "gpu.module":
            continue
        attributes = {
            "sym_name": ir.StringAttr.get(mlir.symbol_name(op)),
            "objects": ir.Attribute.parse('[#gpu.object<#nvvm.target, bin = "">]'),
            # Required: without it, printing the operation in an error message ends the process.
            "offloadingHandler": ir.Attribute.parse("#gpu.select_object"),
        }
        with ir.InsertionPoint(op), op.location:
            ir.Operation.create("gpu.binary", attributes=attributes)
        op.erase()


def drop_interfaces(module: mlir.Module) -> None:
    """Entry points replace the C wrappers that a source may ask for; declarations need theirs."""
    for op in sourcelevel.host_functions(module):
        if "llvm.emit_c_interface" in op.attributes:
            del op.attributes["llvm.emit_c_interface"]


def _own_stacks(module: mlir.Module) -> frozenset[str]:
    """Functions with a ``memref.alloca``."""
    functions = sourcelevel.host_functions(module)
    return frozenset(
        mlir.symbol_name(each) for each in functions if any(op.name == "memref.alloca" for op in mlir.walk(each))
    )


def _run(module: mlir.Module) -> None:
    what = "lowering host code"
    names = mlir.op_names(module)
    asynchronous = any(name.startswith("async.") for name in names)
    flatvectors.lower_host(module)
    mlir.run_passes(
        module, [text for name, text in FIRST.items() if any(each.startswith(name) for each in names)], what
    )
    mlir.run_passes(module, [*(ASYNC_REGIONS if asynchronous else ()), *TO_LOOPS], what)
    if asynchronous:
        mlir.run_passes(module, TO_COROUTINES, what)
        _drop_error_checks(module)
        mlir.run_passes(module, FROM_COROUTINES, what)
    mlir.run_passes(module, TO_LLVM, what)
    if asynchronous:
        _own_frames(module)


def _drop_error_checks(module: mlir.Module) -> None:
    """Erase the assertions that an awaited token is not in error: ours never is, errors end the call at once."""
    for op in mlir.walk(module):
        if op.name == "cf.assert":
            op.erase()


def _own_frames(module: mlir.Module) -> None:
    for op in [each.operation for each in module.operation.regions[0].blocks[0].operations]:
        if op.name == "llvm.func" and mlir.symbol_name(op) in FRAMES:
            symbols.rename(op, FRAMES[mlir.symbol_name(op)])
    symbols.rename_references(module.operation, {(old,): (new,) for old, new in FRAMES.items()})


def _erase_binaries(module: mlir.Module) -> None:
    for op in [each.operation for each in module.operation.regions[0].blocks[0].operations]:
        if op.name == "gpu.binary":
            op.erase()
    attributes = module.operation.attributes
    for name in [each for each in attributes if each.split(".")[0] in ("gpu", "transform")]:
        del attributes[name]


def _make_internal(module: mlir.Module) -> None:
    """Everything that is defined here is nobody else's business."""
    internal = ir.Attribute.parse("#llvm.linkage<internal>")
    for op in [each.operation for each in module.operation.regions[0].blocks[0].operations]:
        is_function = op.name == "llvm.func" and sourcelevel.has_body(op)
        is_global = op.name == "llvm.mlir.global" and ("value" in op.attributes or sourcelevel.has_body(op))
        if is_function or is_global:
            op.attributes["linkage"] = internal


def _check(module: mlir.Module) -> None:
    """The translator crashes on what it does not know: find it first."""
    externals.check(module)
    left = [op for op in mlir.walk(module) if op.name != "builtin.module" and not op.name.startswith("llvm.")]
    if left:
        # Casts are left around the operation that could not be lowered: it is the one to name.
        guilty = [op for op in left if op.name != device.CAST] or left
        raise LoweringError(
            f"{module.context.aot_path}: host code with operations that have no lowering to LLVM",
            diagnostics=tuple(dict.fromkeys(mlir.diagnostic_at(op, f"'{op.name}' cannot be lowered") for op in guilty)),
        )
