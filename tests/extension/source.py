"""The package that the extension's tests run: values as the compiler would make them, with host code from ``host.c``.

In: a folder. Out: the generated tree in it. No MLIR is needed: the C compiler turns host.c into assembly.
"""

from __future__ import annotations

import ast
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aot import fileset
from aot.model import (
    Argument,
    ArrayType,
    CompiledSource,
    FatBinary,
    Function,
    HostObject,
    Image,
    Kernel,
    PackageSpec,
    Result,
    ScalarType,
    ToolVersions,
)
from aot.packages import cfunctions, jobresults, metadata, package
from aot.packages.contribution import Content

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
NUMBERS = [
    "i1",
    "i3",
    "i8",
    "i32",
    "i64",
    "index",
    "ui8",
    "ui64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "complex<f32>",
    "complex<f64>",
]
NO_IMAGES = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
"""A fatbin's header."""
LONG_MESSAGE = "five: " + "é" * 2000
"""More than a call has room for, which ends within a character."""
BLOB = NO_IMAGES + bytes(range(256)) * 24


def case_names(file: Path) -> list[str]:
    """``twice`` for each ``case_twice`` of a file."""
    found = ast.parse(file.read_text(encoding="utf-8")).body
    return [
        each.name.removeprefix("case_")
        for each in found
        if isinstance(each, ast.FunctionDef) and each.name.startswith("case_")
    ]


def tensor(dtype: str, *shape: int | None) -> ArrayType:
    return ArrayType("tensor", dtype, shape)


def memref(
    dtype: str, *shape: int | None, strides: tuple[int | None, ...] | None = None, offset: int | None = 0
) -> ArrayType:
    return ArrayType("memref", dtype, shape, strides, offset)


def value(name: str, kind: ArrayType, role: str = "in") -> Argument:
    return Argument(name, kind, role)


def number(name: str, dtype: str) -> Argument:
    return Argument(name, ScalarType(dtype), "scalar")


def made(kind: ArrayType) -> Result:
    return Result(kind)


def scalar(dtype: str) -> Result:
    return Result(ScalarType(dtype))


def function(
    name: str, args: list[Argument], results: list[Result], flags: tuple[str, ...] = (), doc: str = ""
) -> Function:
    return Function(name, f"aot_entry_demo__{name}", "tensor", tuple(args), tuple(results), flags, doc=doc)


def functions() -> tuple[Function, ...]:
    f32 = tensor("f32", None)
    rows = memref("f32", None, 4)
    loose = memref("f32", None, None, strides=(None, 1), offset=None)
    kinds = ("bf16", "i1", "f8E4M3FN", "complex<f32>", "i64", "index")
    return (
        function("twice", [value("x", f32)], [made(f32)], doc="Doubles each element.\nA second line."),
        function(
            "square",
            [value("x", tensor("f32", 4, 4)), value("out", tensor("f32", 4, 4), "destination")],
            [Result(tensor("f32", 4, 4), 1)],
        ),
        function(
            "several",
            [value("x", rows, "ref")],
            [made(tensor("f32", 4, None)), scalar("f32"), scalar("index"), Result(rows, 0)],
        ),
        function("strided", [value("x", loose, "ref")], [scalar("f32")]),
        function("shifted", [value("x", memref("f32", 4, strides=(1,), offset=8), "ref")], [scalar("f32")]),
        function("numbers", [number(f"a{i}", dtype) for i, dtype in enumerate(NUMBERS)], [scalar(d) for d in NUMBERS]),
        function("make", [number("n", "index")], [made(tensor("i32", None))]),
        function("point", [value("x", tensor("f32"))], [made(tensor("f32"))]),
        function(
            "swap",
            [value("x", memref("f32", None), "ref"), value("y", memref("f32", None), "ref")],
            [Result(memref("f32", None), 1), Result(memref("f32", None), 0)],
        ),
        function("failing", [value("x", f32)], [made(f32)]),
        function("waiting", [value("x", tensor("i32", None))], [made(tensor("i32", None))], ("reads_device",)),
        function("types", [value(f"a{i}", tensor(kind, 2)) for i, kind in enumerate(kinds)], []),
        function("codes", [value("a", tensor("i4", 2)), value("b", tensor("f4E2M1FN", 2))], [made(tensor("i4", 2))]),
        function("many", [value(f"a{i}", tensor("f32", None, None)) for i in range(64)], [scalar("f32")]),
        function("halves", [value("x", f32)], [made(f32), made(f32)]),
        function(
            "mirror",
            [
                value("r", memref("f32", 4), "ref"),
                value("x", tensor("f32", 4)),
                value("out", tensor("f32", 4), "destination"),
                value("more", tensor("f32", 4), "destination"),
            ],
            [Result(tensor("f32", 4), 2), Result(tensor("f32", 4), 3)],
        ),
    )


