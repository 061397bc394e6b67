"""The threads of CPU code (templates/runtime/cpu_threads.c): tests/fake_cuda/threads.c as a program of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fakecuda import FAKE, RUNTIME, compiler

SOURCES = (FAKE / "threads.c", RUNTIME / "cpu_threads.c")


def build(folder: Path, *options: str) -> Path | None:
    """The program; None where the compiler does not know the options."""
    program = folder / "threads"
    command = [*compiler().split(), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", *options]
    done = subprocess.run(
        [*command, f"-I{RUNTIME}", *map(str, SOURCES), "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    if not options:
        assert done.returncode == 0, done.stderr
    return program if done.returncode == 0 else None


def run(program: Path, *words: str, threads: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "AOT_NUM_THREADS"}
    if threads is not None:
        environment["AOT_NUM_THREADS"] = threads
    return subprocess.run(
        [str(program), *words], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build(tmp_path_factory.mktemp("threads"))
    assert made is not None
    return made


@pytest.mark.parametrize("threads", [None, "1", "2", "3", "16"])
def test_every_iteration_is_run_once(program: Path, threads: str | None) -> None:
    done = run(program, threads=threads)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("said", "threads"),
    [("5", 5), ("1", 1), (None, None), ("", None), ("0", None), ("-1", None), ("4 ", None), ("many", None)],
)
def test_number_of_threads(program: Path, said: str | None, threads: int | None) -> None:
    expected = threads or len(os.sched_getaffinity(0))
    known, took_part = map(int, run(program, "count", threads=said).stdout.split())
    assert known == expected
    assert took_part == min(expected, 64)


def test_affinity_counts(program: Path) -> None:
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{one}]); os.execv({str(program)!r}, ['threads', 'count'])"
    environment = {key: value for key, value in os.environ.items() if key != "AOT_NUM_THREADS"}
    done = subprocess.run(["python3", "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizers_find_nothing(sanitizer: str, tmp_path: Path) -> None:
    program = build(tmp_path, f"-fsanitize={sanitizer}")
    if program is None:
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    done = run(program, *(["alone"] if sanitizer == "thread" else []), threads="4")
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer does not work on this kernel")
    assert done.returncode == 0, done.stderr
    assert "Sanitizer" not in done.stderr
