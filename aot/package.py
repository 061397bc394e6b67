"""The generated package as a value: path -> bytes. Nothing is written here.

In: PackageSpec, CompiledSources, the manifest, the files of ``templates/``. Out: the tree that ``pip install`` takes.
Templates loop and print; what they print is computed here and in ``tables`` and ``signatures``.

>>> files = render(spec, sources, manifest, read_templates())                 # doctest: +SKIP
>>> sorted(files)[:3]                                                         # doctest: +SKIP
['CMakeLists.txt', 'README.md', 'blobs/softmax.fatbin']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from aot import cfunctions, codec, naming
from aot.errors import PackageError
from aot.fileset import FileSet
from aot.model import CompiledSource, HostObject, PackageSpec
from aot.signatures import Stub, stubs
from aot.tables import SourceRow, source_row

Value = TypeVar("Value")

NAMED = "csrc/runtime/py_module.c"
"""The one file of the runtime that is compiled for each package: the extension's name is in it."""
_PER_FILE = 50
"""Sources in one C file of tables."""
OWN_NAMES = ("CudaError", "DeviceArray", "HostArray", "check", "preload")
_MODULES = ("_check.py", "_shapes.py", "torch.py", "jax.py")
_STATIC = {name: f"src/{{name}}/{name}" for name in _MODULES}
_RENDERED = {
    "pyproject.toml.in": "pyproject.toml",
    "CMakeLists.txt.in": "CMakeLists.txt",
    "README.md.in": "README.md",
    "tables.c.in": "csrc/tables.c",
    "exports.map.in": "csrc/exports.map",
    "blobs.S.in": "csrc/blobs.S",
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


class _Source:
    """One source as templates see it: its rows, and its stubs."""

    def __init__(self, source: CompiledSource) -> None:
        self.row: SourceRow = source_row(source)
        self.stubs: tuple[Stub, ...] = stubs(source)
        self.name = source.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)


def read_templates(folder: Path) -> dict[str, bytes]:
    """All files of ``templates/`` by their path in it, such as ``runtime/aot.h``."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def extension_name(name: str) -> str:
    """Name of the extension module in the package of this import name."""
    return f"_{name}"


def render(
    spec: PackageSpec, sources: Sequence[CompiledSource], manifest: Mapping[str, Any], templates: FileSet
) -> dict[str, bytes]:
    """Every file of the package's tree."""
    ordered = sorted(sources, key=lambda source: source.name)
    _check(spec, ordered)
    runtime = {Path(path).name: data for path, data in templates.items() if path.startswith("runtime/")}
    made = environment(templates)
    context = _context(spec, ordered, runtime)
    files = {f"csrc/runtime/{name}": data for name, data in runtime.items()}
    for name, path in _STATIC.items():
        files[path.format(name=spec.name)] = templates[f"package/{name}"]
    rendered = {**_RENDERED, **(_FOR_TVM_FFI if spec.tvm_ffi else {}), **(_FOR_C if spec.c else {})}
    for name, path in rendered.items():
        files[path.format(name=spec.name)] = made.get_template(name).render(context).encode("utf-8")
    for path, part in zip(context["table_files"], _parts(context["sources"]), strict=True):
        files[path] = made.get_template("sources.c.in").render(context, part=part).encode("utf-8")
    for source in context["sources"]:
        stub = made.get_template("namespace.pyi.in").render(context, source=source)
        files[f"src/{spec.name}/{source.name}.pyi"] = stub.encode("utf-8")
    files[f"src/{spec.name}/py.typed"] = b""
    files[f"src/{spec.name}/aot.json"] = codec.document(manifest)
    return {**files, **_binaries(ordered)}


