"""What one worker process is told, and what it answers.

A job's folder holds ``source.json`` (a digest of all parts and their names, and the CompiledSource without its big
parts), ``blob.fatbin`` and ``host-<triple>.s`` when it went well, ``error.json`` when it did not. All of it is JSON
and plain files, so that any process, on any machine, can take the job.

>>> write_result(job, compiled); read_result(job) == compiled   # doctest: +SKIP
True
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aot import codec, errors, fileset
from aot.errors import AotError, Diagnostic, DiskError
from aot.model import CompiledSource
from aot.settings.wishes import FAST, Wish

RESULT, FAILURE, BLOB, LOG, COST = "source.json", "error.json", "blob.fatbin", "worker.log", "cost.json"
FIRST_DUMP = "00-source.mlir"
"""The file that every dump begins with."""
BUILT, CACHED = "built", "cached"
BUG = "bug"
"""Failure.kind of an exception that is no AotError: its message is the traceback."""


@dataclass(frozen=True)
class CompileJob:
    """The compilation of one source."""

    name: str
    """Namespace."""
    path: str
    """As the user gave it, for messages."""
    file: str
    """Absolute path."""
    sha256: str
    """Of the file's bytes when the build began."""
    bytes: int
    """Size of the file."""
    transform: str | None
    """Absolute path of its transform script."""
    transform_sha256: str
    """Of the script's bytes; empty without one."""
    output: str
    """Absolute path of the job's folder."""
    images: tuple[tuple[str, str], ...]
    """(requested, image) in canonical spelling."""
    skipped: tuple[str, ...]
    triples: tuple[str, ...]
    """Machines to make host code for."""
    compress: str
    accumulate: str
    passes: tuple[str, ...]
    """The source's own passes."""
    toolkit: str | None
    cuda: int | None
    dump: str | None
    """Folder for the IR of this source; None: not kept."""
    tool: str
    """Identifies aot, MLIR and ptxas: a change of any of them makes another job."""
    cpu: bool = False
    """Tensor-level functions are compiled for CPUs, too."""
    wishes: tuple[Wish, ...] = ()
    """Schedules that ``aot.toml`` names."""
    lineinfo: bool = False
    """Machine code says which line it comes from."""
    only: tuple[str, ...] = ()
    """Tensor-level functions that are wanted, and nothing else; empty: everything."""
    precision: str = "f32"
    """Of products of f32 matrices, where the source does not say it."""
    fully_masked: str = "nan"
    schedules: str = FAST
    """Of tensor-level functions for which there is no wish."""


@dataclass(frozen=True)
class Cost:
    """What the last compilation of a source took."""

    peak_bytes: int = 0
    """Memory of its largest process; 0: not known."""
    seconds: float = 0.0
    """Of processor time, in all its processes."""


@dataclass(frozen=True)
class Failure:
    """An error on its way from a worker to the command line."""

    kind: str
    """Class of the error in ``aot.errors``, or BUG."""
    message: str
    hint: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class JobDone:
    """What came of a job."""

    code: int
    """0, or 1 when its folder holds an error."""
    how: str = ""
    """``built`` or ``cached``, when it went well."""
    disk: str = ""
    """Why nothing could be written, not even an error."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """What a job has left."""

    digest: str
    """Of all of it."""
    facts: bytes
    """The CompiledSource without its big parts, as JSON."""
    files: dict[str, bytes]
    """Those, by their files' names."""


class DamagedError(DiskError):
    """What a job has left is not there any more as it was written."""


