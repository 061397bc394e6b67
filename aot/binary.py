"""Images: device code to cubins and PTX through gpu-module-to-binary, and all of a source into one fatbin.

In: modules that ``lower.device`` made, one per target. Out: Images with ptxas' report on them, then one
model.FatBinary, which also goes back into the module as the gpu.binary's object.

>>> image = cubin(lowered, target("sm_80"), "sm_80", tools)             # doctest: +SKIP
>>> merge("softmax", [image], "none").images[0].target                  # doctest: +SKIP
'sm_80'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aot import arch, fatbin, forked, mlir, ptxas
from aot import cubin as elf
from aot.arch import Target, Version
from aot.errors import CompilerCrash, MismatchError
from aot.model import FatBinary, Image, Usage
from aot.toolchain import Toolchain

_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)", re.MULTILINE)
_UNRESOLVED = re.compile(r"\.extern \.func[^;]*?\b(__nv_\w+)", re.DOTALL)


@dataclass(frozen=True)
class BuiltImage:
    """One image, not yet in a fatbin."""

    image: Image
    data: bytes
    usage: tuple[tuple[str, Usage], ...] = ()
    """(kernel symbol, usage), sorted; empty for PTX."""
    notes: tuple[str, ...] = ()
    """ptxas' warnings and advice."""
    ptx: str = ""
    """The PTX that it was made from, for ``--dump``."""


def cubin(
    module: mlir.Module, target: Target, requested: str, tools: Toolchain, *, lineinfo: bool = False
) -> BuiltImage:
    """Assemble one target's code. The module keeps its gpu.module: a copy is translated."""
    subject = module.context.aot_path or "module"
    text = _translate(module, tools)
    options = ("-v", "--opt-level", "3", *(("-lineinfo",) if lineinfo else ()))
    data, words = ptxas.assemble(text, target, subject, tools, options)
    report = ptxas.report(words)
    usage = _usage(data, report, f"{subject}: {target.name}")
    version = _VERSION.search(text)
    isa = f"{int(version[1])}.{int(version[2])}" if version else ""
    image = Image(requested, target.name, target.kind, len(data), isa)
    notes = tuple(f"{target.name}: {each}" for each in report.warnings)
    return BuiltImage(image, data, usage, notes, text.decode())


def ptx(lower: Callable[[Version], mlir.Module], target: Target, requested: str, tools: Toolchain) -> BuiltImage:
    """Translate to PTX at the lowest ISA version that LLVM can select instructions for, and have ptxas check it.

    ``lower`` makes the module for a version. LLVM aborts where a version lacks an instruction, so each
    version is tried in a process of its own.
    """
    versions = [each for each in arch.ptx_versions(target) if each <= tools.ptx]
    words = ""
    for version in versions:
        module = lower(version)
        tried = forked.attempt(partial(_translate, module, tools))
        if tried.died:
            words = tried.words
            continue
        # An error that was handled is met again here, where it can be raised.
        text = tried.data or _translate(module, tools)
        _check_ptx(text, module.context.aot_path or "module", target, tools)
        image = Image(requested, target.name, target.kind, len(text), f"{version[0]}.{version[1]}")
        return BuiltImage(image, text, ptx=text.decode())
    raise CompilerCrash(
        f"LLVM cannot translate the code to PTX for {target.name} at any ISA version up to "
        f"{tools.ptx[0]}.{tools.ptx[1]}\n{words}".rstrip(),
        hint="`--no-ptx` leaves the PTX out",
    )


def merge(name: str, built: Sequence[BuiltImage], compress: str = "none") -> FatBinary:
    """One fatbin of one source's images; ``compress`` is a word of ``fatbin.COMPRESS``."""
    data = fatbin.merge(name, [fatbin.Part(each.image.target, each.data) for each in built], compress)
    usage = sorted((kernel, each.image.target, used) for each in built for kernel, used in each.usage)
    return FatBinary(data, tuple(each.image for each in built), tuple(usage))


def embed(module: mlir.Module, binary: FatBinary) -> None:
    """Replace the gpu.modules of a host module by one gpu.binary each, with the fatbin as its only object."""
    chip = arch.target(binary.images[0].target).chip
    ir, gpu = mlir.bindings(), mlir.dialect("gpu")
    with module.context, ir.Location.unknown():
        target = ir.Attribute.parse(f'#nvvm.target<chip = "{chip}">')
        made = gpu.ObjectAttr.get(target, gpu.CompilationTarget.Fatbin, binary.data, None, None)
        for op in list(module.body.operations):
            if op.operation.name == "gpu.module":
                with ir.InsertionPoint(op):
                    attributes = {
                        "sym_name": op.operation.attributes["sym_name"],
                        "objects": ir.ArrayAttr.get([made]),
                        "offloadingHandler": ir.Attribute.parse("#gpu.select_object"),
                    }
                    ir.Operation.create("gpu.binary", attributes=attributes)
                op.operation.erase()


def _translate(module: mlir.Module, tools: Toolchain) -> bytes:
    """The PTX of the module's single gpu.module."""
    ir, gpu = mlir.bindings(), mlir.dialect("gpu")
    copy = module.operation.clone()
    try:
        # Named also where the bindings carry a libdevice of their own: no other toolkit may be looked for.
        mlir.run_passes(
            copy, [f'gpu-module-to-binary{{format=isa toolkit="{tools.toolkit}"}}'], "translating device code"
        )
        binaries = [op for op in mlir.walk(copy) if op.name == "gpu.binary"]
        assert len(binaries) == 1, f"{len(binaries)} gpu.modules were not joined"
        objects = ir.ArrayAttr(binaries[0].attributes["objects"])
        assert len(objects) == 1, f"{len(objects)} targets in one translation"
        return bytes(gpu.ObjectAttr(objects[0]).object).rstrip(b"\0")
    finally:
        copy.operation.erase()


def _usage(data: bytes, report: ptxas.Report, place: str) -> tuple[tuple[str, Usage], ...]:
    """ptxas' report by kernel, checked against the cubin itself."""
    said = {each.name: each for each in report.kernels}
    found = []
    for kernel in elf.kernels(data):
        words = said.get(kernel.name)
        if words is None or words.registers != kernel.registers:
            told = "nothing" if words is None else f"{words.registers} registers"
            raise MismatchError(
                f"{place}: the cubin gives kernel '{kernel.name}' {kernel.registers} registers, ptxas reported {told}"
            )
        found.append((kernel.name, words.usage(kernel.max_threads(), kernel.code_bytes)))
    return tuple(found)


def _check_ptx(text: bytes, subject: str, target: Target, tools: Toolchain) -> None:
    """Assemble PTX once, since nobody would hear of a mistake before a newer GPU meets it."""
    missing = _UNRESOLVED.search(text.decode())
    if missing:
        raise ptxas.libdevice_missing(missing[1], subject, tools)
    ptxas.assemble(text, target, subject, tools, ("-O0",))
