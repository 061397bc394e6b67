"""The images of one source: as little translated, and as much side by side, as its targets allow.

In: a source's gpu.module and the targets that it gets. Out: BuiltImages in their order, or one error that names all
targets that the code does not fit.

LLVM writes the same PTX for targets that differ in nothing that it looks at (``aot.fatbins.samecode``): it is
translated once, and ptxas assembles it for each; so are kernels that several images hold, whatever else is in these.
PTX for newer GPUs is the text that one of the cubins is made from, where ptxas takes that at the lowest ISA version:
nothing is translated for it, and it has been assembled.

>>> build(isolated, picks, bench)[0].image.target   # doctest: +SKIP
'sm_80'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aot import mlir
from aot.dump import Dump
from aot.engine import forked
from aot.errors import AotError, ArchUnfit, LoweringError, together
from aot.fatbins import binary, ptxtext, refusal
from aot.fatbins.binary import BuiltImage, Order
from aot.fatbins.ptxtext import Header
from aot.fatbins.samecode import same_code
from aot.lower.gpumodule import imageparts, pieces
from aot.lower.gpumodule.device import DeviceJob, Lowering
from aot.lower.gpumodule.imageparts import Form
from aot.lower.gpumodule.pieces import Piece
from aot.settings.selection import Pick
from aot.targets import arch
from aot.targets.arch import PTX, Target, Version
from aot.tools.toolchain import Toolchain

_THREADS = 4
"""Of one ptxas, at most."""
_SAME_FROM: Version = (8, 3)
"""Under an older ISA version LLVM writes work-arounds for older assemblers."""


@dataclass(frozen=True)
class Bench:
    """What device code is made with."""

    subject: str
    """The source, for messages."""
    tools: Toolchain
    dump: Dump
    crew: forked.Crew
    """Who helps."""
    lineinfo: bool = False
    quick: bool = False
    """Building is to take little, not the kernels: the text for the oldest target serves for all that hold them."""


@dataclass(frozen=True)
class Wanted:
    """One image to build."""

    number: int
    """Position among the source's images."""
    target: Target
    requested: str
    form: Form
    parts: tuple[Form, ...]
    """Of the form."""

    def header(self, version: Version) -> Header:
        return Header(self.target.chip, version, self.number)


@dataclass(frozen=True)
class Code:
    """PTX that LLVM writes once."""

    form: Form
    target: Target
    version: Version


def build(isolated: mlir.Module, picks: Sequence[Pick], bench: Bench) -> list[BuiltImage]:
    """One image per pick."""
    lowering = Lowering(isolated, bench.lineinfo)
    forms = [lowering.form(pick.image) for pick in picks]
    cubins = [form for form, pick in zip(forms, picks, strict=True) if pick.image.kind != PTX]
    parts = {} if bench.lineinfo else imageparts.parts(isolated, cubins)
    unfit: list[AotError] = []
    wanted: list[Wanted] = []
    for number, (pick, form) in enumerate(zip(picks, forms, strict=True)):
        own = parts.get(form, (form,))
        try:
            # Before the targets part: most of the way is the same for all.
            lowering.prepare(pick.image, own)
        except ArchUnfit as error:
            unfit.append(error)
        else:
            wanted.append(Wanted(number, pick.image, pick.requested.name, form, own))
    built = _built(lowering, wanted, bench, unfit)
    if unfit:
        raise together(unfit, f"{bench.subject}: {len(unfit)} of the requested architectures do not fit")
    return [built[number] for number in sorted(built)]


def _built(lowering: Lowering, wanted: Sequence[Wanted], bench: Bench, unfit: list[AotError]) -> dict[int, BuiltImage]:
    """Images by their position; what ptxas finds unfit goes to ``unfit``."""
    cubins = [each for each in wanted if each.target.kind != PTX]
    texts = _texts(lowering, cubins, bench)
    others = {each: _twin(each, cubins) for each in wanted if each.target.kind == PTX}
    twins = {cubin: each for each, cubin in others.items() if cubin is not None}
    alone = [each for each, cubin in others.items() if cubin is None]
    found: dict[int, BuiltImage] = {}
    # Of a single one, kernels are assembled side by side.
    with forked.hired(bench.crew, _THREADS - 1 if len(cubins) + len(alone) == 1 else 0) as hired:
        make = partial(_assembled, bench=bench, threads=hired.free + 1)
        tasks = [partial(make, each, texts[each], twins.get(each)) for each in cubins]
        tasks += [partial(_alone, lowering, each, bench) for each in alone]
        for each, result in zip([*cubins, *alone], forked.spread(tasks, bench.crew), strict=True):
            try:
                found |= _with_places(result, lowering, each, bench)
            except ArchUnfit as error:
                unfit.append(error)
    for each in wanted if not unfit else ():
        if each.number not in found:
            found |= _with_places(partial(_alone, lowering, each, bench), lowering, each, bench)
        bench.dump.keep(f"{each.target.name}.ptx", found[each.number].ptx.encode())
    return found


