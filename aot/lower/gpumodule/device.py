"""Device code: one gpu.module, made ready for gpu-module-to-binary for each of its targets.

In: a module with the source's joined gpu.module (gpu.func or llvm.func kernels, any dialects). Out: a module
of its own with that gpu.module in the LLVM and NVVM dialects and ``#nvvm.target`` attached.

Next to nothing of the way there depends on the target: which kernels an image holds, and whether our own have
asynchronous copies. Targets that agree in this have one form, and share all steps; forms that do not can be taken apart
into kernels that they share, and others.

>>> lowering = Lowering(isolate(host_module))                           # doctest: +SKIP
>>> lowered = lowering.lower(DeviceJob(target("sm_80"), (8, 8)))        # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from aot import mlir
from aot.errors import ArchUnfit, LoweringError
from aot.lower.analysis import opwalk
from aot.lower.gpumodule import (
    archrules,
    asynccopies,
    devicemath,
    earlystart,
    flatvectors,
    imageneeds,
    imagenumber,
    lineinfo,
    loopmarks,
    oldcode,
    sharedmemory,
    switchblocks,
)
from aot.lower.gpumodule.imageparts import Form
from aot.lower.launches import byvalue
from aot.lower.numbers import atomics
from aot.targets.arch import Target, Version, features

LOWERED_DIALECTS = ("llvm", "nvvm")
LEFT_ALONE = ("builtin.module", "gpu.module", "gpu.binary")
CAST = "builtin.unrealized_conversion_cast"
_BYSTANDERS = ("arith", "index")


@dataclass(frozen=True)
class DeviceJob:
    """What a gpu.module is lowered for."""

    target: Target
    ptx: Version
    """PTX ISA version to write."""
    form: Form | None = None
    """Part of the image; None: all of it."""


@dataclass(frozen=True)
class Checked:
    """A module, and what its operations need."""

    module: mlir.Module
    needs: archrules.Found


@dataclass
class Lowering:
    """The lowering of a source's kernels for any number of targets; ``isolated`` stays as it is."""

    isolated: mlir.Module
    lineinfo: bool = False
    """Machine code says which line it comes from."""
    _given: dict[Form, Checked] = field(default_factory=dict)
    _common: dict[Form, Checked] = field(default_factory=dict)
    _old: dict[Form, bool] = field(default_factory=dict)
    _fitting: set[tuple[Target, Form]] = field(default_factory=set)

    def form(self, target: Target) -> Form:
        """The form of a target."""
        left_out = tuple(mlir.symbol_name(op) for op in imageneeds.unmet(self.isolated, target))
        return Form(left_out, asynccopies.lacks(target))

    def prepare(self, target: Target, parts: Sequence[Form] = ()) -> None:
        """Lowers the code that targets share, or finds it; ArchUnfit when it is not for this one.

        ``parts``: of the target's form; without them it is lowered as a whole.
        """
        forms = [form for form in parts or (self.form(target),) if (target, form) not in self._fitting]
        for form in forms:
            if form not in self._given:
                self._given[form] = _checked(_formed(self.isolated, form))
        archrules.check([self._given[form].needs for form in forms], target)
        for form in forms:
            # What the target's verifier knows, it knows of operations that conversions take away.
            _attach(self._given[form].module, DeviceJob(target, (8, 0)))
            _drop_targets(self._given[form].module)
        for form in forms:
            if form not in self._common:
                self._common[form] = _checked(_lowered(self._given[form].module, target, lines=self.lineinfo))
        archrules.check([self._common[form].needs for form in forms], target)
        self._fitting.update((target, form) for form in forms)

    def module(self, form: Form) -> mlir.Module:
        """What ``prepare`` lowered."""
        return self._common[form].module

    def is_old(self, form: Form) -> bool:
        """Whether code that ``prepare`` lowered has only what LLVM writes alike for 8.0 and 9.0."""
        if form not in self._old:
            self._old[form] = oldcode.holds(self.module(form))
        return self._old[form]

    def lower(self, job: DeviceJob, dump: mlir.Dumper = mlir.no_dump) -> mlir.Module:
        """A module for one target; ArchUnfit or LoweringError with places in the source otherwise."""
        form = job.form or self.form(job.target)
        self.prepare(job.target, (form,))
        module = isolate(self.module(form))
        _attach(module, job)
        dump(f"device-{job.target.name}", module)
        return module


