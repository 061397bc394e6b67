"""The door to other programs: run a command, or one of our own modules where a crash does no harm.

In: a command whose first word is an absolute path. Out: Completed, with everything it said.

>>> run([sys.executable, "-c", "print(1)"]).stdout
b'1\\n'
"""

from __future__ import annotations

import faulthandler
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aot.errors import AotError, CompilerCrash, ToolMissing

STAGE_FILE = "AOT_STAGE_FILE"
"""Environment variable through which a worker is told where to write what it is about to do."""

_LAST_WORDS = re.compile(
    r"LLVM ERROR: .*|.*Assertion .* failed.*|.*\bUNREACHABLE executed.*|fatal error: .*|^MemoryError.*", re.MULTILINE
)
"""What LLVM says before it aborts the process."""
_DEADLY = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGKILL)
"""Signals of a crash; the others ask a process to stop."""


@dataclass(frozen=True)
class Completed:
    """A command that has ended."""

    command: tuple[str, ...]
    returncode: int
    """Negative: the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes
    seconds: float
    """Wall time."""

    def words(self) -> str:
        """Its standard error as text, without surrounding blank lines."""
        return self.stderr.decode("utf-8", "replace").strip()


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | None = None,
    timeout: float | None = None,
) -> Completed:
    """Run a command to its end, whatever its exit code; ToolMissing when it cannot be started.

    ``env`` is the whole environment (default: ours); ``timeout`` is in seconds.
    """
    words = tuple(os.fspath(word) for word in command)
    assert os.path.isabs(words[0]), f"not an absolute path: {words[0]}"
    start = time.monotonic()
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=env,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AotError(f"{words[0]} did not end within {timeout:g} seconds: {shlex.join(words)}") from error
    except OSError as error:
        raise ToolMissing(f"cannot start '{words[0]}': {error.strerror}", hint="run `aot doctor`") from error
    return Completed(words, done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def follow(
    command: Sequence[str | os.PathLike[str]],
    line: Callable[[str], None],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """As ``run``, but every line that the command writes (both streams) goes to ``line`` when it comes.

    When ``line`` or the user interrupts, the command is stopped before the exception goes on.
    """
    words = tuple(os.fspath(word) for word in command)
    assert os.path.isabs(words[0]), f"not an absolute path: {words[0]}"
    start = time.monotonic()
    kept: list[bytes] = []
    try:
        child = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise ToolMissing(f"cannot start '{words[0]}': {error.strerror}", hint="run `aot doctor`") from error
    with child:
        assert child.stdout is not None
        try:
            for raw in child.stdout:
                kept.append(raw)
                line(raw.decode("utf-8", "replace").rstrip("\n"))
            child.wait()
        except BaseException:
            # SIGINT lets ninja stop its own children; a terminal has sent it to them already.
            child.send_signal(signal.SIGINT)
            raise
    return Completed(words, child.returncode, b"".join(kept), b"", time.monotonic() - start)


def check(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | None = None,
    timeout: float | None = None,
    error: type[AotError] = AotError,
) -> Completed:
    """As ``run``, but a failing command raises ``error`` with the command, its exit code and its words."""
    done = run(command, cwd=cwd, env=env, input=input, timeout=timeout)
    if done.returncode == 0:
        return done
    raise error(
        f"{Path(done.command[0]).name} failed ({exit_text(done.returncode)})\n"
        f"command: {shlex.join(done.command)}\n{done.words()}".rstrip(),
        hint="build with `--dump DIR` to keep the files of each stage",
    )


def run_worker(module: str, arguments: Sequence[str], *, subject: str, timeout: float | None = None) -> Completed:
    """Run ``python -m module arguments`` in a process of its own.

    A death by signal (MLIR and LLVM abort on some bad input) becomes CompilerCrash, which names
    ``subject`` (the source), the last step that ``stage_marker`` was told, and LLVM's last words.
    """
    with tempfile.TemporaryDirectory(prefix="aot-") as scratch:
        stage = Path(scratch, "stage")
        environment = {**os.environ, STAGE_FILE: str(stage), "PYTHONFAULTHANDLER": ""}
        done = run([sys.executable, "-m", module, *arguments], env=environment, timeout=timeout)
        last = stage.read_text(encoding="utf-8") if stage.exists() else "start"
    if died(done):
        raise crash(done, subject, last)
    return done


def died(done: Completed) -> bool:
    """Whether a process did not end by its own decision.

    LLVM's fatal errors leave with exit code 1, like an error that was handled: only its words tell.
    """
    code = done.returncode
    number = -code if code < 0 else code - 128
    return number in _DEADLY or (code != 0 and _LAST_WORDS.search(done.words()) is not None)


def crash(done: Completed, subject: str, stage: str) -> CompilerCrash:
    """The error for a process that died while working on ``subject``."""
    said = done.stderr.decode("utf-8", "replace")
    words = _LAST_WORDS.findall(said)
    reason = words[-1].strip() if words else "\n".join(said.strip().splitlines()[-3:])
    killed = " (killed from outside: out of memory?)" if abs(done.returncode) in (9, 137) else ""
    return CompilerCrash(
        f"{subject}: the compiler died with {exit_text(done.returncode)}{killed} in: {stage}\n{reason}".rstrip(),
        hint="MLIR or LLVM cannot handle this code; `--dump DIR` keeps the IR of each finished stage",
    )


def stage_marker() -> Callable[[str], None]:
    """In a worker: the function that records what is about to run (see run_worker); elsewhere it does nothing."""
    path = os.environ.get(STAGE_FILE)
    if not path:
        return lambda stage: None
    # One small write per step, kept open: the file must be whole even if the next instruction aborts.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def record(stage: str) -> None:
        os.ftruncate(file, 0)
        os.pwrite(file, stage.encode("utf-8"), 0)

    return record


def exit_text(returncode: int) -> str:
    """How a process ended, in words."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


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
    """Run ``compute`` in a forked copy of this process, so that a crash of it is only an answer.

    For work on objects that live in this process (IR), which no command line could carry.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as result:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads at a fork; the child only computes, and leaves without clean-up.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _compute_in_child(compute, result.fileno(), said.fileno())
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        said.seek(0)
        done = Completed(("fork",), code, b"", said.read(), 0.0)
        result.seek(0)
        last = _LAST_WORDS.findall(done.words())
        return Attempt(result.read() if code == 0 else None, died(done), last[-1].strip() if last else "")


def _compute_in_child(compute: Callable[[], bytes], result: int, said: int) -> None:
    """Never returns: whatever happens, nothing of the parent's clean-up may run twice."""
    code = 1
    try:
        # A crash is an answer here; whoever runs us may print tracebacks for it elsewhere.
        faulthandler.disable()
        os.dup2(said, 1)
        os.dup2(said, 2)
        data = memoryview(compute())
        while data:
            data = data[os.write(result, data) :]
        code = 0
    finally:
        os._exit(code)
