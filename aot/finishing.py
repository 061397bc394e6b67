"""The second half of a build: from compiled sources to the wheel in its place.

In: a Plan, and the Contents of its sources. Out: BuildResult. Nothing is written to ``--out`` before everything is
done and checked.

>>> finish(planned, contents, done, runtime, reporter).wheel   # doctest: +SKIP
PosixPath('dist/kernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import aot
from aot import codec, fileset, mlir, naming, resources
from aot.engine.compiling import Done
from aot.errors import ArchUnfit
from aot.model import PackageSpec, ToolVersions
from aot.packages import cfunctions, metadata, package
from aot.packages.contribution import Content
from aot.packages.jobresults import Reader
from aot.plan import Plan
from aot.reporting import buildnotes
from aot.reporting.buildresult import KEPT, BuildResult, BuiltSource
from aot.reporting.report import Reporter
from aot.targets.arch import CUBIN
from aot.tools import toolchain
from aot.wheels import clibrary, packing, wheel
from aot.wheels.runtimeobjects import Runtime

__all__ = ["Reader", "finish"]


def finish(
    planned: Plan, found: Sequence[Content], done: Mapping[str, Done], runtime: Runtime, tell: Reporter
) -> BuildResult:
    """Packages what was compiled."""
    contents, left_out = _used(found)
    naming.check_entries((each.name, name) for each in contents for name in each.contribution.functions)
    buildnotes.tell_details(contents, tell)
    result = BuildResult(
        wheel=planned.out,
        wheel_bytes=0,
        sdist=None,
        c_files=(),
        tree=planned.work / "tree",
        package=planned.package.name,
        version=planned.package.version,
        archs=planned.archs,
        sources=tuple(_built(planned, each, done) for each in contents),
        left_out=(*planned.left_out, *left_out),
        notes=planned.notes,
        seconds=0.0,
    )
    buildnotes.tell_notes(result, planned.left_out, tell)
    tell.stage(f"packaging {planned.package.name} {planned.package.version}")
    files = _package(planned, contents, result.left_out)
    fileset.write_tree(files, result.tree)
    options = wheel.Options(sdist=planned.sdist, python=planned.python, epoch=planned.engine.epoch)
    made = packing.wheel_of(files, result.tree, runtime.place, options, runtime)
    for note in runtime.levels.notes():
        tell.note(note)
    published = fileset.publish(made.wheel, planned.out)
    sdist = fileset.publish(made.sdist, planned.out) if made.sdist else None
    made_for_c = clibrary.build(result.tree, planned.work / "c", planned.package.name) if planned.c else ()
    c_files = tuple(fileset.publish(each, planned.out) for each in made_for_c)
    return dataclasses.replace(result, wheel=published, wheel_bytes=made.bytes, sdist=sdist, c_files=c_files)


def _used(found: Sequence[Content]) -> tuple[tuple[Content, ...], tuple[str, ...]]:
    """The sources that have something to call, and names of the others: without images only CPU code is left."""
    used = tuple(each for each in found if each.contribution.built.functions or each.contribution.blob)
    if not used:
        raise ArchUnfit(
            "nothing is left to build: only tensor-level functions run on a CPU, and the sources have none",
            hint="ask for GPU architectures with --archs",
        )
    names = {each.name for each in used}
    return used, tuple(each.name for each in found if each.name not in names)


def _package(planned: Plan, contents: Sequence[Content], left_out: Sequence[str]) -> fileset.FileSet:
    """The generated package as a value."""
    spec = _spec(planned, contents)
    templates = package.read_templates(resources.templates())
    modules = {each.name: codec.Line(each.contribution.manifest) for each in contents}
    document = {**metadata.manifest(spec, modules), "left_out": list(left_out)}
    ordered = sorted(contents, key=lambda each: each.name)
    declared = cfunctions.functions(spec, [each.source() for each in ordered]) if planned.c else ()
    return package.render(spec, contents, document, templates, declared)


def _spec(planned: Plan, contents: Sequence[Content]) -> PackageSpec:
    # Of PTX that a source brought along the version is not known.
    images = [
        (kind, ptx_version)
        for each in contents
        for kind, ptx_version in each.contribution.images
        if ptx_version or kind == CUBIN
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
        top_level=naming.top_level({each.name: each.contribution.built.functions for each in contents}),
        description=planned.package.description,
        license=planned.package.license,
        tvm_ffi=planned.tvm_ffi,
        c=planned.c,
    )


def _built(planned: Plan, content: Content, done: Mapping[str, Done]) -> BuiltSource:
    ran = done.get(content.name, Done(KEPT, 0.0))
    options = [option for option, wanted in (("--c", planned.c), ("--tvm-ffi", planned.tvm_ffi)) if wanted]
    notes = (*content.contribution.built.notes, *buildnotes.without_host_code(content.contribution, options))
    return dataclasses.replace(
        content.contribution.built, path=content.path, how=ran.how, seconds=ran.seconds, notes=notes
    )
