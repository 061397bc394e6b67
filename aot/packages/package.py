"""The generated package as a value: path -> bytes. Nothing is written here.

In: PackageSpec, the Contents of its sources, the manifest, the files of ``templates/``. Out: the tree that
``pip install`` takes. Templates loop and print; what they print is computed here and in ``tables`` and ``signatures``.

>>> files = render(spec, contents, manifest, read_templates())                # doctest: +SKIP
>>> sorted(files)[:3]                                                         # doctest: +SKIP
['CMakeLists.txt', 'README.md', 'blobs/softmax.fatbin']
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from aot import codec, naming
from aot.errors import PackageError
from aot.fileset import FileSet
from aot.model import CompiledSource, PackageSpec
from aot.packages.cfunctions import CFunction
from aot.packages.contribution import Content, Texts
from aot.packages.signatures import stubs
from aot.packages.tables import source_row
from aot.wheels import runtimeunits

Value = TypeVar("Value")

_PER_FILE = 50
"""Sources in one C file of tables, and in one assembly file of blobs."""
OWN_NAMES = ("CudaError", "DeviceArray", "HostArray", "check", "preload")
_MODULES = ("_check.py", "_shapes.py", "torch.py", "jax.py")
_STATIC = {name: f"src/{{name}}/{name}" for name in _MODULES}
_RENDERED = {
    "pyproject.toml.in": "pyproject.toml",
    "CMakeLists.txt.in": "CMakeLists.txt",
    "README.md.in": "README.md",
    "module.c.in": "csrc/module.c",
    "tables.c.in": "csrc/tables.c",
    "exports.map.in": "csrc/exports.map",
    "__init__.py.in": "src/{name}/__init__.py",
    "__init__.pyi.in": "src/{name}/__init__.pyi",
}
_FOR_TVM_FFI = {"tvm_ffi.c.in": "csrc/tvm_ffi.c"}
_FOR_C = {"c_functions.c.in": "csrc/c_functions.c", "c_header.h.in": "include/{name}.h"}


class _Escapes(dict[int, str]):
    """Characters in C, by their numbers."""

    def __missing__(self, code: int) -> str:
        found = chr(code) if 32 <= code < 127 else "".join(f"\\{byte:03o}" for byte in chr(code).encode("utf-8"))
        self[code] = found
        return found


_ESCAPES = _Escapes({10: "\\n", 34: '\\"', 92: "\\\\"})


class Writer:
    """Writes what a package says of single sources."""

    def __init__(self, templates: FileSet, generator: str) -> None:
        self._made, self._generator = environment(templates), generator

    def texts(self, source: CompiledSource) -> Texts:
        """The source's own texts; PackageError for one that no package can hold."""
        _check_source(source)
        row, declared = source_row(source), stubs(source)
        stub = self._made.get_template("namespace.pyi.in").render(generator=self._generator, stubs=declared)
        table = self._made.get_template("source.c.in").render(source=row)
        return Texts(table, stub, tuple((each.signature, each.doc) for each in declared))


def read_templates(folder: Path) -> dict[str, bytes]:
    """All files of ``templates/`` by their path in it, such as ``runtime/aot.h``."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def extension_name(name: str) -> str:
    """Name of the extension module in the package of this import name."""
    return f"_{name}"


def render(
    spec: PackageSpec,
    contents: Sequence[Content],
    manifest: Mapping[str, Any],
    templates: FileSet,
    c_functions: Sequence[CFunction] = (),
) -> dict[str, bytes]:
    """Every file of the package's tree. ``c_functions`` are those that it declares for C, if it does."""
    ordered = sorted(contents, key=lambda content: content.name)
    _check(spec, ordered)
    runtime = {Path(path).name: data for path, data in templates.items() if path.startswith("runtime/")}
    made = environment(templates)
    context = {**_context(spec, ordered), "c_functions": c_functions}
    files = {f"csrc/runtime/{name}": data for name, data in runtime.items()}
    files |= {f"csrc/{unit}.c": text.encode("utf-8") for unit, text in runtimeunits.texts(runtime).items()}
    for name, path in _STATIC.items():
        files[path.format(name=spec.name)] = templates[f"package/{name}"]
    rendered = {**_RENDERED, **(_FOR_TVM_FFI if spec.tvm_ffi else {}), **(_FOR_C if spec.c else {})}
    for name, path in rendered.items():
        files[path.format(name=spec.name)] = made.get_template(name).render(context).encode("utf-8")
    for path, part in zip(context["table_files"], _parts(ordered), strict=True):
        files[path] = made.get_template("sources.c.in").render(context, part=part).encode("utf-8")
    for path, part in context["blob_files"].items():
        files[path] = made.get_template("blobs.S.in").render(context, blobs=part).encode("utf-8")
    for each in ordered:
        files[f"src/{spec.name}/{each.name}.pyi"] = each.contribution.texts.stub.encode("utf-8")
    files[f"src/{spec.name}/py.typed"] = b""
    files[f"src/{spec.name}/aot.json"] = codec.document(manifest)
    return {**files, **_binaries(ordered)}


