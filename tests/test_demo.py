"""``aot demo``: the examples are built, installed and right, wherever it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aot import cli, driver, resources
from aot.commands import demo
from aot.commands.verify import Verified
from aot.verifying.job import FunctionReport, Row

ROOT = Path(__file__).parents[1]
ON_CPU = {
    *("attention.attention", "gelu.gelu", "gelu.gelu_tanh", "layernorm.layernorm", "matmul.matmul"),
    *("matmul.matmul_f16", "rmsnorm.rmsnorm", "softmax.softmax", "square.square", "vector_add.vector_add"),
}


@pytest.mark.slow
def test_the_examples_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archs = ["--archs", "host"] if not driver.ask().devices else []
    code = cli.run(["demo", "--keep", str(tmp_path), "--json", "-q", "-j", "2", *archs])
    found = json.loads(capsys.readouterr().out)
    wrong = [row for report in found["reports"] for row in report["rows"] if not row["ok"]]
    assert wrong == []
    assert code == 0
    ran = {row["function"] for report in found["reports"] for row in report["rows"] if row["place"] == "cpu"}
    assert ran == ON_CPU
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["demo_kernels"]


def test_where_the_wheel_cannot_be_kept_is_found_before_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    assert cli.run(["demo", "--archs", "host", "--keep", str(tmp_path / "taken")]) == 1
    said = capsys.readouterr().err
    assert "taken': a file stands where a folder is needed" in said
    assert "compiling" not in said


def test_the_references_are_those_of_the_examples() -> None:
    assert (resources.examples() / "references.py").is_file()
    names = {path.stem for path in (resources.examples() / "kernels").glob("*.mlir")}
    assert {"softmax", "matmul"} <= names


def row(function: str, place: str, *, ok: bool = True, note: str = "", compared: bool = True) -> Row:
    return Row(function, "x[3]", place, "references.py", ok, max_abs=0.5, share=0.25, note=note, compared=compared)


REPORTS = [
    ("on both", [row("f", "cpu"), row("f", "gpu")], ["s.f", "cpu gpu", "2", "0.5", "25%", "yes"]),
    ("wrong", [row("f", "cpu"), row("f", "gpu", ok=False)], ["s.f", "cpu gpu", "2", "0.5", "25%", "NO"]),
    ("without a GPU", [row("f", "-", note="no GPU here", compared=False)], ["s.f", "needs a GPU", "0", "-", "-", "-"]),
    ("only ran", [row("f", "gpu", compared=False)], ["s.f", "gpu", "1", "-", "-", "yes"]),
    ("died", [row("f", "-", ok=False, compared=False)], ["s.f", "-", "0", "-", "-", "NO"]),
]


@pytest.mark.parametrize(("rows", "cells"), [each[1:] for each in REPORTS], ids=[each[0] for each in REPORTS])
def test_one_line_per_function(rows: list[Row], cells: list[str]) -> None:
    verified = Verified("demo", "1.0", "", (FunctionReport("s.f", "s.f(x[m])", tuple(rows)),))
    assert demo.table(demo.Demo("demo.whl", 1, 1.0, verified)) == [cells]
