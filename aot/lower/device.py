"""Device code: one gpu.module, made ready for gpu-module-to-binary for one target.

In: a module with the source's joined gpu.module (gpu.func or llvm.func kernels, any dialects). Out: a module
of its own with that gpu.module in the LLVM and NVVM dialects and ``#nvvm.target`` attached.

>>> isolated = isolate(host_module)                                     # doctest: +SKIP
>>> lowered = lower(isolated, DeviceJob(target("sm_80"), (8, 8)), no_dump)   # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.arch import Target, Version, features
from aot.errors import ArchUnfit, LoweringError
from aot.lower import asynccopies, byvalue, devicemath, devicevectors, imageneeds, lineinfo, needs, search, sharedmemory

IMAGE_ID = "aot_image"
"""Device constant (i32) that holds the position of an image among its source's images."""
CONSTANT_SPACE = 4

LOWERED_DIALECTS = ("llvm", "nvvm")
LEFT_ALONE = ("builtin.module", "gpu.module", "gpu.binary")
MOST_SHOWN = 8
CAST = "builtin.unrealized_conversion_cast"
_BYSTANDERS = ("arith", "index")


@dataclass(frozen=True)
class DeviceJob:
    """What a gpu.module is lowered for."""

    target: Target
    ptx: Version
    """PTX ISA version to write."""
    image: int = 0
    """Position among the source's images."""
    bare_pointers: bool = False
    """Memref parameters are single pointers (static shapes only) instead of whole descriptors."""
    aligned_vectors: bool = False
    """vector.load/store and transfers are aligned to the whole vector. Only code that we generate can
    promise that: at an odd offset such an access faults."""
    optimization: int = 3
    lineinfo: bool = False
    """Machine code says which line it comes from."""


@dataclass(frozen=True)
class Step:
    """Passes that run when an operation of one of the dialects (all: always) is in the module."""

    passes: tuple[str, ...]
    dialects: tuple[str, ...] = ()


LOOPS: tuple[Step, ...] = (Step(("gpu.module(convert-linalg-to-loops)",), ("linalg",)),)
VECTORS = (
    # Transfers of more than one dimension become one-dimensional ones, unrolled: loops would spill to memory.
    "gpu.module(convert-vector-to-scf{full-unroll=true})",
    "gpu.module(convert-vector-to-llvm{use-vector-alignment=%s})",
)
TO_BRANCHES: tuple[Step, ...] = (
    Step(("lower-affine", "gpu.module(convert-scf-to-cf)", "gpu.module(expand-strided-metadata)", "lower-affine")),
    Step(("gpu.module(arith-expand)",), ("arith",)),
    Step(("gpu.module(convert-complex-to-standard)",), ("complex",)),
    Step(("gpu.module(math-expand-ops{ops=clampf})",), ("math",)),
)
AFTER_TARGET: tuple[Step, ...] = (
    # math.trunc and the integer functions: upstream's device conversion leaves them.
    Step(("gpu.module(convert-math-to-llvm)",), ("math",)),
    Step(("gpu.module(convert-complex-to-llvm)",), ("complex",)),
    Step(("gpu.module(convert-vector-to-llvm)",), ("vector",)),
    Step(("gpu.module(convert-arith-to-llvm)",), ("arith",)),
    Step(("gpu.module(convert-ub-to-llvm)",), ("ub",)),
    Step(("gpu.module(canonicalize,cse)", "convert-nvvm-to-llvm", "gpu.module(reconcile-unrealized-casts)")),
)


def isolate(module: mlir.Module) -> mlir.Module:
    """A new module that holds a copy of the gpu.modules of ``module`` and nothing else.

    Targets that the user attached are dropped: the ones to build come from the request.
    """
    ctx = module.context
    alone = ir.Module.create(ir.Location.unknown(ctx))
    alone.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(ctx)
    with ir.InsertionPoint(alone.body):
        for op in module.body.operations:
            if op.operation.name == "gpu.module":
                copy = op.operation.clone()
                if "targets" in copy.attributes:
                    del copy.attributes["targets"]
    return alone


def lower(isolated: mlir.Module, job: DeviceJob, dump: mlir.Dumper = mlir.no_dump) -> mlir.Module:
    """A lowered copy of ``isolated``; ArchUnfit or LoweringError with places in the source otherwise."""
    module = isolate(isolated)
    what = f"lowering to {job.target.name}"
    imageneeds.leave_out(module, job.target)
    asynccopies.plain(module, job.target)
    needs.check(module, job.target)
    if _has_debug_info(module):
        # With debug information ptxas refuses to optimise; without any, the pass would still drop the
        # places that kernel assertions print.
        mlir.run_passes(module, ["gpu.module(strip-debuginfo)"], what)
    devicemath.lower(module)
    sharedmemory.align(module)
    _run(module, LOOPS, what)
    _lower_vectors(module, job, what)
    _run(module, TO_BRANCHES, what)
    _attach(module, job)
    _number_image(module, job.image)
    conversion = (
        f"gpu.module(convert-gpu-to-nvvm{{index-bitwidth=0 use-bare-ptr-memref-call-conv={_word(job.bare_pointers)}}})"
    )
    by_value = byvalue.find(module)
    mlir.run_passes(module, [conversion], what)
    byvalue.apply(module, by_value)
    needs.check(module, job.target)
    _run(module, AFTER_TARGET, what)
    _hide_device_functions(module)
    _name_assertion_files(module)
    _refuse_leftovers(module, job.target)
    if job.lineinfo:
        lineinfo.add(module)
    dump(f"device-{job.target.name}", module)
    return module


