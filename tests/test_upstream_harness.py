"""CHECK lines are matched as FileCheck matches them, and programs are found in a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "upstream"))

check_lines = pytest.importorskip("check_lines")
programs = pytest.importorskip("programs")

MATCHES = [
    ("plain", "CHECK: b\nCHECK: d", "a\nb\nc\nd\n", None),
    ("order matters", "CHECK: d\nCHECK: b", "b\nd\n", "line 2: CHECK: b"),
    ("blanks are one", "CHECK: [1,   2]", "[1, 2]\n", None),
    ("next", "CHECK: a\nCHECK-NEXT: b", "a\nb\n", None),
    ("not the next line", "CHECK: a\nCHECK-NEXT: b", "a\nx\nb\n", "line 2: CHECK-NEXT: b"),
    ("same", "CHECK: rank = 1\nCHECK-SAME: sizes = [2]", "rank = 1 offset = 0 sizes = [2]\n", None),
    ("not the same line", "CHECK: a\nCHECK-SAME: b", "a\nb\n", "line 2: CHECK-SAME: b"),
    ("regular expression", "CHECK: base@ = {{0x[0-9a-f]+}} rank", "base@ = 0x7f01 rank\n", None),
    ("brackets are literal", "CHECK: [{{(35, ){2}35}}]", "[35, 35, 35]\n", None),
    ("literal", "CHECK{LITERAL}: [[[1, 2]]]", "[[[1, 2]]]\n", None),
    ("variable", "CHECK: a = [[N:[0-9]+]]\nCHECK: b = [[N]]", "a = 12\nb = 12\n", None),
    ("variable differs", "CHECK: a = [[N:[0-9]+]]\nCHECK: b = [[N]]", "a = 12\nb = 13\n", "line 2"),
    ("count", "CHECK-COUNT-3: x", "x\nx x\n", None),
    ("count too small", "CHECK-COUNT-3: x", "x\nx\n", "line 1"),
    ("any order", "CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a\nb\nc\n", None),
    ("any order, no overlap", "CHECK-DAG: a\nCHECK-DAG: a", "a\n", "line 2"),
    ("not before the next", "CHECK: a\nCHECK-NOT: x\nCHECK: b", "a\nx\nb\n", "line 2: CHECK-NOT: x"),
    ("not until the end", "CHECK: a\nCHECK-NOT: x", "a\nb\nx\n", "must not be"),
    ("not, after a group", "CHECK-DAG: a\nCHECK-DAG: b\nCHECK-NOT: x", "b\na\ny\n", None),
    ("empty line", "CHECK: a\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\nb\n", None),
    ("other prefixes are not read", "CHECK-PTX: y\nCHECK: a", "a\n", None),
]


@pytest.mark.parametrize(("lines", "output", "wrong"), [row[1:] for row in MATCHES], ids=[row[0] for row in MATCHES])
def test_check_lines(lines: str, output: str, wrong: str | None) -> None:
    source = "\n".join(f"// {line}" for line in lines.splitlines())
    found = check_lines.problem(check_lines.parse(source), output)
    if wrong is None:
        assert found is None
    else:
        assert found is not None
        assert wrong in found


RUNS = "// RUN: mlir-opt %s \\\n// RUN: | mlir-runner --entry-point-result=void 2>&1 | FileCheck %s\n// CHECK: 1\n"
COMPILES = "// RUN: mlir-opt %s | FileCheck %s\n// CHECK: ret\n"
NAMED = "// DEFINE: %{entry_point} = other\n// RUN: mlir-runner -e %{entry_point} | FileCheck %s\n"


def test_programs_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sm90").mkdir()
    (tmp_path / "TensorCore").mkdir()
    files = {"async.mlir": RUNS, "sm90/tma-load.mlir": NAMED, "TensorCore/wmma.mlir": RUNS, "dump.mlir": COMPILES}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = programs.find(tmp_path)
    assert [path for path, _ in found.others] == ["dump.mlir"]
    by_name = {program.name: program for program in found.programs}
    assert sorted(by_name) == ["TensorCore_wmma", "async_", "sm90_tma_load"]
    assert by_name["sm90_tma_load"].archs == ("sm_90a",)
    assert by_name["sm90_tma_load"].entry == "other"
    assert by_name["TensorCore_wmma"].min_arch == "sm_80"
    assert by_name["async_"].entry == "main"
    assert by_name["async_"].merged_streams
    assert [check.pattern for check in by_name["async_"].checks] == ["1"]
    text = programs.settings("some_name", found.programs)
    assert 'name = "some_name"' in text
    assert '[source.sm90_tma_load]\narchs = ["sm_90a"]' in text
