"""The generated tree as text: golden trees, tables, stubs, manifest. No compiler runs here.

``pytest tests/test_package.py --update-golden`` rewrites tests/golden; read the diff before committing it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from extension import source

from aot import codec, dtype, naming
from aot.errors import LoweringError, PackageError
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
    Usage,
)
from aot.packages import metadata, package, tables
from aot.tiling import Tiling
from aot.wheels import runtimeunits

GOLDEN = Path(__file__).parent / "golden"
TEMPLATES = package.read_templates(source.ROOT / "templates")
VERSIONS = ToolVersions("0.1.0", "22.1.8", "13.5.33", 13000)


def host(*triples: str) -> tuple[HostObject, ...]:
    return tuple(HostObject(triple, f"# code for {triple}\n".encode()) for triple in triples)


BOTH = host("x86_64-linux-gnu", "aarch64-linux-gnu")
FATBIN = FatBinary(
    source.NO_IMAGES + b"fatbin of softmax",
    (Image("sm_80", "sm_80", "cubin", 5000), Image("sm_90", "sm_90a", "cubin", 6000)),
    (("softmax__forward_kernel", "sm_80", Usage(32, 1024, 0, 0, 1024, 896)),),
)


def softmax() -> CompiledSource:
    """Tensor level, with a result, an integer and a destination."""
    rows = ArrayType("tensor", "f32", (None, 128))
    forward = Function(
        "forward",
        "aot_entry_softmax__forward",
        "tensor",
        (Argument("x", rows), Argument("axis", ScalarType("i32"), "scalar")),
        (Result(rows),),
        doc='Softmax of each row, "numerically stable".\nRows may be empty: 0 x 128 \\ any.',
    )
    inplace = Function(
        "inplace", "aot_entry_softmax__inplace", "tensor", (Argument("out", rows, "destination"),), (Result(rows, 0),)
    )
    tiling = Tiling("rows", 1, (("threads", 128), ("rows", 1)), ("masked",), ("x.0", "1", "1"), ("128", "1", "1"))
    kernel = Kernel("forward_kernel", "forward_kernel", "softmax__forward_kernel", schedule="row", tiling=tiling)
    return CompiledSource(
        "softmax", "kernels/softmax.mlir", "ab" * 32, (forward, inplace), (kernel,), FATBIN, BOTH, ("bad ?? axis\n",)
    )


def scale() -> CompiledSource:
    """Kernel level: no host code."""
    array = ArrayType("memref", "bf16", (None, 8), (None, 1), None)
    kernel = Kernel(
        "scale",
        "kernels",
        "kernels__scale",
        (Argument("x", array, "ref"), Argument("n", ScalarType("index"), "scalar")),
        callable=True,
        grid=((2, 0, 1, 32, 7), (3, 0)),
        block=((1, 32),),
        shared=(2, 1, 1, 3, 4, 1, 2, 5),
        cluster=(2, 1, 1),
        max_block=(32, 1, 1),
    )
    return CompiledSource("scale", "kernels/scale.mlir", "cd" * 32, (), (kernel,), FATBIN, ())


def alloc() -> CompiledSource:
    """Launch level without any kernel."""
    function = Function("alloc", "aot_entry_alloc__alloc", "launch", (), (), ("host_sync", "serial"))
    return CompiledSource("alloc", "kernels/alloc.mlir", "ef" * 32, (function,), (), None, BOTH)


def on_cpu(source: CompiledSource) -> CompiledSource:
    """With CPU code of all functions."""
    variants = {"x86_64-linux-gnu": ("v2", "v3"), "aarch64-linux-gnu": ("generic",)}
    code = [HostObject(triple, b"# code for a CPU\n", name) for triple, names in variants.items() for name in names]
    functions = tuple(dataclasses.replace(each, cpu=True) for each in source.functions)
    return dataclasses.replace(source, functions=functions, host=(*source.host, *code))


def host_only(source: CompiledSource) -> CompiledSource:
    """Without anything for a GPU."""
    made = on_cpu(source)
    functions = tuple(dataclasses.replace(each, entry="") for each in made.functions)
    host = tuple(code for code in made.host if code.variant)
    return dataclasses.replace(made, functions=functions, host=host, kernels=(), fatbin=None)


TREES = {
    "one": (softmax(),),
    "three": (softmax(), scale(), alloc()),
    "cpu": (on_cpu(softmax()), scale()),
    "host_only": (host_only(softmax()),),
}


def spec(sources: tuple[CompiledSource, ...], **changes: Any) -> PackageSpec:
    names = {s.name: [f.name for f in s.functions] + [k.name for k in s.kernels if k.callable] for s in sources}
    made = PackageSpec("my_kernels", "my-kernels", "1.2.0", VERSIONS, naming.top_level(names))
    return dataclasses.replace(made, **changes)


def render(*sources: CompiledSource, **changes: Any) -> dict[str, bytes]:
    made = spec(sources, **changes)
    return source.render(made, sources, TEMPLATES)


@pytest.mark.parametrize("name", TREES)
def test_golden_tree(name: str, request: pytest.FixtureRequest) -> None:
    few = ("runtime/aot.h", "runtime/py_call.c", "runtime/rt_call.c")  # the list of C files is not what is compared
    templates = {path: data for path, data in TEMPLATES.items() if path.startswith("package/") or path in few}
    made = spec(TREES[name])
    tree = source.render(made, TREES[name], templates)
    files = {path: data for path, data in tree.items() if not is_fixed(path)}
    folder = GOLDEN / name
    if request.config.getoption("--update-golden"):
        for old in sorted(folder.rglob("*"), reverse=True):
            old.unlink() if old.is_file() else old.rmdir()
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    kept = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert sorted(files) == sorted(kept)
    for path, data in files.items():
        assert data.decode(errors="backslashreplace") == kept[path].decode(errors="backslashreplace"), path


def is_fixed(path: str) -> bool:
    """Whether the file is the same in every package."""
    units = [f"csrc/{unit}.c" for unit in runtimeunits.UNITS]
    return path.startswith("csrc/runtime/") or path in units or f"package/{Path(path).name}" in TEMPLATES


def test_trees_do_not_depend_on_the_order_of_sources() -> None:
    assert render(*TREES["three"]) == render(*reversed(TREES["three"]))


def test_runtime_travels_as_it_is() -> None:
    files = render(softmax())
    runtime = {path: data for path, data in TEMPLATES.items() if path.startswith("runtime/")}
    assert len(runtime) > 20
    for path, data in runtime.items():
        assert files[f"csrc/{path}"] == data
    units = [files[f"csrc/{unit}.c"].decode() for unit in runtimeunits.UNITS]
    included = [line.split('"')[1] for text in units for line in text.splitlines() if line.startswith("#include")]
    assert sorted(included) == sorted(path for path in runtime if path.endswith(".c"))


@pytest.mark.parametrize(
    "description",
    ['say "hi" \\ there', "it's", "ünïcode ✓ 🚀 \x7f", "a ''' b \"\"\" c"],
    ids=["quotes", "one", "utf8", "triple"],
)
def test_texts_are_quoted(description: str) -> None:
    files = render(softmax(), description=description)
    tree = ast.parse(files["src/my_kernels/__init__.py"])
    assert ast.get_docstring(tree, clean=False) == description
    tomllib = pytest.importorskip("tomllib")
    assert tomllib.loads(files["pyproject.toml"].decode())["project"]["description"] == description
    stub = ast.parse(files["src/my_kernels/softmax.pyi"])
    (forward, _) = (node for node in stub.body if isinstance(node, ast.FunctionDef))
    assert (ast.get_docstring(forward) or "").startswith('Softmax of each row, "numerically stable".\nRows')


def test_generated_python_compiles() -> None:
    for path, data in render(*TREES["three"]).items():
        if path.endswith((".py", ".pyi")):
            compile(data, path, "exec")


def renamed(function: str) -> CompiledSource:
    first = softmax()
    return dataclasses.replace(
        first, functions=(*first.functions, dataclasses.replace(first.functions[0], name=function))
    )


DEEP = ArrayType("tensor", "f32", (1,) * 17)
WRONG: dict[str, tuple[CompiledSource, str]] = {
    "two functions of one name": (renamed("inplace"), "two functions or kernels called 'inplace'"),
    "no host code": (dataclasses.replace(softmax(), host=()), "functions without host code"),
    "rank": (
        dataclasses.replace(softmax(), functions=(Function("f", "e", "tensor", (Argument("x", DEEP),), ()),)),
        "function 'f', argument 'x': rank 17 is over 16",
    ),
    "too many arguments": (
        dataclasses.replace(
            softmax(),
            functions=(Function("f", "e", "tensor", (Argument("x", ScalarType("i8"), "scalar"),) * 5000, ()),),
        ),
        "has 5000 arguments, over 4096",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_sources_that_cannot_be_packaged(case: str) -> None:
    compiled, words = WRONG[case]
    with pytest.raises(PackageError, match=words):
        render(compiled)


def test_a_package_needs_sources() -> None:
    with pytest.raises(PackageError, match="has no sources"):
        render()


@pytest.mark.parametrize(
    ("program", "ended"),
    [((1, 128), (1, 128, 0)), ((1, 128, 0), (1, 128, 0)), ((1, 0), (1, 0, 0)), ((2, 0, 1, 0, 4), (2, 0, 1, 0, 4, 0))],
    ids=["open", "ended", "constant zero", "sum"],
)
def test_programs_end_once(program: tuple[int, ...], ended: tuple[int, ...]) -> None:
    kernel = dataclasses.replace(scale().kernels[0], grid=(program,))
    row = tables.source_row(dataclasses.replace(scale(), kernels=(kernel,)))
    assert row.kernels[0].grid == (ended, None, None)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ((1, 128), 128),
        ((2, 0), "d0"),
        ((2, 0, 1, 32, 7), "ceildiv(d0, 32)"),
        ((2, 0, 3, 1, 4, 1, 2, 5), "(d0 + s1) * 2"),
        ((1, 2, 2, 0, 3, 1, 4, 5), "2 * (d0 + s1)"),
        ((2, 0, 1, 2, 5, 1, 3, 4, 0), "d0 * 2 + 3"),
        ((2, 0, 1, 4, 6, 1, 2, 8), "mod(floordiv(d0, 4), 2)"),
        ((2, 0, 2, 1, 1, 8, 7, 4, 1, 2, 5), "(d0 + ceildiv(d1, 8)) * 2"),
        ((1, -1), -1),
    ],
)
def test_expressions_of_the_manifest(program: tuple[int, ...], text: int | str) -> None:
    assert metadata.expression(program) == text


def test_manifest_says_what_design_promises() -> None:
    document = metadata.manifest(spec(TREES["three"]), {each.name: metadata.module(each) for each in TREES["three"]})
    assert json.loads(json.dumps(document)) == document
    assert (document["schema"], document["package"], document["version"]) == (1, "my_kernels", "1.2.0")
    assert document["toolchain"] == {"aot": "0.1.0", "mlir": "22.1.8", "ptxas": "13.5.33", "min_driver_cuda": 13000}
    modules = {module["name"]: module for module in document["modules"]}
    assert list(modules) == ["alloc", "scale", "softmax"]
    assert modules["softmax"]["host"] == ["aarch64", "x86-64"]
    assert modules["softmax"]["images"][1]["target"] == "sm_90a"
    assert modules["softmax"]["images"][1]["requested"] == "sm_90"
    argument = modules["softmax"]["functions"][0]["args"][0]
    assert argument == {
        "name": "x", "kind": "tensor", "dtype": "f32", "shape": [None, 128], "layout": None, "role": "in",
        "type": "tensor<?x128xf32>",
    }  # fmt: skip
    assert modules["softmax"]["kernels"][0]["usage"]["sm_80"]["registers"] == 32
    kernel = modules["scale"]["kernels"][0]
    assert (kernel["grid"], kernel["block"], kernel["shared"]) == (["ceildiv(d0, 32)", "s0"], [32], "(d1 + 3) * 2")
    assert [parameter["bytes"] for parameter in kernel["params"]] == [56, 8]
    assert kernel["params"][0]["layout"] == {"strides": [None, 1], "offset": None}
    assert modules["alloc"]["blob_sha256"] is None


@pytest.mark.parametrize("compiled", [softmax(), scale(), alloc()], ids=lambda compiled: compiled.name)
def test_values_survive_json(compiled: CompiledSource) -> None:
    data = codec.encode(compiled)
    assert codec.decode(data, CompiledSource) == compiled
    assert codec.encode(codec.decode(data, CompiledSource)) == data


def test_json_of_another_shape_is_refused() -> None:
    data = json.loads(codec.encode(alloc()))
    data["surprise"] = 1
    with pytest.raises(Exception, match=r"surprise|CompiledSource"):
        codec.decode(json.dumps(data).encode(), CompiledSource)


def test_element_types_agree_with_ml_dtypes() -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("ml_dtypes")
    for name, row in dtype._TABLE.items():
        if row.numpy:
            assert numpy.dtype(row.numpy).itemsize == row.storage, name
        assert row.storage == row.bits // 8
    assert (dtype.of("i3").storage, dtype.of("i3").width, dtype.of("i3").numpy) == (1, 3, "int8")
    assert dtype.known("bf16")
    assert not dtype.known("ptr")
    with pytest.raises(LoweringError, match="element type 'f80' cannot cross"):
        dtype.of("f80")


def test_codes_stand_in_the_header() -> None:
    header = TEMPLATES["runtime/aot.h"].decode()
    for row in dtype._TABLE.values():
        assert f"AOT_DL_{row.kind} = " in header, row
