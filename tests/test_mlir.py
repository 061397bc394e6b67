"""The door to MLIR: places in messages, passes, and questions about operations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aot import mlir
from aot.errors import AotError, LoweringError, SourceError, ToolMissing
from aot.lower.analysis import opwalk
from aot.model import Location

PATH = "kernels/bad.mlir"

BAD = {
    "syntax": (b"func.func @f(%a: i32) -> i32 {\n  %x = arith.addi %a : i32\n}", 2, "expected ','"),
    "unknown dialect": (b"func.func @f() {\n  foo.bar\n  return\n}", 2, "foo"),
    "unknown operation": (b'func.func @f() {\n\n  "gpu.foo"() : () -> ()\n  return\n}', 3, "gpu.foo"),
    "verifier": (b"func.func @f() {\n  call @h() : () -> ()\n  return\n}", 2, "does not reference a valid function"),
    "types": (b"func.func @f(%a: f32) -> i32 {\n  return %a : f32\n}", 2, "type of return operand"),
    "not text": (b"\xff\xfe\x00", 1, "unexpected character"),
}


@pytest.mark.parametrize(("data", "line", "message"), BAD.values(), ids=BAD)
def test_bad_sources_name_file_line_and_text(data: bytes, line: int, message: str) -> None:
    with mlir.context() as ctx, pytest.raises(SourceError) as caught:
        mlir.parse(data, PATH, ctx)
    found = caught.value.diagnostics[0]
    assert (found.file, found.line) == (PATH, line)
    assert found.column > 0
    assert message in found.message
    if data.isascii():
        assert found.source_line == data.decode().splitlines()[line - 1]
    assert "see current operation" not in caught.value.text()


def test_damaged_bytecode_is_an_error() -> None:
    with mlir.context() as ctx, pytest.raises(SourceError, match=PATH):
        mlir.parse(b"ML\xefR\x01", PATH, ctx)


def test_bytecode_reads_like_text() -> None:
    with mlir.context() as ctx:
        module = mlir.parse(b"func.func @f() { return }", "f.mlir", ctx)
        data = _bytecode(module)
    with mlir.context() as ctx:
        again = mlir.parse(data, "f.mlirbc", ctx)
        assert mlir.op_names(again) == {"builtin.module", "func.func", "func.return"}


def _bytecode(module: mlir.Module) -> bytes:
    import io

    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


LOCATIONS = {
    "own": (b"func.func @f() { return }", Location("dir/f.mlir", 1, 1)),
    "of a front end": (b'func.func @f() { return } loc("model.py":7:3)', Location("model.py", 7, 3)),
    "named": (b'func.func @f() { return } loc("x"("model.py":7:3))', Location("model.py", 7, 3)),
    "fused": (b'func.func @f() { return } loc(fused["a", "b.py":2:1])', Location("b.py", 2, 1)),
    "call site": (b'func.func @f() { return } loc(callsite("g.py":9:1 at "h.py":4:2))', Location("g.py", 9, 1)),
    "unknown": (b"func.func @f() { return } loc(unknown)", Location("dir/f.mlir", 0, 0)),
}


@pytest.mark.parametrize(("data", "place"), LOCATIONS.values(), ids=LOCATIONS)
def test_locations(data: bytes, place: Location) -> None:
    with mlir.context() as ctx:
        module = mlir.parse(data, "dir/f.mlir", ctx)
        function = next(op for op in mlir.walk(module) if op.name == "func.func")
        assert mlir.location_of(function) == place


def test_a_failing_pass_is_an_error_with_the_place() -> None:
    source = b"gpu.module @k {\n  gpu.func @f() kernel { gpu.return }\n}"
    with mlir.context() as ctx:
        module = mlir.parse(source, "k.mlir", ctx)
        with pytest.raises(LoweringError, match="making an object failed in 'gpu-module-to-binary'") as caught:
            mlir.run_passes(module, ["canonicalize", "gpu-module-to-binary{format=isa}"], "making an object")
        assert caught.value.diagnostics[0].place() == "k.mlir:1:1"


@pytest.mark.parametrize("text", ["no-such-pass", "canonicalize{", "cse{no-such-option=1}"])
def test_pass_strings_that_mlir_does_not_know(text: str) -> None:
    with mlir.context() as ctx:
        module = mlir.parse(b"func.func @f() { return }", "f.mlir", ctx)
        with pytest.raises(LoweringError, match=r"f\.mlir: own passes: MLIR does not accept"):
            mlir.run_passes(module, [text], "own passes")


def test_passes_run_in_order_and_are_told_before() -> None:
    told: list[str] = []
    with mlir.context(told.append) as ctx:
        module = mlir.parse(b"func.func @f() { return }", "f.mlir", ctx)
        mlir.run_passes(module, ["canonicalize", "cse"], "clean-up")
    assert told == ["parsing", "clean-up: canonicalize", "clean-up: cse"]


def test_invalid_rewrites_are_found() -> None:
    from mlir import ir

    with mlir.context() as ctx:
        module = mlir.parse(b"func.func @f() {\n  return\n}", "f.mlir", ctx)
        function = next(op for op in mlir.walk(module) if op.name == "func.func")
        function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse("() -> i32"))
        with pytest.raises(LoweringError, match="after a rewrite: invalid IR"):
            mlir.verify(module, "after a rewrite")


def test_questions_about_operations() -> None:
    source = (
        b'gpu.module @k { gpu.func @f() kernel { %i = gpu.thread_id x\n gpu.printf "%d", %i : index\n gpu.return } }'
    )
    with mlir.context() as ctx:
        module = mlir.parse(source, "k.mlir", ctx)
        found = {op.name: op for op in mlir.walk(module)}
        assert mlir.inside_kernel(found["gpu.thread_id"])
        assert not mlir.inside_kernel(found["gpu.module"])
        assert mlir.symbol_name(found["gpu.func"]) == "f"
        assert mlir.symbol_name(found["gpu.return"]) == ""
        assert mlir.owner(found["gpu.printf"].operands[0]) == found["gpu.thread_id"]
        assert [op.name for op in mlir.walk(module)][-1] == "builtin.module"


def test_operations_outside_of_kernels() -> None:
    text = b"""