def _context(spec: PackageSpec, sources: Sequence[CompiledSource], runtime: Iterable[str]) -> dict[str, Any]:
    tables = [f"csrc/tables_{number}.c" for number, _ in enumerate(_parts(sources))]
    own = ["csrc/tables.c", *tables, NAMED, *(_FOR_TVM_FFI.values() if spec.tvm_ffi else ())]
    shared = sorted({f"csrc/runtime/{name}" for name in runtime if name.endswith(".c")} - {NAMED})
    names = [source.name for source in sources]
    gpu = any(source.kernels or any(function.entry for function in source.functions) for source in sources)
    only = gpu and not any(function.cpu for source in sources for function in source.functions)
    return {
        "spec": spec,
        "generator": spec.versions.aot,
        "description": spec.description or naming.description(names, gpu_only=only),
        "toolchain": f"ptxas {spec.versions.ptxas}, MLIR {spec.versions.mlir}",
        "extension": extension_name(spec.name),
        "sources": [_Source(source) for source in sources],
        "public": sorted({*OWN_NAMES, *names, *(name for name, _ in spec.top_level)}),
        "c_files": own,
        "table_files": tables,
        "runtime_files": shared,
        "triples": _triples(sources),
        "host_files": _host_files(sources),
        "gpu": gpu,
        "cpu": any(function.cpu for source in sources for function in source.functions),
        "blobs": _blob_names(sources),
        "tvm_names": _tvm_names(spec, sources) if spec.tvm_ffi else (),
        "c_functions": cfunctions.functions(spec, sources) if spec.c else (),
    }


def _parts(sources: Sequence[Value]) -> list[Sequence[Value]]:
    """The sources by C files: when one changes, few others are compiled with it."""
    return [sources[first : first + _PER_FILE] for first in range(0, len(sources), _PER_FILE)]


def _tvm_names(spec: PackageSpec, sources: Sequence[CompiledSource]) -> list[tuple[str, str, int]]:
    """Name for tvm-ffi, source and number of each function: its own name where it stands at top level."""
    return [
        (
            each.name if (each.name, source.name) in spec.top_level else f"{source.name}__{each.name}",
            source.name,
            number,
        )
        for source in sources
        for number, each in enumerate(source.functions)
    ]


def _binaries(sources: Sequence[CompiledSource]) -> dict[str, bytes]:
    data = {source.name: source.fatbin.data for source in sources if source.fatbin}
    blobs = {f"blobs/{names[0]}.fatbin": data[names[0]] for names in _blob_names(sources)}
    host = {_host_file(source, code): code.assembly for source in sources for code in source.host}
    return blobs | host


def _blob_names(sources: Sequence[CompiledSource]) -> list[list[str]]:
    """Sources by the bytes of their fatbin: what is the same in several is stored once, under the first one's name."""
    found: dict[bytes, list[str]] = {}
    for source in sources:
        if source.fatbin:
            found.setdefault(source.fatbin.data, []).append(source.name)
    return list(found.values())


def _host_files(sources: Sequence[CompiledSource]) -> dict[str, list[str]]:
    """Assembly files by machine."""
    found: dict[str, list[str]] = {triple: [] for triple in _triples(sources)}
    for source in sources:
        for code in source.host:
            found.setdefault(code.triple, []).append(_host_file(source, code))
    return found


def _host_file(source: CompiledSource, code: HostObject) -> str:
    """CPU code has the variant in its name."""
    return f"host/{source.name}-{'-'.join(filter(None, (code.triple, code.variant)))}.s"


def _triples(sources: Sequence[CompiledSource]) -> list[str]:
    """Machines that every source with host code was compiled for."""
    sets = [{code.triple for code in source.host} for source in sources if source.host]
    return sorted(set.intersection(*sets)) if sets else ["aarch64-linux-gnu", "x86_64-linux-gnu"]


def _check(spec: PackageSpec, sources: Sequence[CompiledSource]) -> None:
    names = [source.name for source in sources]
    assert len(set(names)) == len(names), f"two sources of one name: {names}"
    if not sources:
        raise PackageError(f"package '{spec.name}' has no sources")
    for source in sources:
        taken = [f.name for f in source.functions] + [k.name for k in source.kernels if k.callable]
        twice = sorted({name for name in taken if taken.count(name) > 1})
        if twice:
            raise PackageError(f"{source.path}: two functions or kernels called {', '.join(map(repr, twice))}")
        if source.functions and not source.host:
            raise PackageError(f"{source.path}: functions without host code")


def environment(templates: FileSet) -> jinja2.Environment:
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