def _context(spec: PackageSpec, contents: Sequence[Content]) -> dict[str, Any]:
    tables = [f"csrc/tables_{number}.c" for number, _ in enumerate(_parts(contents))]
    blobs = {f"csrc/blobs_{number}.S": part for number, part in enumerate(_parts(_blob_names(contents)))}
    own = ["csrc/module.c", "csrc/tables.c", *tables, *(_FOR_TVM_FFI.values() if spec.tvm_ffi else ())]
    names = [each.name for each in contents]
    gpu, cpu = any(each.contribution.gpu for each in contents), any(each.contribution.cpu for each in contents)
    return {
        "spec": spec,
        "generator": spec.versions.aot,
        "description": spec.description or naming.description(names, gpu_only=gpu and not cpu),
        "toolchain": f"ptxas {spec.versions.ptxas}, MLIR {spec.versions.mlir}",
        "extension": extension_name(spec.name),
        "sources": contents,
        "public": sorted({*OWN_NAMES, *names, *(name for name, _ in spec.top_level)}),
        "c_files": [*own, *blobs],
        "table_files": tables,
        "runtime_units": list(runtimeunits.UNITS),
        "triples": _triples(contents),
        "host_files": _host_files(contents),
        "gpu": gpu,
        "cpu": cpu,
        "blob_files": blobs,
        "tvm_names": _tvm_names(spec, contents) if spec.tvm_ffi else (),
    }


def _parts(sources: Sequence[Value]) -> list[Sequence[Value]]:
    """The sources by C files: when one changes, few others are compiled with it."""
    return [sources[first : first + _PER_FILE] for first in range(0, len(sources), _PER_FILE)]


def _tvm_names(spec: PackageSpec, contents: Sequence[Content]) -> list[tuple[str, str, int]]:
    """Name for tvm-ffi, source and number of each function: its own name where it stands at top level."""
    return [
        (name if (name, each.name) in spec.top_level else f"{each.name}__{name}", each.name, number)
        for each in contents
        for number, name in enumerate(each.contribution.functions)
    ]


def _binaries(contents: Sequence[Content]) -> dict[str, bytes]:
    data = {each.name: each.blob for each in contents if each.blob is not None}
    blobs = {f"blobs/{names[0]}.fatbin": data[names[0]] for names in _blob_names(contents)}
    host = {
        _host_file(each.name, *kind): assembly
        for each in contents
        for kind, assembly in zip(each.contribution.host, each.host, strict=True)
    }
    return blobs | host


def _blob_names(contents: Sequence[Content]) -> list[list[str]]:
    """Sources by the bytes of their fatbin: what is the same in several is stored once, under the first one's name."""
    found: dict[bytes, list[str]] = {}
    for each in contents:
        if each.blob is not None:
            found.setdefault(each.blob, []).append(each.name)
    return list(found.values())


def _host_files(contents: Sequence[Content]) -> dict[str, list[str]]:
    """Assembly files by machine."""
    found: dict[str, list[str]] = {triple: [] for triple in _triples(contents)}
    for each in contents:
        for triple, variant in each.contribution.host:
            found.setdefault(triple, []).append(_host_file(each.name, triple, variant))
    return found


def _host_file(name: str, triple: str, variant: str) -> str:
    """CPU code has the variant in its name."""
    return f"host/{name}-{'-'.join(filter(None, (triple, variant)))}.s"


def _triples(contents: Sequence[Content]) -> list[str]:
    """Machines that every source with host code was compiled for."""
    sets = [{triple for triple, _ in each.contribution.host} for each in contents if each.contribution.host]
    return sorted(set.intersection(*sets)) if sets else ["aarch64-linux-gnu", "x86_64-linux-gnu"]


def _check(spec: PackageSpec, contents: Sequence[Content]) -> None:
    names = [each.name for each in contents]
    assert len(set(names)) == len(names), f"two sources of one name: {names}"
    if not contents:
        raise PackageError(f"package '{spec.name}' has no sources")


def _check_source(source: CompiledSource) -> None:
    taken = [f.name for f in source.functions] + [k.name for k in source.kernels if k.callable]
    twice = sorted({name for name in taken if taken.count(name) > 1})
    if twice:
        raise PackageError(f"{source.path}: two functions or kernels called {', '.join(map(repr, twice))}")
    if source.functions and not source.host:
        raise PackageError(f"{source.path}: functions without host code")


def environment(templates: FileSet) -> jinja2.Environment:
    """The templates, with the filters that quote; an undefined name is an error."""
    texts = {
        path.removeprefix("package/"): data.decode("utf-8")
        for path, data in templates.items()
        if path.startswith(("package/", "split/")) and path.endswith(".in")
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(texts),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )
    environment.filters.update(c=_c_string, int64=_int64, int64s=_int64s, toml=_toml, py=_py)
    return environment


def _c_string(text: str) -> str:
    """A C string literal: octal escapes, since a hexadecimal one would swallow digits that follow it."""
    return f'"{text.translate(_ESCAPES)}"'


def _int64(number: int | None) -> str:
    return "AOT_DYNAMIC" if number is None else f"INT64_C({number})"


def _int64s(numbers: Sequence[int | None] | None) -> str:
    if numbers is None:
        return "NULL"
    return f"(const int64_t[]){{ {', '.join(_int64(number) for number in numbers)} }}"


def _toml(text: str) -> str:
    """A basic string: as in JSON, but for surrogates and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _py(text: str) -> str:
    """A Python literal; a docstring when it has several lines."""
    if "\n" not in text:
        return repr(text) if '"' in text or "\\" in text else f'"{text}"'
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{escaped}\n"""'
