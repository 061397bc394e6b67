"""Which files become sources, and what their text tells about arguments."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from aot import lexer, sources
from aot.errors import AotError

FUNCTION = b"func.func @f() { return }\n"


def make(folder: Path, files: Mapping[str, bytes]) -> str:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(folder)


def test_a_folder_gives_its_sources_sorted(tmp_path: Path) -> None:
    folder = make(
        tmp_path,
        {
            "b.mlir": FUNCTION,
            "a-1.mlirbc": b"ML\xefR\0\xff",
            "b.transform.mlir": b"module {}",
            ".hidden.mlir": b"",
            "notes.txt": b"",
            "helper.py": b"",
            "deeper/c.mlir": FUNCTION,
        },
    )
    found = sources.discover([folder])
    assert [(source.name, Path(source.path).name) for source in found] == [("a_1", "a-1.mlirbc"), ("b", "b.mlir")]
    assert found[1].transform == str(tmp_path / "b.transform.mlir")
    assert found[0].transform is None


def test_a_file_named_twice_is_one_source(tmp_path: Path) -> None:
    folder = make(tmp_path, {"a.mlir": FUNCTION})
    assert len(sources.discover([folder, f"{folder}/a.mlir"])) == 1


FAULTS: list[tuple[str, dict[str, bytes], list[str], int, str]] = [
    ("missing", {}, ["nowhere"], 2, r"'.*nowhere' does not exist"),
    ("empty folder", {}, ["."], 1, r"no sources in '.*': no \*\.mlir or \*\.mlirbc"),
    ("sources one level deeper", {"x/a.mlir": FUNCTION}, ["."], 1, r"in its sub-folders: x"),
    ("only a transform script", {"a.transform.mlir": b"module {}"}, ["."], 1, r"no sources in"),
    (
        "script of no source",
        {"a.mlir": FUNCTION, "b.transform.mlir": b""},
        ["."],
        1,
        r"there is no 'b\.mlir' beside it",
    ),
    ("transform script named", {"a.transform.mlir": b"module {}"}, ["a.transform.mlir"], 2, r"is a transform script"),
    ("python named", {"a.py": b""}, ["a.py"], 2, r"'.*a\.py' is no source: Python generators are not supported yet"),
    ("text file named", {"a.txt": b""}, ["a.txt"], 2, r"sources end in \.mlir or \.mlirbc"),
    ("empty file", {"a.mlir": b" \n"}, ["."], 1, r"a\.mlir: the file is empty"),
    ("latin-1", {"a.mlir": b"// x\n// caf\xe9\n"}, ["."], 1, r"a\.mlir:2: not UTF-8 text .*\(byte 0xe9\)"),
    ("byte order mark", {"a.mlir": b"\xef\xbb\xbf" + FUNCTION}, ["."], 1, r"a\.mlir:1: begins with a byte order mark"),
    ("nothing named", {}, [""], 2, r"SRC is empty"),
    ("line break", {"x\ny/a.mlir": FUNCTION}, ["x\ny"], 1, r"x\\ny/a\.mlir': its path has '\\n', which is no part"),
    ("no UTF-8", {"x\udcff/a.mlir": FUNCTION}, ["x\udcff"], 1, r"a\.mlir': its path has '\\udcff', which is no part"),
    ("nul bytes", {"a.mlir": b"// \0"}, ["."], 1, r"a\.mlir: holds NUL bytes"),
    ("keyword", {"class.mlir": FUNCTION}, ["."], 1, r"'class' .*: it is a Python keyword"),
    ("digit first", {"3d.mlir": FUNCTION}, ["."], 1, r"'3d' .*not an ASCII Python identifier"),
    ("not ascii", {"größe.mlir": FUNCTION}, ["."], 1, r"not an ASCII Python identifier"),
    ("underscore first", {"_x.mlir": FUNCTION}, ["."], 1, r"leading underscore"),
    ("reserved", {"check.mlir": FUNCTION}, ["."], 1, r"'check' .*the package itself uses this name"),
    ("clash of spellings", {"a-b.mlir": FUNCTION, "a_b.mlir": FUNCTION}, ["."], 1, r"same name.*\n +'a_b': .*a-b.*a_b"),
    ("clash of kinds", {"a.mlir": FUNCTION, "a.mlirbc": b"ML\xefR"}, ["."], 1, r"two sources with the same name"),
    (
        "clash of folders",
        {"x/a.mlir": FUNCTION, "y/a.mlir": FUNCTION},
        ["x", "y"],
        1,
        r"two sources with the same name",
    ),
    (
        "broken link",
        {"a.mlir": FUNCTION, "link.mlir": b"->nowhere"},
        ["."],
        1,
        r"cannot read '.*link\.mlir': it does not",
    ),
]


@pytest.mark.parametrize(("files", "paths", "code", "message"), [row[1:] for row in FAULTS], ids=[r[0] for r in FAULTS])
def test_faults(tmp_path: Path, files: dict[str, bytes], paths: list[str], code: int, message: str) -> None:
    links = {name: data[2:].decode() for name, data in files.items() if data.startswith(b"->")}
    make(tmp_path, {name: data for name, data in files.items() if name not in links})
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    with pytest.raises(AotError) as caught:
        sources.discover([str(tmp_path / path) if path else "" for path in paths])
    assert re.search(message, caught.value.text()), caught.value.text()
    assert caught.value.exit_code == code


def test_all_unusable_sources_are_reported_together(tmp_path: Path) -> None:
    folder = make(tmp_path, {"class.mlir": FUNCTION, "empty.mlir": b"", "ok.mlir": FUNCTION})
    with pytest.raises(AotError, match=r"(?s)2 sources cannot be used.*keyword.*empty"):
        sources.discover([folder])


TEXTS: list[tuple[str, str, dict[str, tuple[tuple[str, ...], str]]]] = [
    ("plain", "func.func @f(%a: f32, %b: i1) {}", {"f": (("a", "b"), "")}),
    ("public", "func.func public @f(%a: f32)", {"f": (("a",), "")}),
    ("declaration", "func.func private @f(f32, memref<2xf32>)", {"f": ((), "")}),
    ("quoted symbol", 'func.func @"a b"(%x: f32)', {"a b": (("x",), "")}),
    ("numbered", "func.func @f(%0: f32, %1: f32)", {"f": (("0", "1"), "")}),
    ("attributes", 'func.func @f(%a: f32 {x.y = "%no, (", z = [1, 2]}, %b: f32)', {"f": (("a", "b"), "")}),
    (
        "nested types",
        "func.func @f(%a: memref<?xf32, affine_map<(d0)[s0] -> (d0 + s0)>>, %b: tensor<2x!t.p<%x, 1>>)",
        {"f": (("a", "b"), "")},
    ),
    ("function type", "func.func @f(%a: (f32, i32) -> f32, %b: i1)", {"f": (("a", "b"), "")}),
    ("aliases", "#m = affine_map<(d0) -> (d0)>\n!t = tensor<2xf32>\nfunc.func @f(%a: !t)", {"f": (("a",), "")}),
    ("locations", 'func.func @f(%a: f32 loc("x(":1:2), %b: f32 loc(#loc1))', {"f": (("a", "b"), "")}),
    ("comment inside", "func.func @f(%a: f32, // %no: f32\n  %b: f32)", {"f": (("a", "b"), "")}),
    ("string with a function", 'func.func @f() { x.y {s = "func.func @g(%a: f32)"} }', {"f": ((), "")}),
    ("linkage", "llvm.func internal fastcc @f(%a: !llvm.ptr, %b: i32)", {"f": (("a", "b"), "")}),
    ("variadic", "llvm.func @f(%a: !llvm.ptr, ...)", {"f": (("a",), "")}),
    ("kernel", "gpu.module @m { gpu.func @k(%a: f32) workgroup(%w: memref<2xf32, 3>) kernel {} }",
     {"k": (("a",), ""), "m::k": (("a",), "")}),
    ("same kernel twice", "gpu.module @m { gpu.func @k(%a: f32) {} }\ngpu.module @n { gpu.func @k(%b: f32) {} }",
     {"m::k": (("a",), ""), "n::k": (("b",), "")}),
    ("module with attributes", "module @m attributes {a.b = {c}} { func.func @f(%a: f32) {} }",
     {"f": (("a",), ""), "m::f": (("a",), "")}),
    ("comment", "// Adds.\n//   Twice.\nfunc.func @f()", {"f": ((), "Adds.\n  Twice.")}),
    ("comment apart", "// Not about f.\n\nfunc.func @f()", {"f": ((), "")}),
    ("comment after code", "x.y // Not about f.\nfunc.func @f()", {"f": ((), "")}),
    ("directives", "// RUN: mlir-opt %s\n// -----\n// CHECK-LABEL: f\n// Adds.\nfunc.func @f()", {"f": ((), "Adds.")}),
    ("triple slash", "/// Adds.\nfunc.func @f()", {"f": ((), "Adds.")}),
    ("list", "func.func @f(%a: f32, %b: f32 {x.y = dense<[1, -2,\n 3.0e-7]>}, %c: i1)", {"f": (("a", "b", "c"), "")}),
    ("comment after numbers", "x.y [1,\n 2]\n// Adds.\nfunc.func @f()", {"f": ((), "Adds.")}),
    ("call", "func.func @f(%a: f32) { func.call @g(%a) : (f32) -> () }", {"f": (("a",), "")}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_names_and_comments_of_functions(text: str, expected: dict[str, tuple[tuple[str, ...], str]]) -> None:
    found = {name: (entry.names, entry.comment) for name, entry in lexer.argument_names(text).items()}
    assert found == expected


def test_large_constants_cost_little() -> None:
    numbers = ", ".join(["1.25e-3"] * 200_000)
    text = f'func.func @f(%a: f32) {{ x.y dense<[{numbers}]>, "0x{"00" * 5_000_000}" }}'
    start = time.process_time()
    assert lexer.argument_names(text)["f"].names == ("a",)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("text", ["", "func.func", "func.func @f(", '"', "func.func @f(%a: f32", "}}}", "gpu.module"])
def test_broken_text_is_no_error_of_the_lexer(text: str) -> None:
    lexer.argument_names(text)