func.func @f(%n: index, %c: i1) {
  %r = scf.if %c -> (index) {
    scf.yield %n : index
  } else {
    gpu.launch blocks(%a, %b, %d) in (%e = %n, %g = %n, %h = %n) threads(%i, %j, %k) in (%l = %n, %m = %n, %o = %n) {
      %p = arith.addi %i, %a : index
      gpu.terminator
    }
    scf.yield %n : index
  }
  return
}
gpu.module @k { gpu.func @g() kernel { gpu.return } }
"""
    with mlir.context() as ctx:
        module = mlir.parse(text, "f.mlir", ctx)
        found = opwalk.on_host(module.operation)
        assert found == [op for op in mlir.walk(module) if not mlir.inside_kernel(op)]
        assert [op.name for op in found if "." in op.name] == [
            *(
                "scf.yield",
                "gpu.launch",
                "scf.yield",
                "scf.if",
                "func.return",
                "func.func",
                "gpu.module",
                "builtin.module",
            )
        ]


def test_missing_bindings_say_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mlir'] = None\n"
        "from aot import errors, mlir\n"
        "try: mlir.version()\n"
        "except errors.ToolMissing as error: print(error.exit_code, error.hint)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("3 install the build tools")
    assert issubclass(ToolMissing, AotError)


def test_bindings_of_another_make_are_no_bug_of_ours(tmp_path: Path) -> None:
    """Whoever asks again hears it again."""
    (tmp_path / "mlir").mkdir()
    for name in ("__init__.py", "ir.py"):
        (tmp_path / "mlir" / name).write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from aot import errors, mlir\n"
        "for _ in range(2):\n"
        "    try: mlir.bindings()\n"
        "    except errors.ToolMissing as error: print(error.message)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "MLIR's Python bindings cannot be imported: No module named 'mlir._mlir_libs'\n" * 2
