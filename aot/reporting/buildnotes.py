"""What a build tells of a source.

In: a source that was built. Out: notes, which everybody should read, among them one line for work that has no better
schedule than the general one; and details for those who ask with ``-v``.

>>> list(notes(built))                                                        # doctest: +SKIP
['general schedule: mix: linalg.generic (line 7): a contraction (and 2 more: -v)']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aot.model import CompiledSource, Kernel
from aot.packages.contribution import Content, Contribution
from aot.reporting.buildresult import MOST_NAMED, BuildResult, BuiltSource, size
from aot.reporting.report import Reporter
from aot.settings.wishes import FAST, GENERAL
from aot.tiling import Tiling


def notes(built: BuiltSource) -> Iterator[str]:
    """What everybody should read."""
    yield from built.notes
    if built.skipped:
        why = f"[source.{built.name}] in aot.toml, or the targets of its own gpu.modules, leave that out"
        yield f"not built for {', '.join(built.skipped)}: {why}"
    if built.general and built.schedules == FAST:
        more = len(built.general) - 1
        yield f"general schedule: {built.general[0]}{f' (and {more} more: -v)' if more else ''}"


def without_host_code(contribution: Contribution, options: Sequence[str]) -> Iterator[str]:
    """What the interfaces for other languages, by the options that ask for them, lack: kernels that Python launches."""
    kernels = [name for name in contribution.built.functions if name not in contribution.functions]
    if kernels and options:
        yield f"without host code, and so left out by {' and '.join(options)}: {', '.join(kernels)}"


def tell_notes(result: BuildResult, before: Sequence[str], tell: Reporter) -> None:
    """Notes of a whole build; ``before``: sources of which it was told already that they are left out."""
    on_gpu = any(each != "host" for each in result.archs)
    why = "it has no code for what was asked for" if on_gpu else "only tensor-level functions have CPU code"
    for name in result.left_out:
        if name not in before:
            tell.note(f"source '{name}' is left out: {why}")
    for each in result.sources:
        for note in notes(each):
            tell.note(f"{each.path}: {note}")
    for note in slower([each.name for each in result.sources if each.slower], len(result.sources)):
        tell.note(note)


def tell_details(contents: Sequence[Content], tell: Reporter) -> None:
    """What ``-v`` shows of each source, also where nothing had to be done."""
    for each in contents:
        for detail in each.contribution.details:
            tell.detail(f"{each.path}: {detail}")


def slower(general: Sequence[str], count: int) -> Iterator[str]:
    """What the user should know of the sources, of ``count``, whose fast schedules are off.

    >>> list(slower(["a", "b"], 3))
    ['general schedules for a, b: kernels are slower than by default']
    """
    if general:
        some = ", ".join(general) if len(general) <= MOST_NAMED else f"{len(general)} of {count} sources"
        yield f"general schedules{'' if len(general) == count else f' for {some}'}: kernels are slower than by default"


def slower_modules(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The same of a package."""
    modules = manifest["modules"]
    general = [each["name"] for each in modules if each.get("schedules") == GENERAL and each["general"]]
    return slower(general, len(modules))


def details(compiled: CompiledSource) -> Iterator[str]:
    """How every kernel was made, why not otherwise, and how long its code is."""
    # The first one is a note, where it is news.
    yield from (f"general schedule: {each}" for each in compiled.general[int(compiled.schedules == FAST) :])
    yield from compiled.remarks
    yield from (f"{each.name}: {made(each, each.tiling)}" for each in compiled.kernels if each.tiling is not None)
    yield from (f"{each.name}: code: {sizes}" for each in compiled.kernels if (sizes := code(each, compiled)))


def code(kernel: Kernel, compiled: CompiledSource) -> str:
    """Length of a kernel's machine code on each architecture."""
    usage = compiled.fatbin.usage if compiled.fatbin else ()
    return ", ".join(f"{target} {size(used.code_bytes)}" for name, target, used in usage if name == kernel.symbol)


def made(kernel: Kernel, tiling: Tiling) -> str:
    """How a kernel was made, in the words that ``aot.toml`` takes."""
    region = f", region {tiling.region}" if tiling.region else ""
    launch = f"; {tiling.launch()}" if tiling.launch() else ""
    return f"{tiling.kind}{region}: {kernel.schedule}: {tiling.text()}{launch}"
