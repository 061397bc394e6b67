"""``aot verify``: wrong code is caught, right code passes, extents that must agree are found, messages help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import fakecuda
import numpy as np
import pytest

from aot import pipeline
from aot.commands import verify
from aot.commands.bench import BenchRequest, bench
from aot.commands.verify import Verified, VerifyRequest
from aot.errors import AotError, UsageError
from aot.verifying import dims, options, shapes, values
from aot.verifying.compare import Tolerance, compare
from aot.verifying.signature import Dim, Parameter, Signature

ROOT = Path(__file__).parents[1]
SOURCES = (
    *("examples/kernels/vector_add.mlir", "examples/kernels/matmul.mlir", "examples/kernels/square.mlir"),
    *("examples/kernels/rmsnorm.mlir", "tests/cases/masks.mlir", "tests/cases/embedding.mlir"),
    "tests/cases/newton_sqrt.mlir",
)
"""Sources of the package under test; ``wrong.mlir`` is a copy of rmsnorm that divides by n - 1 instead of n."""
RIGHT, WRONG = (
    "%count = arith.sitofp %n_int : i64 to f32",
    "%one = arith.constant 1 : i64\n%less = arith.subi %n_int, %one : i64\n%count = arith.sitofp %less : i64 to f32",
)
REFERENCES = """
import sys
import numpy as np
sys.path.insert(0, {examples!r})
from references import matmul, matmul_f16, rmsnorm, square, vector_add

RANGES = {{"newton_sqrt": "x=1:100,tol=0.001:0.001"}}

def where(m, x): return np.where(m, x, np.float32(-np.inf))
def greater(x, t): return x > np.float32(t)
def embedding(table, ids): return table[ids]

def newton_sqrt(x, tol):
    y, change, steps = x.copy(), np.float32(np.inf), 0
    while change > np.float32(tol):
        following = ((y + x / y) * np.float32(0.5)).astype("f4")
        change = np.abs(following - y).max(initial=np.float32(0))
        y, steps = following, steps + 1
    return y, steps