def _lower_vectors(module: mlir.Module, job: DeviceJob, what: str) -> None:
    if "vector" in _dialects(module):
        devicevectors.lower(module)
        mlir.run_passes(module, [VECTORS[0], VECTORS[1] % _word(job.aligned_vectors)], what)


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _run(module: mlir.Module, steps: Sequence[Step], what: str) -> None:
    known: set[str] = set()
    for step in steps:
        # Asked again only where a pass may have changed the answer.
        if step.dialects and not known:
            known = _dialects(module)
        if not step.dialects or known.intersection(step.dialects):
            mlir.run_passes(module, step.passes, what)
            known = set()


def _dialects(module: mlir.Module) -> set[str]:
    return {name.split(".")[0] for name in mlir.op_names(module)}


def _attach(module: mlir.Module, job: DeviceJob) -> None:
    """Attach the target; its verifier knows some misfits that our table does not."""
    target = f"chip={job.target.chip} O={job.optimization} features={features(job.ptx)}"
    try:
        mlir.run_passes(module, [f"nvvm-attach-target{{{target}}}"], "attaching the target", error=ArchUnfit)
    except ArchUnfit as error:
        raise needs.unfit(module, job.target, "does not fit", error.diagnostics) from None


def _number_image(module: mlir.Module, image: int) -> None:
    """Define the constant by which the runtime can tell which image the driver took."""
    ctx = module.context
    i32 = ir.IntegerType.get_signless(32, context=ctx)
    for op in module.body.operations:
        if op.operation.name != "gpu.module":
            continue
        with ir.InsertionPoint.at_block_begin(op.operation.regions[0].blocks[0]), ir.Location.unknown(ctx):
            ir.Operation.create(
                "llvm.mlir.global",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(IMAGE_ID),
                    "global_type": ir.TypeAttr.get(i32),
                    "value": ir.IntegerAttr.get(i32, image),
                    "constant": ir.UnitAttr.get(),
                    "addr_space": ir.IntegerAttr.get(i32, CONSTANT_SPACE),
                    "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
                },
            )


def _has_debug_info(module: mlir.Module) -> bool:
    """Whether a location carries debug information of the LLVM dialect."""
    text = module.operation.get_asm(enable_debug_info=True, large_elements_limit=4)
    return "#llvm.di_" in str(text)


def _hide_device_functions(module: mlir.Module) -> None:
    """Only kernels are called from outside; what is internal is inlined and left out where it is not needed."""
    for op in search.named(module, "llvm.func"):
        is_kernel = "nvvm.kernel" in op.attributes or "gpu.kernel" in op.attributes
        if op.regions[0].blocks and not is_kernel:
            op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>", module.context)


def _name_assertion_files(module: mlir.Module) -> None:
    """Put the source's file name where the bindings' name for unnamed input would be printed.

    Without its folder: the package must not depend on where it was built.
    """
    file = module.context.aot_path.replace("\\", "/").rsplit("/", 1)[-1]
    for op in search.named(module, "llvm.mlir.global"):
        if mlir.symbol_name(op).startswith("assert_file_"):
            text = ir.StringAttr(op.attributes["value"]).value
            if text == "-\0" and file:
                _set_text(op, file + "\0")


def _set_text(op: mlir.Operation, text: str) -> None:
    size = len(text.encode())
    op.attributes["value"] = ir.StringAttr.get(text)
    op.attributes["global_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{size} x i8>"))


def _refuse_leftovers(module: mlir.Module, target: Target) -> None:
    """What is not LLVM dialect now would take the translator down."""
    names = {name for name in mlir.op_names(module) if _is_leftover(name)}
    if not names:
        return
    left = search.named(module, *names)
    path = module.context.aot_path or "module"
    # Casts and index arithmetic are left around the operation that could not be lowered: it is the one to name.
    casts = [op for op in left if op.name == CAST]
    guilty = [op for op in left if op.name != CAST and op.name.split(".")[0] not in _BYSTANDERS] or casts or left
    told = ", ".join(sorted({f"'{_told(op)}'" for op in guilty}))
    places = dict.fromkeys(mlir.diagnostic_at(op, f"'{_told(op)}' has no lowering to GPU code") for op in guilty)
    raise LoweringError(
        f"{path}: cannot lower {told} to GPU code for {target.name}", diagnostics=tuple(places)[:MOST_SHOWN]
    )


def _is_leftover(name: str) -> bool:
    return name not in LEFT_ALONE and name.split(".")[0] not in LOWERED_DIALECTS


def _told(op: mlir.Operation) -> str:
    if op.name != CAST:
        return str(op.name)
    return f"conversion of {op.operands[0].type} to {op.results[0].type}"
