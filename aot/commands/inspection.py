"""``aot inspect``: what is inside a built package.

In: a wheel, a folder, or an extension. Out: Inspection, its text, a kernel's PTX or machine code.

>>> inspect("dist/demo.whl").sources[0].rows[0].how   # doctest: +SKIP
'cubin'
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot import fileset, process
from aot.engine import scratch
from aot.errors import AotError, ToolMissing, UnknownArch, UsageError
from aot.fatbins import ptxtext
from aot.packages import manifest, openedpackage
from aot.packages.openedpackage import Blob, Opened
from aot.reporting import buildnotes
from aot.reporting.report import number, plain_table
from aot.targets import arch
from aot.targets.arch import Coverage, dotted
from aot.tools import toolchain

MOST_NAMED = 3
"""Sources and kernels that are listed by name; more are counted, or left to --json."""


@dataclass(frozen=True)
class SourceCoverage:
    """What each compute capability gets from one source's blob."""

    source: str
    rows: tuple[Coverage, ...]


@dataclass(frozen=True)
class Inspection:
    """A package, looked through."""

    package: Opened
    sources: tuple[SourceCoverage, ...]

    def as_json(self) -> dict[str, object]:
        """The manifest, and ``coverage`` beside it."""
        images = {
            blob.source: [
                {"target": e.target, "kind": e.kind, "bytes": e.bytes, "compressed": e.compressed} for e in blob.entries
            ]
            for blob in self.package.blobs
        }
        coverage = {
            each.source: {dotted(row.capability): {"how": row.how, "image": row.image} for row in each.rows}
            for each in self.sources
        }
        return {**(self.package.manifest or {}), "stored_images": images, "coverage": coverage}


_COVERED = "sources by what runs of them on a compute capability: machine code, PTX that the driver compiles, nothing"


@dataclass(frozen=True)
class _Found:
    """A kernel by the name a user gave."""

    blob: Blob
    symbol: str


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Looks through a package: a wheel, the folder of a package, or its extension; UsageError for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"aot.inspect: path: a path is needed; got {path!r}")
    package = openedpackage.open_package(os.fspath(path))
    return Inspection(package, tuple(_coverage(blob, package.manifest) for blob in package.blobs))


def text(found: Inspection) -> str:
    """Everything as tables."""
    package = found.package
    parts = []
    if package.manifest is not None:
        tools = package.manifest["toolchain"]
        made = ", ".join(f"{name} {tools[name]}" for name in ("aot", "mlir", "ptxas") if name in tools)
        parts.append(f"{package.manifest['package']} {package.manifest['version']}, made by {made}")
        if package.blobs:
            parts.append(f"needs a driver of CUDA {_cuda(tools['min_driver_cuda'])} or newer")
        stored = {(blob.source, each.target): each.bytes for blob in package.blobs for each in blob.entries}
        parts += [_module_text(module, stored) for module in package.manifest["modules"]]
        parts += buildnotes.slower_modules(package.manifest)
        left_out = package.manifest.get("left_out", ())
        parts += [f"{name}: left out: nothing of it is built for these architectures" for name in left_out]
    else:
        parts.append(f"{package.path}: no {manifest.FILE} beside it; images only")
        parts += [_images_text(blob) for blob in package.blobs]
    if found.sources:
        parts.append(plain_table(_COVERED, ["capability", "cubin", "PTX", "none"], _matrix(found.sources)))
    sizes, blobs = sum(len(blob.data) for blob in package.blobs), number(len(package.blobs), "blob")
    parts.append(f"device code: {sizes} bytes in {blobs}; extension: {package.extension_bytes} bytes")
    return "\n\n".join(parts)


