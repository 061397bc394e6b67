"""Reads what a job has left as the package needs it, and keeps beside it what took time to make.

In: a CompileJob that is done. Out: a Content. The folder of the job gets a file with the Contribution, under the digest
of all that it was made from.

>>> Reader()(todo).contribution.functions                                     # doctest: +SKIP
('forward',)
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import aot
from aot import codec, fileset, resources
from aot.engine import cache, job
from aot.engine.job import CompileJob
from aot.fatbins import fatbin
from aot.model import CompiledSource
from aot.packages import metadata, package
from aot.packages.contribution import Content, Contribution
from aot.reporting import buildnotes
from aot.reporting.buildresult import KEPT, BuiltSource

CONTRIBUTION = "contribution.json"
"""File in a job's folder: the Contribution, sealed as an entry of the cache is."""


class Reader:
    """Reads results of one build."""

    def __init__(self) -> None:
        templates = resources.templates()
        self._writer = package.Writer(package.read_templates(templates), aot.__version__)
        self._made_with = resources.digest(templates)

    def __call__(self, todo: CompileJob) -> Content:
        """What the job has left; DamagedError as ``job.read_parts``."""
        parts, file = job.read_parts(todo), Path(todo.output) / CONTRIBUTION
        key = hashlib.sha256(f"{todo.tool} {self._made_with} {parts.digest}".encode()).hexdigest()
        contribution = _kept(file, key)
        if contribution is None:
            contribution = self.contribution(job.read_result(todo))
            fileset.write_file(file, cache.sealed(codec.encode(contribution), key))
        host = tuple(parts.files[job.host_name(*each)] for each in contribution.host)
        return Content(todo.path, contribution, parts.files.get(job.BLOB), host, lambda: job.read_result(todo))

    def contribution(self, source: CompiledSource) -> Contribution:
        """What the source puts into a package."""
        images = source.fatbin.images if source.fatbin else ()
        return Contribution(
            built=_built(source),
            functions=tuple(function.name for function in source.functions),
            blob=source.fatbin is not None,
            gpu=bool(source.kernels) or any(function.entry for function in source.functions),
            cpu=any(function.cpu for function in source.functions),
            host=tuple((code.triple, code.variant) for code in source.host),
            images=tuple((image.kind, image.ptx_version) for image in images),
            details=tuple(buildnotes.details(source)),
            manifest=codec.line(metadata.module(source)),
            texts=self._writer.texts(source),
        )


def _kept(file: Path, key: str) -> Contribution | None:
    """The contribution in a file; None when there is none, or one that was made from something else."""
    try:
        data = cache.opened(file.read_bytes(), key)
    except OSError:
        return None
    return codec.decode(data, Contribution) if data is not None else None


def _built(source: CompiledSource) -> BuiltSource:
    binary = source.fatbin
    kernels = (kernel.name for kernel in source.kernels if kernel.callable)
    return BuiltSource(
        name=source.name,
        path=source.path,
        functions=(*(function.name for function in source.functions), *kernels),
        kernels=len(source.kernels),
        images=tuple(image.target for image in binary.images) if binary else (),
        image_bytes=tuple(entry.bytes for entry in fatbin.entries(binary.data)) if binary else (),
        blob_bytes=len(binary.data) if binary else 0,
        skipped=source.skipped,
        notes=source.notes,
        schedules=source.schedules,
        general=source.general,
        how=KEPT,
        seconds=0.0,
    )