@dataclass(frozen=True)
class Step:
    """Passes that run when an operation of one of the dialects (all: always) is in the module."""

    passes: tuple[str, ...]
    dialects: tuple[str, ...] = ()


LOOPS = (Step(("gpu.module(convert-linalg-to-loops)",), ("linalg",)),)
VECTORS = (
    # Transfers of more than one dimension become one-dimensional ones, unrolled: loops would spill to memory.
    "gpu.module(convert-vector-to-scf{full-unroll=true})",
    "gpu.module(convert-vector-to-llvm)",
)
TO_BRANCHES: tuple[Step, ...] = (
    Step(("lower-affine", "gpu.module(convert-scf-to-cf)", "gpu.module(expand-strided-metadata)", "lower-affine")),
    Step(("gpu.module(arith-expand)",), ("arith",)),
    Step(("gpu.module(convert-complex-to-standard)",), ("complex",)),
    Step(("gpu.module(math-expand-ops{ops=clampf})",), ("math",)),
)
TO_NVVM = "gpu.module(convert-gpu-to-nvvm{index-bitwidth=0})"
AFTER_CONVERSION: tuple[Step, ...] = (
    # math.trunc and the integer functions: upstream's device conversion leaves them.
    Step(("gpu.module(convert-math-to-llvm)",), ("math",)),
    Step(("gpu.module(convert-complex-to-llvm)",), ("complex",)),
    Step(("gpu.module(convert-vector-to-llvm)",), ("vector",)),
    Step(("gpu.module(convert-arith-to-llvm)",), ("arith",)),
    Step(("gpu.module(convert-ub-to-llvm)",), ("ub",)),
    Step(("gpu.module(canonicalize,cse)", "convert-nvvm-to-llvm", "gpu.module(reconcile-unrealized-casts)")),
)


def isolate(module: mlir.Module) -> mlir.Module:
    """A new module with a copy of the gpu.modules alone, without targets: the request says which to build."""
    ctx = module.context
    alone = ir.Module.create(ir.Location.unknown(ctx))
    alone.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(ctx)
    with ir.InsertionPoint(alone.body):
        for op in module.body.operations:
            if op.operation.name == "gpu.module":
                op.operation.clone()
    _drop_targets(alone)
    return alone


def _drop_targets(module: mlir.Module) -> None:
    for op in module.body.operations:
        if "targets" in op.operation.attributes:
            del op.operation.attributes["targets"]


def _checked(module: mlir.Module) -> Checked:
    return Checked(module, archrules.find(module))


def _formed(isolated: mlir.Module, form: Form) -> mlir.Module:
    """A copy without what targets of this form lack."""
    module = isolate(isolated)
    imageneeds.leave_out(module, form.left_out)
    if form.old:
        asynccopies.plain(module)
    return module


def _lowered(given: mlir.Module, target: Target, *, lines: bool) -> mlir.Module:
    """A copy in the LLVM and NVVM dialects, verified once; it is needed for ``target`` first, as messages say."""
    module = isolate(given)
    what = f"lowering to {target.name}"
    if module.context.aot_debug and _has_debug_info(module):
        # With debug information ptxas refuses to optimise; without any, the pass would still drop the
        # places that kernel assertions print.
        mlir.run_passes(module, ["gpu.module(strip-debuginfo)"], what, verified=False)
    atomics.lower(module)
    devicemath.lower(module)
    sharedmemory.align(module)
    _run(module, LOOPS, what)
    if "vector" in _dialects(module):
        flatvectors.lower(module)
        mlir.run_passes(module, VECTORS, what, verified=False)
    _run(module, TO_BRANCHES, what)
    by_value = byvalue.find(module)
    mlir.run_passes(module, [TO_NVVM], what, verified=False)
    byvalue.apply(module, by_value)
    _run(module, AFTER_CONVERSION, what)
    mlir.verify(module, what)
    sharedmemory.leave_open(module)
    loopmarks.hand_over(module)
    _hide_device_functions(module)
    _name_assertion_files(module)
    _refuse_leftovers(module, target)
    switchblocks.separate(module)
    imagenumber.define(module)
    earlystart.insert(module)
    if lines:
        lineinfo.add(module)
    return module


