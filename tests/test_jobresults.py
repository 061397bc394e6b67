"""What a package says of a source is kept beside its result, and is what it would be without."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from compiledsource import some_job
from extension import source
from test_package import on_cpu, softmax

from aot import codec
from aot.engine import job
from aot.engine.job import CompileJob, DamagedError
from aot.engine.prefetch import Prefetch
from aot.errors import DiskError
from aot.model import CompiledSource
from aot.packages import jobresults, metadata
from aot.packages.contribution import Content
from aot.packages.jobresults import CONTRIBUTION, Reader


@pytest.fixture
def todo(tmp_path: Path) -> CompileJob:
    file = tmp_path / "softmax.mlir"
    file.write_text("")
    made = some_job(file, "sm_80")
    job.write_result(made, compiled())
    return made


def compiled(blob: bytes = b"") -> CompiledSource:
    made = on_cpu(softmax())
    assert made.fatbin is not None
    return dataclasses.replace(made, fatbin=dataclasses.replace(made.fatbin, data=made.fatbin.data + blob))


def same(first: Content, second: Content) -> bool:
    return (first.contribution, first.blob, first.host) == (second.contribution, second.blob, second.host)


def test_a_share_is_made_once(todo: CompileJob, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Reader()(todo)
    assert same(made, source.content(compiled()))
    assert made.source() == compiled()
    monkeypatch.setattr(jobresults.Reader, "contribution", None)
    assert same(Reader()(dataclasses.replace(todo, path="moved.mlir")), made)


@pytest.mark.parametrize("change", ["result", "code", "tool", "damaged", "cut", "removed"])
def test_a_share_of_something_else_is_not_taken(todo: CompileJob, change: str) -> None:
    Reader()(todo)
    file = Path(todo.output, CONTRIBUTION)
    old = file.read_bytes()
    expected = compiled()
    if change == "result":
        expected = dataclasses.replace(expected, notes=("new",))
    if change == "code":
        expected = compiled(b"other")
    job.write_result(todo, expected)
    if change == "tool":
        todo = dataclasses.replace(todo, tool="another")
    if change == "damaged":
        file.write_bytes(old.replace(b"softmax", b"sofdmax"))
    if change == "cut":
        file.write_bytes(old[:-1])
    if change == "removed":
        file.unlink()
    found = Reader()(todo)
    assert same(found, source.content(expected))
    assert found.contribution.manifest == codec.line(metadata.module(expected))
    assert (file.read_bytes() == old) == (change in ("damaged", "cut", "removed"))


@pytest.mark.parametrize("part", [job.RESULT, job.BLOB, "host-x86_64-linux-gnu.s"])
@pytest.mark.parametrize("change", ["longer", "cut", "empty", "removed", "a folder"])
def test_what_is_damaged_is_not_read(todo: CompileJob, part: str, change: str) -> None:
    """With a contribution or without one."""
    file = Path(todo.output, part)
    old = file.read_bytes()
    if change in ("removed", "a folder"):
        file.unlink()
    if change == "a folder":
        file.mkdir()
    changed = {"longer": old + b"x", "cut": old[:-1], "empty": b""}
    if change in changed:
        file.write_bytes(changed[change])
    for read in (job.read_result, Reader()):
        with pytest.raises(DiskError) as caught:
            read(todo)
        # Without the file that says that they are there, nothing is.
        assert isinstance(caught.value, DamagedError) or part == job.RESULT


def test_what_is_damaged_is_done_again(todo: CompileJob) -> None:
    result = Path(todo.output, job.RESULT)
    Path(todo.output, job.BLOB).write_bytes(b"")
    prefetch = Prefetch([todo], Reader())
    prefetch.begin()
    with pytest.raises(DamagedError, match="is damaged"):
        prefetch.results(())
    assert not result.exists(), "ninja would take it for the job's"
