"""The second half of a build: from compiled sources to the wheel in its place.

In: a Plan and CompiledSources. Out: BuildResult. Nothing is written to ``--out`` before everything is done and checked.

>>> finish(planned, compiled, done, levels, reporter).wheel   # doctest: +SKIP
PosixPath('dist/kernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import aot
from aot import clibrary, fatbin, fileset, metadata, mlir, naming, package, packing, resources, told, toolchain, wheel
from aot.arch import CUBIN
from aot.buildresult import KEPT, BuildResult, BuiltSource
from aot.cachelevels import Levels
from aot.compiling import Done
from aot.errors import ArchUnfit
from aot.model import CompiledSource, PackageSpec, ToolVersions
from aot.plan import Plan
from aot.report import Reporter


def finish(
    planned: Plan, found: Sequence[CompiledSource], done: Mapping[str, Done], levels: Levels, tell: Reporter
) -> BuildResult:
    """Packages what was compiled."""
    compiled, left_out = _used(found)
    naming.check_entries((each.name, function.name) for each in compiled for function in each.functions)
    for each in compiled:
        for detail in told.details(each):
            tell.detail(f"{each.path}: {detail}")
    result = BuildResult(
        wheel=planned.out,
        wheel_bytes=0,
        sdist=None,
        c_files=(),
        tree=planned.work / "tree",
        package=planned.package.name,
        version=planned.package.version,
        archs=planned.archs,
        sources=tuple(_built(each, done) for each in compiled),
        left_out=(*planned.left_out, *left_out),
        notes=planned.notes,
        seconds=0.0,
    )
    told.tell_notes(result, planned.left_out, tell)
    tell.stage(f"packaging {planned.package.name} {planned.package.version}")
    files = _package(planned, compiled, result.left_out)
    fileset.write_tree(files, result.tree)
    options = wheel.Options(sdist=planned.sdist, python=planned.python, epoch=planned.engine.epoch)
    made = packing.wheel_of(files, result.tree, planned.work / "wheel", options, levels)
    for note in levels.notes():
        tell.note(note)
    published = fileset.publish(made.wheel, planned.out)
    sdist = fileset.publish(made.sdist, planned.out) if made.sdist else None
    made_for_c = clibrary.build(result.tree, planned.work / "c", planned.package.name) if planned.c else ()
    c_files = tuple(fileset.publish(each, planned.out) for each in made_for_c)
    return dataclasses.replace(result, wheel=published, wheel_bytes=made.bytes, sdist=sdist, c_files=c_files)


def _used(compiled: Sequence[CompiledSource]) -> tuple[tuple[CompiledSource, ...], tuple[str, ...]]:
    """The sources that have something to call, and names of the others: without images only CPU code is left."""
    used = tuple(each for each in compiled if callables(each) or each.fatbin)
    if not used:
        raise ArchUnfit(
            "nothing is left to build: only tensor-level functions run on a CPU, and the sources have none",
            hint="ask for GPU architectures with --archs",
        )
    names = {each.name for each in used}
    return used, tuple(each.name for each in compiled if each.name not in names)


def _package(planned: Plan, compiled: Sequence[CompiledSource], left_out: Sequence[str]) -> fileset.FileSet:
    """The generated package as a value."""
    spec = _spec(planned, compiled)
    templates = package.read_templates(resources.templates())
    document = {**metadata.manifest(spec, compiled), "left_out": list(left_out)}
    return package.render(spec, compiled, document, templates)


def _spec(planned: Plan, compiled: Sequence[CompiledSource]) -> PackageSpec:
    # Of PTX that a source brought along the version is not known.
    images = [
        (image.kind, image.ptx_version)
        for each in compiled
        if each.fatbin
        for image in each.fatbin.images
        if image.ptx_version or image.kind == CUBIN
    ]
    needs = toolchain.min_driver_cuda(planned.toolchain, images, compressed=planned.compress != "none")
    versions = ToolVersions(
        aot=aot.__version__,
        mlir=mlir.version(),
        ptxas=planned.toolchain.ptxas_version,
        min_driver_cuda=needs[0] * 1000 + needs[1] * 10,
    )
    return PackageSpec(
        name=planned.package.name,
        distribution=planned.package.distribution,
        version=planned.package.version,
        versions=versions,
        top_level=naming.top_level({each.name: callables(each) for each in compiled}),
        description=planned.package.description,
        license=planned.package.license,
        tvm_ffi=planned.tvm_ffi,
        c=planned.c,
    )


def callables(compiled: CompiledSource) -> tuple[str, ...]:
    """Names of what Python can call in a source's namespace."""
    kernels = (kernel.name for kernel in compiled.kernels if kernel.callable)
    return (*(function.name for function in compiled.functions), *kernels)


def _built(compiled: CompiledSource, done: Mapping[str, Done]) -> BuiltSource:
    binary, ran = compiled.fatbin, done.get(compiled.name, Done(KEPT, 0.0))
    return BuiltSource(
        name=compiled.name,
        path=compiled.path,
        functions=callables(compiled),
        kernels=len(compiled.kernels),
        images=tuple(image.target for image in binary.images) if binary else (),
        image_bytes=tuple(entry.bytes for entry in fatbin.entries(binary.data)) if binary else (),
        blob_bytes=len(binary.data) if binary else 0,
        skipped=compiled.skipped,
        notes=compiled.notes,
        general=compiled.general,
        how=ran.how,
        seconds=ran.seconds,
    )