def write_result(job: CompileJob, compiled: CompiledSource) -> None:
    """Writes the parts, and last the file that says that they are there, and what they were."""
    folder, light, files = Path(job.output), compiled, {}
    if compiled.fatbin is not None:
        files[BLOB] = compiled.fatbin.data
        light = dataclasses.replace(light, fatbin=dataclasses.replace(compiled.fatbin, data=b""))
    files |= {host_name(each.triple, each.variant): each.assembly for each in compiled.host}
    light = dataclasses.replace(light, host=tuple(dataclasses.replace(host, assembly=b"") for host in compiled.host))
    facts = codec.encode(light)
    for name, data in files.items():
        fileset.write_file(folder / name, data)
    fileset.write_file(folder / RESULT, " ".join([_digest(facts, files), *files]).encode() + b"\n" + facts)


def read_parts(job: CompileJob) -> Parts:
    """What ``write_result`` wrote, as bytes; DamagedError where that is not what it was."""
    folder = Path(job.output)
    head, _, facts = fileset.read_file(folder / RESULT).partition(b"\n")
    digest, *names = head.decode("ascii", "replace").split(" ")
    try:
        files = {name: (folder / Path(name).name).read_bytes() for name in names}
    except (OSError, ValueError):
        files = {}
    if digest != _digest(facts, files):
        raise DamagedError(
            f"'{folder}' is damaged: it does not hold what a build wrote there", hint="build again, which makes it anew"
        )
    return Parts(digest, facts, files)


def read_result(job: CompileJob) -> CompiledSource:
    """What ``write_result`` wrote; DamagedError as ``read_parts``."""
    parts = read_parts(job)
    compiled = codec.decode(parts.facts, CompiledSource)
    fatbin = compiled.fatbin
    if fatbin is not None:
        fatbin = dataclasses.replace(fatbin, data=parts.files[BLOB])
    host = tuple(
        dataclasses.replace(each, assembly=parts.files[host_name(each.triple, each.variant)]) for each in compiled.host
    )
    return dataclasses.replace(compiled, fatbin=fatbin, host=host)


def _digest(facts: bytes, files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(f"{len(facts)}\n".encode() + facts)
    for name, data in files.items():
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def write_failure(folder: Path, failure: Failure) -> None:
    """Writes the error of a job. An older result goes first: ninja must not take it for this one's."""
    fileset.remove(folder / RESULT)
    fileset.write_file(folder / FAILURE, codec.encode(failure))


def read_failure(folder: Path) -> Failure | None:
    """The error of a job; None when it left none."""
    file = folder / FAILURE
    return codec.decode(fileset.read_file(file), Failure) if file.is_file() else None


def failure(error: AotError) -> Failure:
    """An error as a value."""
    return Failure(type(error).__name__, error.message, error.hint, error.diagnostics)


def as_error(found: Failure) -> AotError:
    """The error again, of its own class."""
    kind = getattr(errors, found.kind)
    assert issubclass(kind, AotError), found.kind
    error: AotError = kind(found.message, hint=found.hint, diagnostics=found.diagnostics)
    return error


def host_name(triple: str, variant: str) -> str:
    """The file of a HostObject's assembly."""
    return f"host-{triple}-{variant}.s" if variant else f"host-{triple}.s"


def key(job: CompileJob) -> str:
    """The digest of all that the result depends on: neither the folder of the source nor that of the build."""
    same = dataclasses.replace(
        job, path=Path(job.path).name, file="", transform=None, output="", dump=None, toolkit=None, cuda=None
    )
    return hashlib.sha256(codec.encode(same)).hexdigest()


def write_cost(job: CompileJob, cost: Cost) -> None:
    """Keeps what a compilation took, for the next build's order."""
    fileset.write_file(Path(job.output) / COST, codec.encode(cost))


def read_cost(job: CompileJob) -> Cost:
    """What the last compilation took; nothing is known of a new source."""
    try:
        return codec.decode((Path(job.output) / COST).read_bytes(), Cost)
    except (OSError, ValueError):
        return Cost()


def encode(job: CompileJob) -> bytes:
    """The job as JSON."""
    return codec.encode(job)


def decode(data: bytes) -> CompileJob:
    """The job again."""
    return codec.decode(data, CompileJob)
