"""The door to other programs: results, errors, and crashes that become messages."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from aot import process
from aot.engine import forked
from aot.engine.forked import Hired
from aot.errors import AotError, LoweringError, ToolMissing


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


def test_a_command_that_is_watched() -> None:
    looks: list[str] = []
    done = process.watch(python("import time; print('begun', flush=True); time.sleep(9)"), lambda: "enough")
    assert process.exit_text(done.returncode) == "SIGKILL"
    assert done.words() == "enough"
    done = process.watch(
        python("import sys, time; time.sleep(0.5); print(1); sys.exit('no')"), lambda: looks.append("") or ""
    )
    assert (done.returncode, done.stdout, done.words()) == (1, b"1\n", "no")
    assert looks


def test_what_a_watched_command_starts_ends_with_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = ["/bin/sh", "-c", f"sleep 60 > {pipe} & wait"]
    begun = time.monotonic()
    process.watch(command, lambda: "enough" if time.monotonic() - begun > 0.3 else "", group=True)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "nobody has the other end"
    assert time.monotonic() - begun < 30
    os.close(reader)


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
def test_a_crash_names_source_and_step(code: str, words: str) -> None:
    def compute(mark: forked.Mark) -> bytes:
        mark("lowering: pass 7")
        exec(code)
        return b""

    outcome = forked.finish(forked.start(compute))
    assert process.died(outcome.done)
    crash = process.crash(outcome.done, "kernels/x.mlir", outcome.stage)
    for text in ("kernels/x.mlir", "lowering: pass 7", words):
        assert text in crash.text()


def test_a_child_that_raises_is_no_crash_and_keeps_its_traceback() -> None:
    outcome = forked.finish(forked.start(lambda mark: [][0]))
    assert not process.died(outcome.done)
    assert (outcome.data, outcome.done.returncode) == (None, 1)
    assert "IndexError" in outcome.done.words()


def test_a_group_is_stopped_with_what_it_started() -> None:
    reader, writer = os.pipe()

    def compute(mark: forked.Mark) -> bytes:
        os.set_inheritable(writer, True)
        process.run(["/bin/sh", "-c", "sleep 60"])
        return b""

    child = forked.start(compute, group=True)
    os.close(writer)
    forked.stop(child)
    assert forked.finish(child).done.returncode == -9
    assert os.read(reader, 1) == b"", "somebody still holds the other end"
    os.close(reader)


class Crew:
    """So many helpers."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.most = 0

    def take(self) -> bool:
        self.free -= 1
        self.most += self.free >= 0
        return self.free >= 0

    def give(self) -> None:
        self.free += 1


@pytest.mark.parametrize("free", [0, 1, 9])
def test_spread_tasks_give_their_results_in_order(free: int) -> None:
    own = os.getpid()

    def task(number: int) -> int:
        if number == 2:
            raise LoweringError("two")
        if number == 3 and os.getpid() != own:
            os.abort()
        return number

    crew = Crew(free)
    found = list(forked.spread([partial(task, number) for number in range(5)], crew))
    assert [found[number]() for number in (0, 1, 3, 4)] == [0, 1, 3, 4]
    with pytest.raises(LoweringError, match="two"):
        found[2]()
    assert crew.most == min(free, 4) or free == 1


def test_a_processor_is_lent_again_when_its_task_has_ended() -> None:
    """The first task is quick: while this process does the second, its processor is free for the third."""
    own = os.getpid()

    def task(number: int) -> int:
        if os.getpid() == own:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return os.getpid()

    found = [each() for each in forked.spread([partial(task, number) for number in range(4)], Hired(1))]
    assert [each == own for each in found] == [False, True, False, True]


@pytest.mark.parametrize("free", [0, 1])
def test_a_task_aside_gives_its_processor_to_others(free: int) -> None:
    crew = Hired(free)
    with forked.Aside(os.getpid, crew) as others:
        assert crew.free == 0
        if free:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert others.take() == bool(free)
        if free:
            others.give()
    assert (others.result() == os.getpid()) == (not free)
    assert crew.free == free


def test_a_task_aside_ends_with_the_others() -> None:
    crew = Hired(1)
    with pytest.raises(LoweringError), forked.Aside(partial(time.sleep, 60), crew):
        raise LoweringError("others")
    assert crew.free == 1


def test_a_task_aside_fails_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise LoweringError("aside")

    with forked.Aside(fail, Hired(1)) as others:
        pass
    with pytest.raises(LoweringError, match="aside"):
        others.result()


def test_hired_processors_are_given_back() -> None:
    crew = Hired(3)
    with forked.hired(crew, 2) as hired:
        assert (hired.free, crew.free) == (2, 1)
        assert hired.take()
    with forked.hired(crew, 9) as hired:
        assert (hired.free, crew.free) == (3, 0)
    assert crew.free == 3


def test_marks_of_this_process_alone() -> None:
    marks: list[str] = []
    mark = forked.here(marks.append)
    mark("own")

    def child() -> bytes:
        mark("child")
        return "".join(marks).encode()

    assert forked.attempt(child).data == b"own"
    assert marks == ["own"]


def test_an_attempt_gives_bytes() -> None:
    assert forked.attempt(lambda: b"x" * 200_000).data == b"x" * 200_000


def test_an_attempt_that_raises_or_dies() -> None:
    def fail() -> bytes:
        raise ValueError("handled")

    def die() -> bytes:
        os.write(2, b"LLVM ERROR: Cannot select\n")
        os.abort()

    assert forked.attempt(fail) == forked.Attempt(None, False, "")
    assert forked.attempt(die) == forked.Attempt(None, True, "LLVM ERROR: Cannot select")