def ptx_text(path: str, kernel: str) -> str:
    """A kernel's PTX: the file's head and the kernel's own part."""
    found = _find(openedpackage.open_package(path), kernel)
    whole = _cuobjdump(found.blob, ["-ptx"])
    module = whole[max(0, whole.find(".version")) :].partition("\nFatbin ")[0]
    text = ptxtext.kernel(module, found.symbol)
    if not text:
        kinds = ", ".join(each.target for each in found.blob.entries)
        raise UsageError(
            f"no PTX of kernel '{kernel}' is in the package: images are {kinds}", hint="build it with --ptx"
        )
    return text


def sass_text(path: str, kernel: str, target: str | None) -> str:
    """A kernel's machine code on one architecture, the first that has it by default."""
    found = _find(openedpackage.open_package(path), kernel)
    cubins = [each.target for each in found.blob.entries if each.kind == arch.CUBIN]
    if not cubins:
        raise UsageError(f"no machine code of kernel '{kernel}' is in the package, only PTX", hint="use --ptx")
    if target is not None and target not in cubins:
        raise UnknownArch(f"no image for '{target}': there are {', '.join(cubins)}")
    shown = _cuobjdump(found.blob, ["-sass", "-arch", target or cubins[0], "-fun", found.symbol])
    return shown[shown.find("\tcode for") :].strip("\n") if "\tcode for" in shown else shown


def _coverage(blob: Blob, manifest: Mapping[str, Any] | None) -> SourceCoverage:
    module = next((each for each in (manifest or {}).get("modules", ()) if each["name"] == blob.source), None)
    # Lettered PTX (of a ready binary) promises nothing that the table could tell.
    images = [
        arch.target(each.target)
        for each in blob.entries
        if (each.kind == arch.CUBIN or each.target[-1:].isdigit()) and _holds_kernels(each.target, module)
    ]
    return SourceCoverage(blob.source, arch.coverage(images))


def _holds_kernels(image: str, module: Mapping[str, Any] | None) -> bool:
    """Whether some kernel is in an image; of ready binaries, or without a manifest, nobody knows better."""
    if module is None or module["passthrough"] or not module["kernels"]:
        return True
    return any(image in kernel["targets"] for kernel in module["kernels"])


def _matrix(sources: Sequence[SourceCoverage]) -> list[list[str]]:
    """One row per capability: how many sources have a cubin for it, PTX, nothing; the few are named."""
    rows = []
    for index, first in enumerate(sources[0].rows):
        by: dict[str, list[str]] = {"cubin": [], "ptx": [], "none": []}
        for each in sources:
            by[each.rows[index].how].append(each.source)
        rows.append([dotted(first.capability), *(_some(names, len(sources)) for names in by.values())])
    return rows


def _some(names: Sequence[str], total: int) -> str:
    if len(names) == total:
        return "all"
    return ", ".join(names) if len(names) <= MOST_NAMED else str(len(names))


