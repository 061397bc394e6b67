"""Where in a source the code is of which the compiler died: a line of text that cannot be read, or a function.

In: a job whose process died, and in which step. Out: a Diagnostic, or None where nothing alone is to blame. The source
is compiled again in parts, each in a process of its own, until the one that dies is found: only crashes pay for it.

>>> find(todo, "parsing").text()   # doctest: +SKIP
"kernels/f.mlir:3: error: the compiler dies of this line"
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from aot import codec, fileset, mlir, process
from aot.engine import forked, scratch, worker
from aot.engine.job import CompileJob
from aot.errors import Diagnostic
from aot.lower.source import sourcelevel

_SECONDS = 60
"""How long a part may take."""
_MOST = 12
"""Parts that are tried: builds wait for it."""


def find(todo: CompileJob, stage: str) -> Diagnostic | None:
    """The place; ``stage`` is what the process was about to do."""
    data = fileset.read_file(Path(todo.file))
    if stage == mlir.PARSING:
        return _line(data, todo.path)
    places = _functions(data, todo.path)
    with scratch.folder("crash") as folder:
        part = folder / "part.mlir"
        names = _guilty(list(places), lambda some: _dies(partial(_compile, todo, data, some, part)))
    if len(names) != 1:
        return None
    return replace(places[names[0]], message=f"the compiler dies of '@{names[0]}'")


def _guilty(names: Sequence[str], dies: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """The one that is, by halves; more where it takes several, or too long."""
    for _ in range(_MOST // 2):
        if len(names) < 2:
            break
        half = len(names) // 2
        found = next((some for some in (names[:half], names[half:]) if dies(some)), None)
        if found is None:
            break
        names = found
    return names


def _line(data: bytes, path: str) -> Diagnostic | None:
    """The first line up to which the text cannot be parsed; bytecode has none."""
    if mlir.is_bytecode(data):
        return None
    lines = data.split(b"\n")
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _dies(partial(_parse, b"\n".join(lines[:middle]), path)):
            bad = middle
        else:
            good = middle
    text = lines[bad - 1].decode("utf-8", "replace")
    return Diagnostic("the compiler dies of this line", path, bad, source_line=text)


def _dies(compute: Callable[[forked.Mark], bytes]) -> bool:
    def bounded(mark: forked.Mark) -> bytes:
        signal.alarm(_SECONDS)
        return compute(mark)

    return process.died(forked.finish(forked.start(bounded)).done)


def _parse(data: bytes, path: str, mark: forked.Mark) -> bytes:
    with mlir.context(mark) as ctx:
        mlir.parse(data, path, ctx)
    return b""


def _functions(data: bytes, path: str) -> dict[str, Diagnostic]:
    """All that could be compiled alone, with their places."""

    def compute(mark: forked.Mark) -> bytes:
        with mlir.context() as ctx:
            module = mlir.parse(data, path, ctx)
            found = sourcelevel.places(module)
            entries = [mlir.symbol_name(op) for op in sourcelevel.entries(module)]
            return json.dumps({name: codec.encode(found[name]).decode() for name in entries}).encode()

    said = forked.finish(forked.start(compute)).data
    return {name: codec.decode(each.encode(), Diagnostic) for name, each in json.loads(said or b"{}").items()}


def _compile(todo: CompileJob, data: bytes, names: Sequence[str], part: Path, mark: forked.Mark) -> bytes:
    """Compiles some of the functions of a source, which become a file of their own."""
    with mlir.context() as ctx:
        module = mlir.parse(data, todo.path, ctx)
        sourcelevel.keep(module, names)
        text = module.operation.get_asm(enable_debug_info=True).encode()
    fileset.write_file(part, text)
    digest = hashlib.sha256(text).hexdigest()
    worker.compiled(replace(todo, file=str(part), sha256=digest, dump=None), mark, forked.Alone())
    return b""