"""
COPIES = """
func.func @copy(%x: memref<?xbf16>, %out: memref<?xbf16>) {
  gpu.memcpy %out, %x : memref<?xbf16>, memref<?xbf16>
  return
}
func.func @half(%x: memref<?xf32>, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %k = arith.divui %n, %c2 : index
  %a = memref.subview %x[0] [%k] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %b = memref.subview %out[0] [%k] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  gpu.memcpy %b, %a : memref<?xf32, strided<[1]>>, memref<?xf32, strided<[1]>>
  return
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of CPU code."""
    folder = tmp_path_factory.mktemp("verify me $x")
    kernels = folder / "kernels"
    kernels.mkdir()
    for source in SOURCES:
        (kernels / Path(source).name).write_text((ROOT / source).read_text())
    text = (kernels / "rmsnorm.mlir").read_text()
    assert RIGHT in text
    (kernels / "wrong.mlir").write_text(text.replace(RIGHT, WRONG))
    return build(kernels, "host")


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("references") / "references.py"
    path.write_text(REFERENCES.format(examples=str(ROOT / "examples")))
    return str(path)


def build(kernels: Path, archs: str) -> Path:
    places = {"out": str(kernels.parent / "dist"), "work": str(kernels.parent / "build")}
    return pipeline.build(pipeline.BuildRequest((str(kernels),), archs=archs, jobs=2, **places)).wheel


def run(package: Path, against: str, *functions: str, **more: object) -> Verified:
    return verify.verify(VerifyRequest(str(package), functions, against=against, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def everything(package: Path, references: str) -> Verified:
    return run(package, references)


AGREE = (
    *("vector_add.vector_add", "matmul.matmul", "matmul.matmul_f16", "square.square", "rmsnorm.rmsnorm"),
    *("masks.where", "masks.greater", "embedding.embedding", "newton_sqrt.newton_sqrt"),
)


@pytest.mark.parametrize("function", AGREE)
def test_right_code_agrees(everything: Verified, function: str) -> None:
    rows = [row for row in everything.rows if row.function == function]
    assert [row.note for row in rows if not row.ok] == []
    assert sum(row.compared for row in rows) >= (1 if function == "square.square" else 4)


def test_an_off_by_one_is_caught(everything: Verified) -> None:
    wrong = [row for row in everything.rows if not row.ok]
    assert {row.function for row in wrong} == {"wrong.rmsnorm"}
    first = wrong[0]
    assert first.place == "cpu"
    assert first.max_rel > 0.01
    assert "of 77 wrong" in first.note
    assert not everything.ok
    assert verify.verdict(everything).endswith("wrong: wrong.rmsnorm")


SIGNATURES = [
    ("vector_add.vector_add", "vector_add.vector_add(x[m], y[m])"),
    ("matmul.matmul", "matmul.matmul(a[m,n], b[n,k])"),
    ("rmsnorm.rmsnorm", "rmsnorm.rmsnorm(x[m,n], weight[n], eps)"),
    ("masks.where", "masks.where(m[m,n], x[m,n])"),
    ("embedding.embedding", "embedding.embedding(table[m,n], ids[k])"),
    ("square.square", "square.square(x[10,10], out[10,10])"),
]


@pytest.mark.parametrize(("function", "text"), SIGNATURES, ids=[row[0] for row in SIGNATURES])
def test_extents_that_must_agree_are_found(everything: Verified, function: str, text: str) -> None:
    assert next(report.signature for report in everything.reports if report.function == function) == text


def signature(*shapes: tuple[int | None, ...], level: str = "tensor") -> Signature:
    parameters = tuple(Parameter(name, "f32", shape, "in") for name, shape in zip("abcd", shapes, strict=False))
    return Signature("s", "f", level, True, True, parameters, (None,), ("f32",), checks_extents=level == "tensor")


def pair(e: Mapping[Dim, int], number: int) -> tuple[int, int]:
    return e[number, 0], e[number, 1]


def attention(e: Mapping[Dim, int]) -> str:
    """Checks as free texts that name nothing, one after the other."""
    if e[0, 0] != e[1, 0] or e[0, 0] != e[2, 0]:
        return "batches differ"
    if e[0, 2] != e[1, 2]:
        return "depths differ"
    return "" if e[1, 1] == e[2, 1] else "lengths differ"


def numbered(e: Mapping[Dim, int]) -> str:
    """A slice in a loop, which is as long as another extent, and leaves nothing if that is this one."""
    size, extent = e[1, 1], e[0, 1]
    return (
        ""
        if size == extent
        else f"a slice (offset 0, size {size}) leaves dimension 1 of a buffer ({extent}) (s.mlir:3)"
    )


ONE, TWO, THREE = (None,), (None, None), (None, None, None)
EQUAL_HEADS = "extent 0 of 'b' (11) is not extent 0 of 'a' (7)"
TOO_SMALL = "extent 0 of 'a' (7) is too small for the window that runs over it to (index 20)"
ASKED: list[tuple[str, list[tuple[int | None, ...]], dims.Ask, str]] = [
    ("one dimension", [ONE], lambda e: "", "s.f(a[m])"),
    ("nothing must agree", [ONE, ONE], lambda e: "", "s.f(a[m], b[n])"),
    ("a text that names both", [TWO, ONE], lambda e: "" if e[0, 1] == e[1, 0] else "a, b", "s.f(a[m,n], b[n])"),
    ("two at once", [TWO, TWO], lambda e: "" if pair(e, 0) == pair(e, 1) else "no", "s.f(a[m,n], b[m,n])"),
    ("transposed", [TWO, TWO], lambda e: "" if pair(e, 0) == pair(e, 1)[::-1] else "no", "s.f(a[m,n], b[n,m])"),
    ("three checks", [THREE] * 3, attention, "s.f(a[m,n,k], b[m,l,k], c[m,l,p])"),
    ("a text of ours", [TWO, ONE], lambda e: "" if e[0, 0] == e[1, 0] else EQUAL_HEADS, "s.f(a[m,n], b[m])"),
    ("multiples of 16", [ONE], lambda e: "not a multiple" if e[0, 0] % 16 else "", "s.f(a[m])"),
    ("a window", [ONE, ONE], lambda e: "" if e[0, 0] > 2 * e[1, 0] else TOO_SMALL, "s.f(a[m], b[n])"),
    ("a number", [TWO], lambda e: "" if e[0, 1] == 12 else "extent 1 of 'a' (7) is not 12", "s.f(a[m,n])"),
    ("a text with numbers of the call", [TWO, TWO], numbered, "s.f(a[m,n], b[k,n])"),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "ask", "text"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
def test_asking(shapes: list[tuple[int | None, ...]], ask: dims.Ask, text: str) -> None:
    asked = signature(*shapes)
    found = dims.find(asked, ask, {})
    assert found.refusal == ""
    assert asked.text(found.letters) == text
    assert ask(found.extents) == ""


def test_what_nothing_satisfies_is_told() -> None:
    assert dims.find(signature((None,)), lambda e: "never", {}).refusal == "never"


def test_functions_that_check_nothing_get_equal_extents() -> None:
    found = dims.find(signature((None, None), (None,), level="launch"), lambda e: pytest.fail("called"), {"b.0": 8})
    assert found.extents == {(0, 0): 256, (0, 1): 256, (1, 0): 8}


SCAN = """
func.func @scan(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = memref.dim %x, %c0 : memref<?x?xf32>
  %m = memref.dim %x, %c1 : memref<?x?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %all = scf.for %j = %c0 to %m step %c1 iter_args(%sum = %zero) -> (f32) {
      %value = memref.load %x[%i, %j] : memref<?x?xf32>
      %next = arith.addf %sum, %value : f32
      memref.store %next, %y[%i, %j] : memref<?x?xf32>
      scf.yield %next : f32
    }
    scf.reduce
  }
  return
}
func.func @first(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %even = arith.cmpi ne, %i, %n : index
    scf.if %even {
      %value = memref.load %x[%i] : memref<?xf32>
      memref.store %value, %y[%i] : memref<?xf32>
    }
    scf.reduce
  }
  return
}
func.func @inserted(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%all = %y) -> tensor<?xf32> {
    %value = tensor.extract %x[%i] : tensor<?xf32>
    %next = tensor.insert %value into %all[%i] : tensor<?xf32>
    scf.yield %next : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
func.func @gathered(%x: tensor<?xf32>, %at: tensor<?xindex>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %at, %c0 : tensor<?xindex>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%all = %e) -> tensor<?xf32> {
    %place = tensor.extract %at[%i] : tensor<?xindex>
    %value = tensor.extract %x[%place] : tensor<?xf32>
    %next = tensor.insert %value into %all[%i] : tensor<?xf32>
    scf.yield %next : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
func.func @twice(%x: memref<?xf32>, %y: memref<?xf32>) {
  linalg.add ins(%x, %x : memref<?xf32>, memref<?xf32>) outs(%y : memref<?xf32>)
  return
}
"""
REFERENCE = """
def scan(x, y): y[:x.shape[0], :x.shape[1]] = x.cumsum(1)
def first(x, y): y[:len(x)] = x
def inserted(x, y):
    made = y.copy()
    made[:len(x)] = x
    return made
def gathered(x, at): return x[at]
def twice(x, y): y[:] = x + x
"""


def test_functions_are_asked_that_check_all_that_they_touch(tmp_path: Path) -> None:
    """Others get equal extents: nothing refuses those that do not go together, and such a call writes past the end."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "loops.mlir").write_text(SCAN)
    reference = tmp_path / "reference.py"
    reference.write_text(REFERENCE)
    found = run(build(tmp_path / "kernels", "host"), str(reference))
    assert found.ok
    assert [report.signature for report in found.reports] == [
        "loops.scan(x[m,n], y[k,l])",
        "loops.first(x[m], y[m])",
        "loops.inserted(x[m], y[n])",
        "loops.gathered(x[m], at[m])",
        "loops.twice(x[m], y[m])",
    ]
    tried = [(row.function, row.shapes) for report in found.reports for row in report.rows]
    assert [shapes for name, shapes in tried if name == "loops.first"] == ["x[256] y[256]", "x[512] y[512]"]
    assert any("[0]" in shapes for name, shapes in tried if name == "loops.twice"), "those of linalg are tried"


def test_a_function_whose_process_ends_has_failed_and_shows_no_numbers(
    package: Path, references: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify.children, "run", lambda todo, chosen, kind, died: [died(chosen[0], "it died")])
    found = run(package, references, "square.square")
    assert verify.table(found) == [["square.square", "-", "-", *["-"] * 5, "NO"]]
    assert verify.remarks(found) == ["square.square -: it died"]
    assert verify.verdict(found).endswith(
        ": 0 functions, 0 comparisons on the CPU (no GPU here): 1 failed: square.square"
    )


def test_the_users_extents_and_ranges_count(package: Path, references: str) -> None:
    found = run(package, references, "matmul.matmul", dims=("m=5", "b.1=3"))
    assert found.rows[0].shapes == "a[5,11] b[11,3]"
    assert all("b[" in row.shapes and row.shapes.endswith(",3]") for row in found.rows)
    found = run(package, references, "embedding", dims=("m=2,n=3,k=4",), ranges=("ids=1:m",))
    assert [row.shapes for row in found.rows] == ["table[2,3] ids[4]"]
    assert found.ok


def test_large_shapes_stay_small_enough() -> None:
    five = signature((None,) * 5)
    found = dims.find(five, lambda e: "", {})
    past = next(shape for shape in shapes.shapes(five, found) if shape.label == "past a tile")
    assert [past.extents[0, axis] for axis in range(5)] == [3, 5, 17, 33, 129]


def test_positions_stay_inside() -> None:
    rows = Parameter("table", "f16", (None, 4), "in")
    gather = Signature("s", "f", "tensor", True, True, (rows, Parameter("ids", "i64", (None,), "in")), (), ())
    made = values.make(gather, values.Request({(0, 0): 3, (1, 0): 1000}))
    assert set(made[1].tolist()) == {0, 1, 2}
    assert values.without_positions(gather, values.Request({(0, 0): 0, (1, 0): 5})) == "ids"
    assert values.without_positions(gather, values.Request({(0, 0): 0, (1, 0): 0})) == ""


def test_another_seed_other_values(package: Path, references: str) -> None:
    first, again, other = (run(package, references, "rmsnorm.rmsnorm", seed=seed).rows for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_saved_arrays(package: Path, tmp_path: Path) -> None:
    x = np.arange(5, dtype="f4")
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    np.savez(good, **{"vector_add.x": x, "vector_add.y": x, "vector_add.result": 2 * x})
    np.savez(bad, **{"vector_add.x": x, "vector_add.y": x, "vector_add.result": 3 * x})
    assert run(package, str(good), "vector_add").ok
    wrong = run(package, str(bad), "vector_add").rows[0]
    assert (wrong.ok, wrong.where, wrong.note) == (False, "4", "4 of 5 wrong: 8.0, not 12.0")
    np.savez(bad, **{"vector_add.x": x, "vector_add.result": x})
    with pytest.raises(UsageError, match=r"'vector_add\.y', an argument, is not in the file"):
        run(package, str(bad), "vector_add")


TROUBLE = [
    ("no wheel", {"package": "nowhere.whl"}, "'nowhere.whl' does not exist"),
    ("no package", {"package": "no_such_package"}, "'no_such_package' is neither a wheel nor an installed package"),
    ("no package, no reference", {"package": "no_such_package", "against": None}, "neither a wheel nor an installed"),
    ("not ours", {"package": "json"}, "the package 'json' was not made by aot"),
    ("unknown function", {"functions": ("softmacks",)}, "no function 'softmacks'"),
    ("no reference file", {"against": "nowhere.py"}, "'nowhere.py' does not exist"),
    ("another kind of file", {"against": __file__.replace(".py", ".md")}, "does not exist"),
    ("dims without a value", {"dims": ("m",)}, "--dims: 'm' is not NAME=VALUE"),
    ("dims that are no number", {"dims": ("m=many",)}, "--dims: 'm=many': an extent is a whole number"),
    ("dims of nothing", {"dims": ("z.0=3",)}, "no function has a dynamic dimension 'z.0'"),
    ("dims of no letter", {"dims": ("q=3",)}, "no function has a dimension 'q'"),
    ("a range without an end", {"ranges": ("ids=3",)}, "a range is LOW:HIGH"),
    ("a range upside down", {"ranges": ("x=5:1",)}, "--range: '5:1': the low end, 5, is above the high end, 1"),
    ("a range of nothing", {"ranges": ("idz=0:3",)}, "no function has an argument 'idz'"),
    ("an end of nothing", {"ranges": ("x=0:zz",)}, "'zz' is neither a number nor a dimension"),
]


@pytest.mark.parametrize(("changes", "message"), [row[1:] for row in TROUBLE], ids=[row[0] for row in TROUBLE])
def test_messages(package: Path, references: str, changes: dict[str, object], message: str) -> None:
    asked = {"package": str(package), "against": references, "functions": ("vector_add",), **changes}
    with pytest.raises(UsageError) as told:
        verify.verify(VerifyRequest(**asked))  # type: ignore[arg-type]
    assert message in told.value.text()


def test_a_faulty_reference_is_named(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text("def vector_add(x, y):\n    return x + z\n")
    found = run(package, str(path), "vector_add")
    row = found.rows[0]
    assert not row.ok
    assert "NameError: name 'z' is not defined" in row.note
    (said,) = verify.remarks(found)
    assert verify.verdict(found).endswith(": 1 failed: vector_add.vector_add")
    assert len(found.rows) > 1
    assert said == f"vector_add.vector_add {row.shapes} (and {len(found.rows) - 1} more): {row.note}"
    assert "faulty.py:2" in row.note
    path.write_text("\n\ndef vector_add(x):\n    return x\n")
    assert "faulty.py:3)" in run(package, str(path), "vector_add").rows[0].note
    path.write_text("def vector_add(x, y)\n")
    with pytest.raises(UsageError, match=r"cannot be run: (.|\n)*SyntaxError"):
        run(package, str(path), "vector_add")


TABLES = [
    (
        "no function of it",
        'DIMS = {"vector_sub": "m=3"}',
        "DIMS names 'vector_sub', and the file has no function of this",
    ),
    ("no table", "RANGES = ['x=0:1']", "RANGES is a table of texts by the names of functions"),
    ("no text", "DIMS = {'vector_add': 3}", "DIMS is a table of texts by the names of functions"),
    (
        "no dimension",
        'DIMS = {"vector_add": "q=3"}',
        "DIMS of vector_add.vector_add: no dimension 'q'; there are m, x.0",
    ),
]


@pytest.mark.parametrize(("table", "message"), [row[1:] for row in TABLES], ids=[row[0] for row in TABLES])
def test_tables_of_a_reference_are_checked(package: Path, tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "tables.py"
    path.write_text(f"{table}\ndef vector_add(x, y): return x + y\n")
    with pytest.raises(UsageError) as told:
        run(package, str(path), "vector_add")
    assert message in told.value.text()


def test_extents_that_memory_cannot_hold_are_not_unknown_letters(package: Path, references: str) -> None:
    found = run(package, references, "vector_add", dims=("m=900000000000000",))
    assert [row.ok for row in found.rows] == [False]
    assert "no shapes were found that it accepts" in found.rows[0].note


COMPARED = [
    ("equal", np.float32([1, np.nan, np.inf]), np.float32([1, np.nan, np.inf]), True),
    ("rounding", np.float32([1 + 2**-23]), np.float32([1]), True),
    ("wrong", np.float32([1.001]), np.float32([1]), False),
    ("nan for a number", np.float32([np.nan]), np.float32([1]), False),
    ("infinite", np.float32([-np.inf]), np.float32([np.inf]), False),
    ("integers", np.int32([1, 2]), np.int32([1, 3]), False),
    ("booleans", np.array([True]), np.array([False]), False),
    ("small beside large", np.float32([1e-9, 1]), np.float32([2e-9, 1]), True),
    ("small alone", np.float32([1e-9]), np.float32([2e-9]), False),
    ("complex", np.complex64([1 + 1j]), np.complex64([1 + 2j]), False),
    ("wider reference", np.float32([0.1]), np.float64([0.1]), True),
    ("integers for floats", np.int32([1]), np.float32([1]), False),
    ("empty", np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4"), True),
    ("shape", np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4"), False),
]


@pytest.mark.parametrize(("got", "expected", "ok"), [row[1:] for row in COMPARED], ids=[row[0] for row in COMPARED])
def test_comparing(got: np.ndarray, expected: np.ndarray, ok: bool) -> None:
    assert compare(got, expected, 1).ok is ok


def test_sums_may_be_off_by_more_and_users_decide() -> None:
    got, expected = np.float32([1 + 200 * 2**-23]), np.float32([1])
    assert not compare(got, expected, 1).ok
    assert compare(got, expected, 1000).ok
    assert not compare(got, expected, 1000, Tolerance(rtol=1e-6, atol=0)).ok
    assert compare(got, expected, 1).max_ulps == 200
    # Sums of f16 are taken in f32 and rounded once: their length is no excuse.
    assert not compare(np.float16([1.02]), np.float16([1]), 1000).ok


def test_options_take_lists() -> None:
    assert options.extents(["m=1, n=2", "x.0=3"]) == {"m": 1, "n": 2, "x.0": 3}
    assert options.ranges(["a=0:1,b=m:n"])["b"].resolved({"m": 2, "n": 5}) == (2, 5)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel without kernels: the fake driver copies for real."""
    kernels = tmp_path_factory.mktemp("copies") / "kernels"
    kernels.mkdir()
    (kernels / "copies.mlir").write_text(COPIES)
    (kernels / "references.py").write_text("def copy(x, out): out[:] = x\ndef half(x, out): out[:] = x\n")
    return build(kernels, "sm_80")


def aot_with_fake_gpu(tmp_path: Path, *arguments: str, fail: str = "") -> subprocess.CompletedProcess[str]:
    environment = fakecuda.environment(fakecuda.build_fake(tmp_path / "fake"), fail=fail)
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "aot", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_arrays_reach_the_gpu_without_a_framework(copies: Path, tmp_path: Path) -> None:
    against = str(copies.parents[1] / "kernels" / "references.py")
    done = aot_with_fake_gpu(tmp_path, "verify", str(copies), "--against", against, "--json")
    found = json.loads(done.stdout)
    assert found["gpu"] == "Fake GPU"
    rows = {report["function"]: report["rows"] for report in found["reports"]}
    assert all(row["ok"] and row["place"] == "gpu" for row in rows["copies.copy"])
    assert [row["value"] for row in rows["copies.half"] if not row["ok"]] == ["argument 'out'"] * 2
    assert done.returncode == 1


def test_a_broken_context_ends_one_function_only(copies: Path, tmp_path: Path) -> None:
    against = str(copies.parents[1] / "kernels" / "references.py")
    done = aot_with_fake_gpu(
        tmp_path, "verify", str(copies), "--against", against, "--json", fail="cuCtxSynchronize:3:700"
    )
    rows = {report["function"]: report["rows"] for report in json.loads(done.stdout)["reports"]}
    assert rows["copies.copy"][0]["note"].startswith("cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS")
    assert len(rows["copies.half"]) >= 1
    assert done.returncode == 1


NO_ARRAYS = """
func.func @filled(%value: f32) -> (tensor<2x3xf32>, f32, tensor<f32>) {
  %r = tensor.splat %value : tensor<2x3xf32>
  %one = tensor.from_elements %value : tensor<f32>
  return %r, %value, %one : tensor<2x3xf32>, f32, tensor<f32>
}
func.func @zeros(%n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %r = tensor.splat %zero[%n] : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @chosen(%flag: tensor<i1>, %x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %f = tensor.extract %flag[] : tensor<i1>
  %r = arith.select %f, %x, %y : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
NO_ARRAYS_REFERENCES = """
import numpy as np
def filled(value): return np.full((2, 3), value, "f4"), value, np.full((), value, "f4")
def zeros(n): return np.zeros(n, "f4")
def chosen(flag, x, y): return x if flag else y
"""


def test_cpu_code_is_called_where_no_array_says_so(tmp_path: Path) -> None:
    """Of a package with GPU code, too: by ``out=`` where shapes of results are known. Arrays of rank 0 are arrays."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "bare.mlir").write_text(NO_ARRAYS)
    (tmp_path / "references.py").write_text(NO_ARRAYS_REFERENCES)
    wheel = build(tmp_path / "kernels", "sm_80,host")
    rows = {each.function: each.rows for each in run(wheel, str(tmp_path / "references.py")).reports}
    assert [row.place for row in rows["bare.filled"]] == ["cpu"]
    assert rows["bare.filled"][0].ok
    assert [row.note for row in rows["bare.zeros"]] == ["a call without arrays runs on a GPU, and there is no GPU here"]
    assert [row.ok for row in rows["bare.chosen"]] == [True] * 4
    timed = {each.function: each for each in bench(BenchRequest(str(wheel), on="cpu")).rows}
    assert timed["bare.filled"].median_s is not None
    assert timed["bare.zeros"].note == "a call without arrays runs on a GPU"


def test_without_a_gpu_a_reference_is_needed(package: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "aot", "verify", str(package)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "give a reference: --against FILE.py" in done.stderr


def test_launch_level_code_alone_cannot_be_checked_here(copies: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.py"
    path.write_text("def copy(x, out): out[:] = x\n")
    if verify.driver.ask().devices:
        pytest.skip("this machine has a GPU")
    with pytest.raises(AotError, match=r"there is no GPU, and no CPU code of copies\.copy"):
        run(copies, str(path))