def _with_places(
    make: Callable[[], dict[int, BuiltImage]], lowering: Lowering, wanted: Wanted, bench: Bench
) -> dict[int, BuiltImage]:
    """What ``make`` makes; its errors tell places in the source."""
    try:
        return make()
    except LoweringError as error:
        latest = max(version for version in arch.ptx_versions(wanted.target) if version <= bench.tools.ptx)
        job = DeviceJob(wanted.target, latest)
        raise refusal.placed(error, lowering.isolated, job, wanted.number, _order(wanted, bench)) from None


def _code(lowering: Lowering, part: Form, wanted: Wanted, cubins: Sequence[Wanted], bench: Bench) -> Code:
    """What a part of a cubin is assembled from: the oldest target speaks for all of the same code."""
    holders = [each.target for each in cubins if part in each.parts]
    same = [each for each in holders if bench.quick or _is_shared(lowering, part, each, wanted.target)]
    oldest = min(same, key=Target.sort_key)
    version = arch.cubin_ptx(wanted.target, bench.tools.ptx)
    assert version is not None, f"{wanted.target.name} was checked against the toolchain"
    return Code(part, oldest, version)


def _is_shared(lowering: Lowering, part: Form, one: Target, other: Target) -> bool:
    """Whether two images have the same code of a part."""
    return same_code(one, other, old=False) or (same_code(one, other, old=True) and lowering.is_old(part))


def _twin(wanted: Wanted, cubins: Sequence[Wanted]) -> Wanted | None:
    """The cubin whose text PTX can be."""
    lowest = arch.ptx_versions(wanted.target)[0]
    same = (each for each in cubins if each.target.chip == wanted.target.chip and each.form == wanted.form)
    return next(same, None) if lowest >= _SAME_FROM else None


def _texts(lowering: Lowering, cubins: Sequence[Wanted], bench: Bench) -> dict[Wanted, bytes]:
    """PTX for each cubin, put together from that of its parts."""
    codes = {each: [_code(lowering, part, each, cubins, bench) for part in each.parts] for each in cubins}
    distinct = list(dict.fromkeys(code for several in codes.values() for code in several))
    texts = dict(zip(distinct, _translations(lowering, distinct, bench), strict=True))
    return {
        each: _together(lowering, each, [(code, texts[code]) for code in mine], bench) for each, mine in codes.items()
    }


def _together(lowering: Lowering, wanted: Wanted, parts: Sequence[tuple[Code, bytes]], bench: Bench) -> bytes:
    """A cubin's PTX; as a whole where that of its parts cannot be joined, for something is in it that LLVM counts."""
    (code, text), *others = parts
    if not others:
        return text
    joined = ptxtext.joined([ptxtext.adapted(each, wanted.header(code.version)) for _, each in parts])
    return joined or _translated(lowering, Code(wanted.form, wanted.target, code.version), bench)


def _translations(lowering: Lowering, codes: Sequence[Code], bench: Bench) -> list[bytes]:
    """PTX for each code; a single one in pieces, where processors are free."""
    if len(codes) == 1 and not bench.lineinfo:
        most = pieces.count(lowering.module(codes[0].form))
        with forked.hired(bench.crew, most - 1) as hired:
            parts = [Piece(number, hired.free + 1) for number in range(hired.free + 1 if hired.free else 0)]
            done = forked.spread([partial(_translated, lowering, codes[0], bench, each) for each in parts], hired)
            text = ptxtext.joined([each() for each in done]) if parts else None
        if text is not None:
            return [text]
    done = forked.spread([partial(_translated, lowering, code, bench) for code in codes], bench.crew)
    return [text() for text in done]


def _translated(lowering: Lowering, code: Code, bench: Bench, piece: Piece | None = None) -> bytes:
    module = lowering.lower(DeviceJob(code.target, code.version, code.form), bench.dump)
    if piece is not None:
        pieces.keep(module, piece)
    return binary.translate(module, bench.tools)


def _assembled(wanted: Wanted, text: bytes, twin: Wanted | None, bench: Bench, threads: int) -> dict[int, BuiltImage]:
    """A cubin, and PTX of the same text where ptxas takes that."""
    order = replace(_order(wanted, bench), threads=threads)
    if twin is not None:
        lowest = arch.ptx_versions(twin.target)[0]
        made = _tried(ptxtext.adapted(text, wanted.header(lowest)), order)
        if made is not None:
            other = binary.plain(ptxtext.adapted(text, twin.header(lowest)), _order(twin, bench))
            return {wanted.number: made, twin.number: other}
    return {wanted.number: binary.cubin(ptxtext.adapted(text, wanted.header(ptxtext.version(text))), order)}


def _tried(text: bytes, order: Order) -> BuiltImage | None:
    """A cubin; None where the text needs a later ISA version, or is wrong, which its own version will tell."""
    try:
        return binary.cubin(text, order)
    except LoweringError:
        return None


def _alone(lowering: Lowering, wanted: Wanted, bench: Bench) -> dict[int, BuiltImage]:
    """PTX that is translated for itself."""

    def lowered(version: Version) -> mlir.Module:
        return lowering.lower(DeviceJob(wanted.target, version), bench.dump)

    return {wanted.number: binary.ptx(lowered, wanted.number, _order(wanted, bench))}


def _order(wanted: Wanted, bench: Bench) -> Order:
    return Order(bench.subject, wanted.target, wanted.requested, bench.tools, bench.lineinfo)
