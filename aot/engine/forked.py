"""Work in forked copies of this process: a crash of one is only an answer, and nothing is imported twice.

In: a computation on objects that live here (IR, loaded libraries), which no command line could carry.
Out: its bytes, or how its process ended, and in which step.

>>> attempt(lambda: b"x").data
b'x'
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, Protocol, TypeVar

from aot import process
from aot.errors import AotError
from aot.process import Completed

Value = TypeVar("Value")
Mark = Callable[[str], None]
"""Is told each step before it begins."""


@dataclass(frozen=True)
class Child:
    """A copy of this process at work."""

    pid: int
    said: IO[bytes]
    result: IO[bytes]
    stage: IO[bytes]
    group: bool
    """It leads a process group of its own, with everything that it starts."""


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    data: bytes | None
    """Its result; None when it raised or died."""
    done: Completed
    """As if it had been a command; both of its streams are ``stderr``."""
    stage: str
    """What it was about to do last."""
    peak_bytes: int
    """Largest memory of it or a program that it ran."""


def start(compute: Callable[[Mark], bytes], *, group: bool = False, before: Callable[[], None] = lambda: None) -> Child:
    """Begins ``compute`` in a child, which calls ``before`` first. A group can be stopped with all that it started."""
    said, result, stage = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115 - closed by ``finish``
    with warnings.catch_warnings():
        # Python 3.12 warns of threads at a fork; the child only computes, and leaves without clean-up.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    child = Child(pid, said, result, stage, group)
    if pid == 0:
        _compute(compute, child, before)
    if group:
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
    return child


def finish(child: Child) -> Outcome:
    """Waits for its end."""
    if child.group:
        # What a child has left running goes with it; first wait without reaping, so that the number stays its own.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        stop(child)
    _, status, used = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    done = Completed(("fork",), code, b"", _content(child.said), used.ru_utime + used.ru_stime)
    data = _content(child.result)
    stage = _content(child.stage).decode("utf-8", "replace")
    return Outcome(data if code == 0 else None, done, stage, used.ru_maxrss * 1024)


def stop(child: Child) -> None:
    """Ends it at once; ``finish`` must follow."""
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if child.group else os.kill)(child.pid, signal.SIGKILL)


def here(mark: Mark) -> Mark:
    """Marks of this process alone: what fails in a copy of it is done again here."""
    own = os.getpid()
    return lambda stage: mark(stage) if os.getpid() == own else None


@dataclass(frozen=True)
class Attempt:
    """A computation that was tried in a child process."""

    data: bytes | None
    """Its result; None when it raised or died."""
    died: bool
    """The child crashed, or LLVM ended it."""
    words: str
    """LLVM's last words, when it died."""


def attempt(compute: Callable[[], bytes]) -> Attempt:
    """Runs ``compute`` in a child, so that a crash of it is only an answer."""
    outcome = finish(start(lambda mark: compute()))
    return Attempt(outcome.data, process.died(outcome.done), process.last_words(outcome.done))


class Crew(Protocol):
    """Says whether another process may work for this one now."""

    def take(self) -> bool:
        """Takes a free processor; False when there is none."""

    def give(self) -> None:
        """Gives it back."""


class Alone:
    """No helpers: everything is done one after the other."""

    def take(self) -> bool:
        return False

    def give(self) -> None: ...


@dataclass
class Hired:
    """Processors that were taken from a crew for a while; a crew itself."""

    free: int

    def take(self) -> bool:
        if not self.free:
            return False
        self.free -= 1
        return True

    def give(self) -> None:
        self.free += 1


@contextlib.contextmanager
def hired(crew: Crew, most: int) -> Iterator[Hired]:
    """Up to so many of a crew's processors, for as long as the block takes."""
    count = 0
    try:
        while count < most and crew.take():
            count += 1
        yield Hired(count)
    finally:
        for _ in range(count):
            crew.give()


