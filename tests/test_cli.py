"""The command line: exit codes, where words go, and what happens when things end early."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aot import __version__, cli
from aot.errors import AotError, Diagnostic, Interrupted, SourceError, ToolMissing, UsageError
from aot.reporting import report

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


def aot(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aot", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


def test_version_and_help_go_to_standard_output() -> None:
    assert aot("--version").stdout == f"aot {__version__}\n"
    for command in ("build", "inspect", "targets", "doctor", "new"):
        done = aot(command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: aot {command}")


USES = [
    ("no command", [], 2, "Usage: aot"),
    ("unknown command", ["biuld", "x"], 2, "Did you mean 'build'?"),
    ("unknown option", ["build", "x", "--arhcs", "sm_80"], 2, "(Did you mean one of: '--archs',"),
    ("no source", ["build"], 2, "Missing argument 'SRC...'"),
    ("jobs zero", ["build", "x", "-j", "0"], 2, "0 is not in the range x>=1"),
    ("quiet and verbose", ["build", "x", "-q", "-v"], 2, "exclude each other"),
    ("inspect two ways", ["inspect", "x", "--json", "--ptx", "k"], 2, "exclude each other"),
    ("inspect nothing", ["inspect", "nowhere.whl"], 2, "'nowhere.whl' does not exist"),
    ("a folder of sources", ["verify", str(Path(__file__).parents[1] / "examples" / "kernels")], 2, "; name the wheel"),
    ("a group without a command", ["cache"], 2, "Usage: aot cache [OPTIONS] COMMAND [ARGS]...\n\n  Look at the cache"),
    ("a tolerance of NaN", ["verify", "x.whl", "--rtol", "nan"], 2, "'--rtol': nan is not a finite number"),
    ("an endless tolerance", ["verify", "x.whl", "--atol", "inf"], 2, "'--atol': inf is not a finite number"),
    ("new without a name", ["new"], 2, "Missing argument 'NAME'"),
    ("new with a bad name", ["new", "class"], 2, "it is a Python keyword\nhint: choose another name"),
    ("new without letters", ["new", ""], 2, "NAME is empty"),
    ("no variable for a folder", ["build", "x", "--work", ""], 2, "--work is empty"),
    ("no variable for a source", ["build", "x", ""], 2, "SRC is empty"),
    ("no variable for a function", ["verify", "x", "--function", "f", "--function", ""], 2, "--function is empty"),
    ("no variable for the cache", ["cache", "clear", "--cache", ""], 2, "--cache is empty"),
    ("an architecture of no code", ["inspect", "x", "--arch", "sm_80"], 2, "--arch goes with --sass"),
    ("a long source", ["build", "a" * 300], 1, "aaa': the name is too long"),
    ("a long folder", ["new", "a" * 300], 1, "aaa': the name is too long"),
    ("a long package", ["inspect", "a" * 300 + ".whl"], 1, "aaa.whl': the name is too long"),
    ("targets of no toolkit", ["targets", "--toolkit", "nowhere"], 3, "ptxas was not found"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), [row[1:] for row in USES], ids=[row[0] for row in USES])
def test_wrong_use(
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == code
    out, err = capsys.readouterr()
    assert message in err + out
    assert (err + out).count("Usage:") <= 1
    assert "Traceback" not in err


def test_a_folder_is_told_as_the_next_command_takes_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["new", "--", "-x"]) == 0
    assert capsys.readouterr() == ("-x\n", "made '-x'; build it with: aot build ./-x\n")


OUTCOMES: list[tuple[str, BaseException, int, str]] = [
    ("source", SourceError("a.mlir: wrong", hint="mend it"), 1, "error: a.mlir: wrong\nhint: mend it\n"),
    ("use", UsageError("no"), 2, "error: no\n"),
    ("tool", ToolMissing("no ptxas"), 3, "error: no ptxas\n"),
    ("interrupt", KeyboardInterrupt(), 130, "\nerror: interrupted\n"),
    ("interrupted", Interrupted("stopped"), 130, "error: stopped\n"),
    ("diagnostic", AotError("bad", diagnostics=(Diagnostic("x", "f", 1),)), 1, "error: bad\nf:1: error: x\n"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "text"), [row[1:] for row in OUTCOMES], ids=[row[0] for row in OUTCOMES])
def test_errors_are_shown_in_one_place(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> Path:
        raise error

    monkeypatch.setattr("aot.commands.scaffold.create", fail)
    assert cli.run(["new", "demo"]) == code
    assert capsys.readouterr() == ("", text)


def test_a_bug_of_ours_keeps_its_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot.commands.scaffold.create", lambda name: [][0])
    assert cli.run(["new", "demo"]) == 70
    err = capsys.readouterr().err
    assert "IndexError" in err
    assert f"this is a bug in aot {__version__}" in err
    assert "Please report it" in err


def test_new_makes_a_folder_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["new", "my-kernels"]) == 0
    assert capsys.readouterr().out == "my-kernels\n"
    assert sorted(path.name for path in Path("my-kernels").iterdir()) == ["aot.toml", "scale.mlir"]
    assert cli.run(["new", "my-kernels"]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_build_ends_with_the_paths_of_what_it_made(tmp_path: Path) -> None:
    source = ROOT / "tests" / "bad" / "fine" / "double.mlir"
    done = aot("build", str(source), "--archs", "host", "--name", "made", "--sdist", "-q", "-j", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sdist, wheel = done.stdout.splitlines()
    assert sdist == "dist/made-0.1.0.tar.gz"
    assert wheel.startswith("dist/made-0.1.0-cp310-abi3-")


def test_targets_as_json() -> None:
    done = aot("targets", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)["targets"]
    assert {"arch": "sm_90a", "generation": "Hopper", "PTX": "8.0", "first CUDA": "11.8", "builds": "yes"} in table


def test_doctor_finds_what_is_here_and_says_what_is_not() -> None:
    done = aot("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    assert {"MLIR", "ptxas", "LLVM llc", "nvFatbin", "C compiler", "CMake", "ninja", "CUDA driver"} <= set(found)
    assert found["ptxas"]["version"].startswith("1")


def test_doctor_ends_with_3_when_building_is_impossible() -> None:
    environment = {**ENVIRONMENT, "AOT_LLVM": "/nowhere", "CC": "/nowhere/cc"}
    done = subprocess.run(
        [sys.executable, "-m", "aot", "doctor"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "LLVM opt: AOT_LLVM: opt was not found; looked at /nowhere/opt" in done.stdout
    assert "no C compiler was found: CC is '/nowhere/cc'" in done.stdout
    assert done.stdout.endswith("building is not possible here\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(stream: str) -> None:
    redirect = {"stdout": ">&-", "stderr": "2>&-"}[stream]
    command = f"exec '{sys.executable}' -m aot targets {redirect}"
    done = subprocess.run(["sh", "-c", command], env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stderr == b""


CLOSED = """
import os
from aot import cli
try:
    cli.main(["targets"])
