"""The door to other programs: results, errors, and crashes that become messages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aot import process
from aot.errors import AotError, CompilerCrash, LoweringError, ToolMissing


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_everything_that_was_said_comes_back() -> None:
    done = process.run(
        python("import sys; print(sys.stdin.read()); print('no', file=sys.stderr); sys.exit(3)"), input=b"x"
    )
    assert (done.stdout, done.words(), done.returncode) == (b"x\n", "no", 3)


def test_nothing_waits_for_a_terminal() -> None:
    assert process.run(python("import sys; print(repr(sys.stdin.read()))")).stdout == b"''\n"


def test_check_tells_command_code_and_words() -> None:
    with pytest.raises(LoweringError) as caught:
        process.check(python("import sys; sys.exit('out of registers')"), error=LoweringError)
    for words in ("exit code 1", "out of registers", "command: ", "--dump"):
        assert words in caught.value.text()


def test_a_tool_that_is_not_there() -> None:
    with pytest.raises(ToolMissing, match=r"/nowhere/ptxas.*No such file"):
        process.run(["/nowhere/ptxas"])


def test_a_tool_that_hangs() -> None:
    with pytest.raises(AotError, match=r"did not end within 0\.2 seconds"):
        process.run(python("import time; time.sleep(30)"), timeout=0.2)


def test_names_are_not_looked_up_in_path() -> None:
    with pytest.raises(AssertionError, match="absolute"):
        process.run(["true"])


CRASHES = {
    "abort": ("import os; os.abort()", "SIGABRT"),
    "segmentation fault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    "assertion": (
        "import os; os.write(2, b'A.cpp:7: void f(): Assertion `x\\' failed.'); os.abort()",
        "Assertion `x' failed",
    ),
    "fatal error of LLVM": ("import sys; sys.exit('LLVM ERROR: Cannot select: t5')", "LLVM ERROR: Cannot select: t5"),
    "out of memory": ("import os; os.kill(os.getpid(), 9)", "out of memory"),
}


@pytest.mark.parametrize(("code", "words"), CRASHES.values(), ids=CRASHES)
def test_a_crash_names_source_and_step(code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = "from aot import process\nprocess.stage_marker()('lowering: pass 7')\n"
    (tmp_path / "crashing_worker.py").write_text(worker + code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(process.__file__).parents[1])]))
    with pytest.raises(CompilerCrash) as caught:
        process.run_worker("crashing_worker", [], subject="kernels/x.mlir")
    for text in ("kernels/x.mlir", "lowering: pass 7", words):
        assert text in caught.value.text()


def test_a_worker_that_ends_by_itself_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_worker.py").write_text("import sys; sys.exit('no luck')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert process.run_worker("failing_worker", [], subject="x.mlir").returncode == 1


def test_steps_are_not_written_outside_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(process.STAGE_FILE, raising=False)
    process.stage_marker()("nowhere")


def test_an_attempt_gives_bytes() -> None:
    assert process.attempt(lambda: b"x" * 200_000).data == b"x" * 200_000


def test_an_attempt_that_raises_or_dies() -> None:
    def fail() -> bytes:
        raise ValueError("handled")

    def die() -> bytes:
        os.write(2, b"LLVM ERROR: Cannot select\n")
        os.abort()

    assert process.attempt(fail) == process.Attempt(None, False, "")
    assert process.attempt(die) == process.Attempt(None, True, "LLVM ERROR: Cannot select")
