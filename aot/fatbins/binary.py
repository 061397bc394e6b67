"""Images: device code to PTX through gpu-module-to-binary, PTX to cubins, and all of a source into one fatbin.

In: modules that ``lower.gpumodule`` made, and PTX. Out: Images with ptxas' report on them, then one
model.FatBinary, which also goes back into the module as the gpu.binary's object.

>>> image = cubin(translate(lowered, tools), Order("f.mlir", target("sm_80"), "sm_80", tools))   # doctest: +SKIP
>>> merge("softmax", [image], "none").images[0].target                                           # doctest: +SKIP
'sm_80'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aot import mlir
from aot.engine import forked
from aot.errors import CompilerCrash, LoweringError, MismatchError
from aot.fatbins import cubin as elf
from aot.fatbins import fatbin, ptxas, ptxtext
from aot.fatbins.ptxtext import Header
from aot.model import FatBinary, Image, Usage
from aot.targets import arch
from aot.targets.arch import Target, Version, dotted
from aot.tools.toolchain import Toolchain

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


@dataclass(frozen=True)
class Order:
    """What an image is made for, and with."""

    subject: str
    """The source, for messages."""
    target: Target
    requested: str
    tools: Toolchain
    lineinfo: bool = False
    """Machine code says which line it comes from."""
    threads: int = 1
    """By which ptxas may assemble kernels side by side."""


def translate(module: mlir.Module, tools: Toolchain) -> bytes:
    """The PTX of the module's single gpu.module, which it keeps: a copy is translated."""
    ir, gpu = mlir.bindings(), mlir.dialect("gpu")
    copy = module.operation.clone()
    # Named also where the bindings carry a libdevice of their own: no other toolkit may be looked for.
    translation = f'gpu-module-to-binary{{format=isa toolkit="{tools.toolkit}"}}'
    try:
        mlir.run_passes(copy, [translation], "translating device code")
        binaries = [op for op in mlir.walk(copy) if op.name == "gpu.binary"]
        assert len(binaries) == 1, f"{len(binaries)} gpu.modules were not joined"
        objects = ir.ArrayAttr(binaries[0].attributes["objects"])
        assert len(objects) == 1, f"{len(objects)} targets in one translation"
        return bytes(gpu.ObjectAttr(objects[0]).object).rstrip(b"\0")
    finally:
        copy.operation.erase()


def cubin(text: bytes, order: Order) -> BuiltImage:
    """Assemble PTX for one target."""
    options = ("-v", "--opt-level", "3", *(("-lineinfo",) if order.lineinfo else ()))
    data, words = ptxas.assemble(text, order.target, order.subject, order.tools, options, order.threads)
    report, name = ptxas.report(words), order.target.name
    usage = _usage(data, report, f"{order.subject}: {name}")
    notes = tuple(f"{name}: {each}" for each in report.warnings)
    return BuiltImage(_image(order, data, text), data, usage, notes, text.decode())


def ptx(lower: Callable[[Version], mlir.Module], number: int, order: Order) -> BuiltImage:
    """Translate to PTX at the lowest ISA version that LLVM can select instructions for, and that ptxas takes.

    ``lower`` makes the module for a version. LLVM aborts where a version lacks an instruction, so each
    version is tried in a process of its own. ``number`` is the image's position among the source's.
    """
    tools, words, least, refusal = order.tools, "", (0, 0), None
    for version in (each for each in arch.ptx_versions(order.target) if each <= tools.ptx):
        if version < least:
            continue
        module = lower(version)
        tried = forked.attempt(partial(translate, module, tools))
        if tried.died:
            words = tried.words
            continue
        # An error that was handled is met again here, where it can be raised.
        text = tried.data or translate(module, tools)
        text = ptxtext.adapted(text, Header(order.target.chip, version, number))
        try:
            _check_ptx(text, order)
        except LoweringError as error:
            # Of assembly, LLVM does not know what version it needs.
            least, refusal = ptxas.least_isa(error), error
            if least <= version:
                raise
            continue
        return plain(text, order)
    if refusal is not None:
        raise refusal
    raise CompilerCrash(
        f"LLVM cannot translate the code to PTX for {order.target.name} at any ISA version up to "
        f"{dotted(tools.ptx)}\n{words}".rstrip(),
        hint="`--no-ptx` leaves the PTX out",
    )


def plain(text: bytes, order: Order) -> BuiltImage:
    """PTX that ptxas has taken."""
    return BuiltImage(_image(order, text, text), text, ptx=text.decode())


def _image(order: Order, data: bytes, text: bytes) -> Image:
    version = ptxtext.version(text)
    return Image(order.requested, order.target.name, order.target.kind, len(data), dotted(version))


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


def _check_ptx(text: bytes, order: Order) -> None:
    """Assemble PTX once, since nobody would hear of a mistake before a newer GPU meets it."""
    missing = _UNRESOLVED.search(text.decode())
    if missing:
        raise ptxas.libdevice_missing(missing[1], order.subject, order.tools)
    ptxas.assemble(text, order.target, order.subject, order.tools, ("-O0",))
