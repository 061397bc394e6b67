"""The door to other programs: run a command to its end, follow what it says, or have it run beside us.

In: a command whose first word is an absolute path. Out: Completed, with everything it said.

>>> run([sys.executable, "-c", "print(1)"]).stdout
b'1\\n'
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aot.errors import AotError, CompilerCrash, TookTooLong, ToolMissing

_LAST_WORDS = re.compile(
    r"LLVM ERROR: .*|.*Assertion .* failed.*|.*\bUNREACHABLE executed.*|fatal error: .*|^MemoryError.*", re.MULTILINE
)
"""What LLVM says before it aborts the process."""
_SHOWN = "+ "
"""Begins the line of a command."""
_LOOK = 0.1
"""Seconds between two looks at a command that is watched."""
_PATIENCE = 20
"""Seconds that a companion may take to end."""
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
    show(shlex.join(words))
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
        raise TookTooLong(f"{words[0]} did not end within {timeout:g} seconds: {shlex.join(words)}") from error
    except OSError as error:
        raise ToolMissing(f"cannot start '{words[0]}': {error.strerror}", hint="run `aot doctor`") from error
    return Completed(words, done.returncode, done.stdout, done.stderr, time.monotonic() - start)


_showing = [False]


def watch(command: Sequence[str | os.PathLike[str]], stop: Callable[[], str], *, group: bool = False) -> Completed:
    """Run a command; ``stop`` is asked again and again whether it must end, and why: then it is killed.

    Of a command that was killed so, the reason is the last thing it said. ``group``: what it starts is killed, too.
    """
    words = tuple(os.fspath(word) for word in command)
    assert os.path.isabs(words[0]), f"not an absolute path: {words[0]}"
    show(shlex.join(words))
    start, why = time.monotonic(), ""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as cried:
        try:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=cried, start_new_session=group
            )
        except OSError as error:
            raise ToolMissing(f"cannot start '{words[0]}': {error.strerror}", hint="run `aot doctor`") from error
        with child:
            try:
                while not _has_ended(child, _LOOK):
                    why = stop()
                    if why:
                        break
            finally:
                if group and child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                child.kill()
        texts = [_content(each) for each in (said, cried)]
    return Completed(words, child.returncode, texts[0], texts[1] + f"\n{why}".encode(), time.monotonic() - start)


def _has_ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it has, at the latest after so many seconds."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def show_commands() -> None:
    """From now on, this process writes each command on its standard error, before what comes of it."""
    _showing[0] = True


def show(command: str) -> None:
    """A command that runs now."""
    if _showing[0]:
        os.write(2, f"{_SHOWN}{command}\n".encode())


def follow(
    command: Sequence[str | os.PathLike[str]],
    line: Callable[[str], None],
    *,
    cwd: str | os.PathLike[str] | None = None,
    pass_fds: Sequence[int] = (),
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
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
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


@dataclass
class Companion:
    """A program that runs beside ours."""

    words: str = ""
    """What it said on its standard error; known after its end."""


@contextlib.contextmanager
def companion(
    command: Sequence[str],
    line: Callable[[str], None],
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int],
    over: Callable[[], None],
) -> Iterator[Companion]:
    """A program beside ours for as long as the block takes: its standard input then ends, and so must it.

    The input also ends when this process is killed. Every line of its output goes to ``line``, and then the end
    of it to ``over``, in a thread.
    """
    beside = Companion()

    def read(lines: IO[bytes]) -> None:
        for raw in lines:
            line(raw.decode("utf-8", "replace"))
        over()

    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, pass_fds=pass_fds
        )
        assert child.stdout is not None
        reader = threading.Thread(target=read, args=(child.stdout,))
        reader.start()
        try:
            yield beside
        finally:
            _end(child)
            reader.join()
            child.stdout.close()
            beside.words = _content(said).decode("utf-8", "replace").strip()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the standard input of a companion, and with it the companion."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


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


def died(done: Completed) -> bool:
    """Whether a process did not end by its own decision.

    LLVM's fatal errors leave with exit code 1, like an error that was handled: only its words tell.
    """
    code = done.returncode
    number = -code if code < 0 else code - 128
    return number in _DEADLY or (code != 0 and _LAST_WORDS.search(done.words()) is not None)


def crash(done: Completed, subject: str, stage: str) -> CompilerCrash:
    """The error for a process that died while working on ``subject``."""
    said = [line for line in done.words().splitlines() if not line.startswith(_SHOWN)]
    reason = last_words(done) or "\n".join(said[-3:])
    killed = " (killed from outside: out of memory?)" if abs(done.returncode) in (9, 137) else ""
    return CompilerCrash(
        f"{subject}: the compiler died with {exit_text(done.returncode)}{killed} in: {stage}\n{reason}".rstrip(),
        hint="MLIR or LLVM cannot handle this code; `--dump DIR` keeps the IR of each finished stage",
    )


def last_words(done: Completed) -> str:
    """What LLVM said before it ended the process; empty when it said nothing."""
    found = _LAST_WORDS.findall(done.stderr.decode("utf-8", "replace"))
    return found[-1].strip() if found else ""


def exit_text(returncode: int) -> str:
    """How a process ended, in words."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