def kernel(name: str, params: list[Argument], **more: object) -> Kernel:
    return Kernel(name, "kernels", f"kernels__{name}", tuple(params), callable=True, **more)  # type: ignore[arg-type]


def kernels() -> tuple[Kernel, ...]:
    rows = memref("f32", None, 8)
    return (
        Kernel("twice_kernel", "twice_kernel", "twice_kernel__twice_kernel"),
        kernel(
            "scale",
            [value("x", rows, "ref"), number("n", "i32"), number("f", "f16"), value("y", memref("f32", 8), "ref")],
            grid=((2, 0, 1, 128, 7), (3, 0)),  # ceildiv(d0, 128), s0
            block=((1, 128),),
            shared=(2, 1, 1, 4, 5),  # d1 * 4
        ),
        kernel("plain", [number("p", "ptr"), number("n", "i64")]),
        kernel("fixed", [number("p", "ptr")], max_block=(64, 2, 1), cluster=(2, 1, 1), grid=((1, 4),)),
        kernel("special", [number("p", "ptr")], grid=((1, 4),), block=((1, 32),), cooperative=True, priority=-2),
        kernel("bare", [value("x", rows, "ref")], bare=True, grid=((1, 1),), block=((1, 32),)),
        kernel("reads", [Argument("p", ScalarType("ptr"), "in")], grid=((1, 1),), block=((1, 32),)),
    )


def compiled(folder: Path, compiler: str, machine: str) -> CompiledSource:
    """The source `demo`, its host code compiled in ``folder``."""
    assembly = folder / "host.s"
    options = ["-O1", "-S", "-fPIC", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"]
    subprocess.run([*compiler.split(), *options, str(HERE / "host.c"), "-o", str(assembly)], check=True)
    images = (Image("sm_80", "sm_80", "cubin", 6000), Image("compute_90", "compute_90", "ptx", 144, "8.0"))
    return CompiledSource(
        name="demo",
        path="demo.mlir",
        sha256="0" * 64,
        functions=functions(),
        kernels=kernels(),
        fatbin=FatBinary(BLOB, images),
        host=(HostObject(TRIPLES[machine], assembly.read_bytes()),),
        messages=(LONG_MESSAGE, "the length must be even", "extent 0 of 'x' ({}) is not {} (demo.mlir:3)"),
    )


CPU_FUNCTIONS = ("twice", "square", "several", "strided", "make", "point", "failing", "types", "codes", "small")
"""Functions that cpu.c has code for."""
VARIANTS = {"x86_64": ("v2", "v3", "v4"), "aarch64": ("generic",)}


def with_cpu_code(gpu: CompiledSource, folder: Path, compiler: str, machine: str) -> CompiledSource:
    """The source `demo` with CPU code, too, compiled in ``folder``; `small` has nothing else."""
    options = ["-O1", "-S", "-fPIC", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"]
    code = []
    for number, variant in enumerate(VARIANTS[machine]):
        assembly = folder / f"cpu-{variant}.s"
        defined = [f"-DVARIANT={variant}", f"-DNUMBER={number}"]
        subprocess.run([*compiler.split(), *options, *defined, str(HERE / "cpu.c"), "-o", str(assembly)], check=True)
        code.append(HostObject(TRIPLES[machine], assembly.read_bytes(), variant))
    small = tensor("bf16", None)
    functions = (
        *(replace(each, cpu=each.name in CPU_FUNCTIONS) for each in gpu.functions),
        replace(function("small", [value("x", small)], [made(small)]), entry="", cpu=True),
    )
    return replace(gpu, functions=functions, host=(*gpu.host, *code))


def spec(name: str = "demopkg", version: str = "1.0", top_level: tuple[tuple[str, str], ...] = ()) -> PackageSpec:
    return PackageSpec(name, name, version, ToolVersions("0.1", "22.1.8", "13.5", 12000), top_level)


def write(tree: Path, package_spec: PackageSpec, *sources: CompiledSource) -> Path:
    """Writes the package's tree, as the pipeline does."""
    fileset.write_tree(render(package_spec, sources, package.read_templates(ROOT / "templates")), tree)
    return tree


def render(made: PackageSpec, sources: Sequence[CompiledSource], templates: fileset.FileSet) -> dict[str, bytes]:
    """The package's tree as a value."""
    contents = [content(each) for each in sources]
    declared = cfunctions.functions(made, sources) if made.c else ()
    manifest = metadata.manifest(made, {each.name: metadata.module(each) for each in sources})
    return package.render(made, contents, manifest, templates, declared)


def content(made: CompiledSource) -> Content:
    """The source as it is packaged."""
    blob = made.fatbin.data if made.fatbin else None
    contribution = jobresults.Reader().contribution(made)
    return Content(made.path, contribution, blob, tuple(code.assembly for code in made.host), lambda: made)