def _find(package: Opened, name: str) -> _Found:
    """The kernel called ``name``, ``source.name``, ``module::name`` or by its symbol."""
    if package.manifest is None:
        raise UsageError(f"'{package.path}' has no {manifest.FILE} beside it: kernels are not known by name")
    blobs = {blob.source: blob for blob in package.blobs}
    known: dict[str, set[tuple[str, str]]] = {}
    for module in package.manifest["modules"]:
        for kernel in module["kernels"]:
            place = (module["name"], kernel["symbol"])
            short = kernel["name"].rpartition("__")[2]
            names = (kernel["name"], short, kernel["symbol"], f"{kernel['module']}::{kernel['name']}")
            for each in (*names, *(f"{module['name']}.{other}" for other in names)):
                known.setdefault(each, set()).add(place)
    found = sorted(known.get(name, ()))
    if len(found) == 1:
        source, symbol = found[0]
        return _Found(blobs[source], symbol)
    if found:
        raise UsageError(
            f"several kernels are called '{name}'", hint=f"name one: {', '.join('.'.join(e) for e in found)}"
        )
    near = difflib.get_close_matches(name, known, MOST_NAMED, 0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(f"no kernel '{name}' in '{package.path}'", hint=f"{hint}`aot inspect` without options lists all")


def _cuobjdump(blob: Blob, options: Sequence[str]) -> str:
    tools = toolchain.find()
    if tools.cuobjdump is None:
        raise ToolMissing(
            "cuobjdump was not found",
            hint="install it with: python -m pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm",
        )
    with scratch.folder("inspect") as folder:
        file = folder / "blob.fatbin"
        fileset.write_file(file, blob.data)
        return process.check([tools.cuobjdump, *options, file], error=AotError).stdout.decode("utf-8", "replace")


def _module_text(module: Mapping[str, Any], stored: Mapping[tuple[str, str], int]) -> str:
    """``stored``: bytes of an image in its blob, by source and target."""
    host = f", host code for {', '.join(module['host'])}" if module["host"] else ""
    lines = [f"{module['name']}: {module['blob_bytes']} bytes{host}"]
    for machine, variants in module.get("cpu", {}).items():
        lines.append(f"  CPU code for {machine}, by level: {', '.join(variants)}")
    for image in module["images"]:
        built = "" if image["requested"] == image["target"] else f" (asked for as {image['requested']})"
        kept = stored.get((module["name"], image["target"]), image["bytes"])
        less = "" if kept == image["bytes"] else f", {kept} as stored"
        lines.append(f"  {image['kind']} {image['target']}{built}: {image['bytes']} bytes{less}")
    if module.get("skipped"):
        lines.append(f"  left out: {', '.join(module['skipped'])}")
    for function in module["functions"]:
        cpu = (" (CPU, too)" if function["gpu"] else " (CPU)") if function.get("cpu") else ""
        lines.append(
            f"  {function['name']}({', '.join(map(_argument, function['args']))}){_results(function['results'])}{cpu}"
        )
    lines += [
        f"  {kernel['name']}({', '.join(map(_argument, kernel['params']))}) launched with {_sizes(kernel)}"
        for kernel in module["kernels"]
        if kernel["callable"]
    ]
    rows = [row for kernel in module["kernels"] for row in _usage_rows(kernel)]
    if rows:
        columns = ["kernel", "arch", "registers", "shared B", "stack B", "spilled B", "max threads", "code B"]
        lines += ["  " + line for line in plain_table("", columns, rows).splitlines()]
    return "\n".join(lines)


def _sizes(kernel: Mapping[str, Any]) -> str:
    """``grid=, block=[256]``: what a call must give, and what it may leave out."""
    given = ((name, kernel[name]) for name in ("grid", "block"))
    return ", ".join(
        f"{name}={'' if sizes is None else '[' + ', '.join(map(str, sizes)) + ']'}" for name, sizes in given
    )


def _usage_rows(kernel: Mapping[str, Any]) -> list[list[str]]:
    keys = ("registers", "static_shared_bytes", "local_bytes", "spill_bytes", "max_threads", "code_bytes")
    rows = [[kernel["name"], target, *(str(used[key]) for key in keys)] for target, used in _by_target(kernel["usage"])]
    return rows or [[kernel["name"], *("-" for _ in range(7))]]


def _by_target(usage: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(usage.items(), key=lambda item: arch.target(item[0]).sort_key())


def _argument(argument: Mapping[str, Any]) -> str:
    return f"{argument['name']}: {_type(argument)}"


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    return f" -> {', '.join(map(_type, results))}" if results else ""


def _type(value: Mapping[str, Any]) -> str:
    if value["kind"] == "scalar":
        return str(value["dtype"])
    dims = "".join(f"{'?' if extent is None else extent}x" for extent in value["shape"])
    return f"{value['kind']}<{dims}{value['dtype']}>"


def _images_text(blob: Blob) -> str:
    rows = [[each.target, each.kind, str(each.bytes)] for each in blob.entries]
    return plain_table(f"blob {blob.source}: {len(blob.data)} bytes", ["target", "kind", "bytes as stored"], rows)


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