except SystemExit:
    places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
    os._exit(0 if set(places) == {os.devnull} and all(map(os.get_inheritable, range(3))) else 1)
"""


def test_closed_streams_are_nobody_elses_files() -> None:
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, CLOSED]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"'{sys.executable}' -m aot targets | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=ENVIRONMENT, capture_output=True, check=False)
    assert done.stderr == b""


def test_a_terminal_without_unicode_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    report.say("größe ×")
    assert raw.getvalue() == b"gr\\xf6\\xdfe \\xd7\n"


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("whole", [True, False], ids=["as a terminal does", "the front process only"])
def test_a_stopped_build_ends_at_once_and_leaves_nothing(tmp_path: Path, kill: signal.Signals, whole: bool) -> None:
    (tmp_path / "kernels").mkdir()
    source = (ROOT / "tests" / "bad" / "fine" / "double.mlir").read_text()
    for number in range(8):
        (tmp_path / "kernels" / f"double{number}.mlir").write_text(source)
    command = [sys.executable, "-m", "aot", "build", "kernels", "-j", "1"]
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heeds_interrupts,
    )
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("compiling"):
            break
    time.sleep(0.3)
    (os.killpg if whole else os.kill)(child.pid, kill)
    start = time.monotonic()
    rest = child.communicate(timeout=30)[1]
    assert child.returncode == 130, rest
    assert time.monotonic() - start < 5
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert not (tmp_path / "dist").exists()
    # Where processors are busy, those that were told to end are seen for a moment longer.
    while time.monotonic() - start < 5 and _is_there(child.pid):
        time.sleep(0.05)
    assert not _is_there(child.pid)


def _heeds_interrupts() -> None:
    """A shell that starts the tests in its background lets all of them ignore SIGINT, and nohup SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _is_there(group: int) -> bool:
    """Whether the group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