def _run(module: mlir.Module, steps: Sequence[Step], what: str) -> None:
    known: set[str] = set()
    for step in steps:
        # Asked again only where a pass may have changed the answer.
        if step.dialects and not known:
            known = _dialects(module)
        if not step.dialects or known.intersection(step.dialects):
            mlir.run_passes(module, step.passes, what, verified=False)
            known = set()


def _dialects(module: mlir.Module) -> set[str]:
    return {name.split(".")[0] for name in mlir.op_names(module)}


def _attach(module: mlir.Module, job: DeviceJob) -> None:
    """Attach the target; its verifier knows some misfits that our table does not."""
    target = f"chip={job.target.chip} O=3 features={features(job.ptx)}"
    try:
        mlir.run_passes(module, [f"nvvm-attach-target{{{target}}}"], "attaching the target", error=ArchUnfit)
    except ArchUnfit as error:
        raise archrules.unfit(
            module.context.aot_path or "module", job.target, "does not fit", error.diagnostics
        ) from None


def _has_debug_info(module: mlir.Module) -> bool:
    """Whether a location carries debug information of the LLVM dialect."""
    return "#llvm.di_" in str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=4))


def _hide_device_functions(module: mlir.Module) -> None:
    """Only kernels are called from outside; what is internal is inlined and left out where it is not needed."""
    for op in opwalk.named(module, "llvm.func"):
        is_kernel = "nvvm.kernel" in op.attributes or "gpu.kernel" in op.attributes
        if op.regions[0].blocks and not is_kernel:
            op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>", module.context)


def _name_assertion_files(module: mlir.Module) -> None:
    """Put the source's file name where the bindings' name for unnamed input would be printed.

    Without its folder: the package must not depend on where it was built.
    """
    name = module.context.aot_path.replace("\\", "/").rsplit("/", 1)[-1] + "\0"
    for op in opwalk.named(module, "llvm.mlir.global") if name != "\0" else ():
        is_file = mlir.symbol_name(op).startswith("assert_file_")
        if is_file and ir.StringAttr(op.attributes["value"]).value == "-\0":
            kind = ir.Type.parse(f"!llvm.array<{len(name.encode())} x i8>")
            op.attributes["value"], op.attributes["global_type"] = ir.StringAttr.get(name), ir.TypeAttr.get(kind)


def _refuse_leftovers(module: mlir.Module, target: Target) -> None:
    """What is not LLVM dialect now would take the translator down."""
    names = {name for name in mlir.op_names(module) if _is_leftover(name)}
    if not names:
        return
    left = opwalk.named(module, *names)
    path = module.context.aot_path or "module"
    # Casts and index arithmetic are left around the operation that could not be lowered: it is the one to name.
    casts = [op for op in left if op.name == CAST]
    guilty = [op for op in left if op.name != CAST and op.name.split(".")[0] not in _BYSTANDERS] or casts or left
    told = ", ".join(sorted({f"'{_told(op)}'" for op in guilty}))
    places = dict.fromkeys(mlir.diagnostic_at(op, f"'{_told(op)}' has no lowering to GPU code") for op in guilty)
    raise LoweringError(
        f"{path}: cannot lower {told} to GPU code for {target.name}", diagnostics=tuple(places)[: archrules.MOST_SHOWN]
    )


def _is_leftover(name: str) -> bool:
    return name not in LEFT_ALONE and name.split(".")[0] not in LOWERED_DIALECTS


def _told(op: mlir.Operation) -> str:
    if op.name != CAST:
        return str(op.name)
    return f"conversion of {op.operands[0].type} to {op.results[0].type}"
