"""One source compiled in the test's own process, as a worker would.

>>> compiled(tmp_path, "func.func @f(...) { ... }", "sm_80 sm_90").fatbin.images[0].target   # doctest: +SKIP
'sm_80'
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aot import onesource
from aot.engine.forked import Alone
from aot.engine.job import CompileJob
from aot.model import CompiledSource, Kernel
from aot.settings.wishes import Wish


def compiled(folder: Path, text: str, archs: str, *wishes: Wish) -> CompiledSource:
    """The source ``f``, for the architectures that a request names, with the schedules wished for."""
    file = folder / "f.mlir"
    file.write_text(text)
    return onesource.compile_source(some_job(file, archs, *wishes), lambda stage: None, Alone())


def some_job(file: Path, archs: str, *wishes: Wish) -> CompileJob:
    """The job of a file that is there."""
    return CompileJob(
        name="f",
        path="f.mlir",
        file=str(file),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        bytes=file.stat().st_size,
        transform=None,
        transform_sha256="",
        output=str(file.parent / "out"),
        images=tuple((each, each) for each in archs.split()),
        skipped=(),
        triples=("x86_64-linux-gnu",),
        compress="none",
        accumulate="f32",
        passes=(),
        toolkit=None,
        cuda=None,
        dump=None,
        tool="",
        wishes=wishes,
    )


def held(source: CompiledSource, kernel: Kernel) -> set[str]:
    """Targets whose cubin holds the kernel, as the cubins say."""
    assert source.fatbin is not None
    return {target for symbol, target, _ in source.fatbin.usage if symbol == kernel.symbol}