class Aside(Generic[Value]):
    """A task that is done beside others if there is a free processor, which goes to them when it has ended.

    A crew itself: that of the others, in a block that ends the task if it fails.
    """

    def __init__(self, task: Callable[[], Value], crew: Crew) -> None:
        self._task, self._crew = task, crew
        self._child = start(_pickled(task)) if crew.take() else None
        self._answer: Callable[[], Value] | None = None

    def take(self) -> bool:
        if self._child is not None and _has_ended(self._child):
            self._collect(self._child)
        return self._crew.take()

    def give(self) -> None:
        self._crew.give()

    def result(self) -> Value:
        """What came of the task, which is done now where nobody was free."""
        if self._child is not None:
            self._collect(self._child)
        return (self._answer or _answer(self._task))()

    def __enter__(self) -> Aside[Value]:
        return self

    def __exit__(self, kind: object, *raised: object) -> None:
        if self._child is not None and kind is not None:
            stop(self._child)
            finish(self._child)
            self._crew.give()

    def _collect(self, child: Child) -> None:
        self._child, self._answer = None, _collected(child, self._task, self._crew)


def spread(tasks: Sequence[Callable[[], Value]], crew: Crew) -> Iterator[Callable[[], Value]]:
    """Does the tasks, as many side by side as there are free processors; per task a function that gives its result.

    What fails in a child is done again here, where it can be raised, or die as this process does.
    """
    children: dict[int, Child] = {}
    answers: dict[int, Callable[[], Value]] = {}
    try:
        for number, task in enumerate(tasks):
            for each in [each for each, child in children.items() if _has_ended(child)]:
                answers[each] = _collected(children.pop(each), tasks[each], crew)
            if number + 1 < len(tasks) and crew.take():
                children[number] = start(_pickled(task))
            else:
                answers[number] = _answer(task)
        for number in list(children):
            answers[number] = _collected(children.pop(number), tasks[number], crew)
    finally:
        for child in children.values():
            stop(child)
            finish(child)
            crew.give()
    return iter([answers[number] for number in range(len(tasks))])


def _collected(child: Child, task: Callable[[], Value], crew: Crew) -> Callable[[], Value]:
    """The answer of a child, whose processor is free from now on."""
    outcome = finish(child)
    crew.give()
    if outcome.done.stderr:
        os.write(2, outcome.done.stderr)
    return _answer(task) if outcome.data is None else _known(pickle.loads(outcome.data))


def _has_ended(child: Child) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _pickled(task: Callable[[], Any]) -> Callable[[Mark], bytes]:
    return lambda mark: pickle.dumps(task())


def _answer(task: Callable[[], Value]) -> Callable[[], Value]:
    """Does the task; its error waits until the result is asked for."""
    try:
        return _known(task())
    except AotError as error:
        caught = error

        def fail() -> Value:
            raise caught

        return fail


def _known(value: Value) -> Callable[[], Value]:
    return lambda: value


def _content(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()


def _compute(compute: Callable[[Mark], bytes], own: Child, before: Callable[[], None]) -> None:
    """Never returns: whatever happens, nothing of the parent's clean-up may run twice."""
    code = 1
    try:
        if own.group:
            os.setpgid(0, 0)
        # A crash is an answer here; whoever runs us may print tracebacks for it elsewhere.
        faulthandler.disable()
        os.dup2(own.said.fileno(), 1)
        os.dup2(own.said.fileno(), 2)
        before()
        data = memoryview(compute(_marker(own.stage.fileno())))
        while data:
            data = data[os.write(own.result.fileno(), data) :]
        code = 0
    except BaseException:
        os.write(own.said.fileno(), traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _marker(file: int) -> Mark:
    """One small write per step: it must be there even if the next instruction aborts."""

    def mark(stage: str) -> None:
        os.ftruncate(file, 0)
        os.pwrite(file, stage.encode("utf-8"), 0)

    return mark
