"""However a build is done, the same wheel comes out: side by side, cached, on a cluster, after a kill or a loss."""

from __future__ import annotations

import contextlib
import io
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from builtpackage import Built, Curious, Heard, build_in, write_sources
from compiledsource import some_job

import aot
from aot.engine import cachelevels, engineoptions, executorlocal, job, memory
from aot.engine.executor import Orders
from aot.engine.executorlocal import Forked, Local
from aot.engine.job import JobDone
from aot.errors import AotError, CompilerCrash, UsageError
from aot.wheels import rawzip, wheelfile

ROOT = Path(__file__).parents[1]
BAD = ROOT / "tests" / "bad"
pytestmark = pytest.mark.usefixtures("no_cache")


@dataclass
class AtFirst(Heard):
    """Does something when the first source is done."""

    act: Callable[[], None] = lambda: None

    def progress(self, done: int, total: int, what: str) -> None:
        super().progress(done, total, what)
        if len(self.compiled) == 1:
            self.act()


def built_with(folder: Path, act: Callable[[], None] = lambda: None, **options: object) -> aot.BuildResult:
    """Builds the small package in a folder of its own, as ``built`` was, so that its wheel may come from the stock."""
    if not folder.exists():
        write_sources(folder)
    places = {"out": str(folder / "dist"), "work": str(folder / "build"), "archs": "sm_80,sm_90"}
    chosen = {**places, "jobs": 2, "sdist": True, **options}
    request = aot.BuildRequest((str(folder / "kernels"),), **chosen)  # type: ignore[arg-type]
    return aot.build(request, AtFirst(act=act))


@pytest.fixture(scope="module")
def stock(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared cache without compiled sources: whoever comes to the same tree need not package it once more."""
    folder = Path(shutil.copytree(built.folder / "cache", tmp_path_factory.mktemp("stock") / "cache"))
    entries = {file: file.read_bytes() for file in folder.glob("*/*")}
    kept = [file for file, data in entries.items() if b'"core.c.o"' in data or b'"platform":' in data]
    assert (len(kept), len(entries)) == (2, 6), "the runtime's objects, the wheel, and four sources"
    for file in entries.keys() - kept:
        file.unlink()
    return folder


def copied(stock: Path, folder: Path) -> str:
    """The stock for one test, which may add to it."""
    return str(shutil.copytree(stock, folder / "stock"))


def hows(result: aot.BuildResult) -> list[str]:
    return sorted(each.how for each in result.sources)


def damage(cache: Path) -> None:
    """Changes the last byte of every entry."""
    for file in cache.glob("*/*"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")


def test_one_at_a_time_cached_and_with_a_cache_that_is_lost_or_damaged(
    built: Built, stock: Path, tmp_path: Path
) -> None:
    wheel, cache = built.result.wheel.read_bytes(), Path(copied(stock, tmp_path / "own"))
    shared = copied(stock, tmp_path / "shared")
    lost = built_with(tmp_path / "a", lambda: shutil.rmtree(cache), jobs=1, cache=str(cache), cache_remote=shared)
    assert hows(lost) == ["built"] * 4
    assert lost.wheel.read_bytes() == wheel

    # The first result went with the folder.
    partly = built_with(tmp_path / "b", cache=str(cache))
    assert hows(partly) == ["built", "cached", "cached", "cached"]
    assert partly.wheel.read_bytes() == wheel

    damage(cache)
    damaged = built_with(tmp_path / "c", cache=str(cache), cache_remote=copied(stock, tmp_path / "other"))
    assert hows(damaged) == ["built"] * 4
    assert damaged.wheel.read_bytes() == wheel

    fully = built_with(tmp_path / "d", cache="off", cache_remote=shared)
    assert hows(fully) == ["cached"] * 4
    assert fully.wheel.read_bytes() == wheel


def test_a_build_with_nothing_to_do_writes_nothing(built: Built, stock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    first = built_with(folder, cache_remote=copied(stock, tmp_path))
    stamp = first.wheel.stat().st_mtime_ns
    for file in (folder / "kernels").iterdir():
        file.touch()
    again = build_in(folder, sdist=True)
    assert (again.heard.compiled, len(again.heard.stages)) == ([], 1)
    assert hows(again.result) == ["unchanged"] * 4
    curious = Curious()
    build_in(folder, curious, sdist=True)
    assert any(
        line.startswith(f"{folder / 'kernels' / 'launch.mlir'}: ") and "code: " in line for line in curious.details
    )
    assert again.result.wheel.stat().st_mtime_ns == stamp
    first.wheel.unlink()
    assert build_in(folder, sdist=True).result.wheel.read_bytes() == built.result.wheel.read_bytes()


def test_a_damaged_result_is_told_and_made_anew(built: Built, stock: Path, tmp_path: Path) -> None:
    folder, remote = tmp_path / "own", copied(stock, tmp_path)
    wheel = built_with(folder, cache="off", cache_remote=remote).wheel
    left = folder / "build" / "objects" / "kernel"
    for name, data in ((job.BLOB, b"other"), (job.RESULT, b"")):
        (left / name).write_bytes(data)
        wheel.unlink()
        with pytest.raises(job.DamagedError, match="objects/kernel' is damaged"):
            built_with(folder, cache="off", cache_remote=remote)
        again = built_with(folder, cache="off", cache_remote=remote)
        assert hows(again) == ["cached", "unchanged", "unchanged", "unchanged"]
        assert again.wheel.read_bytes() == built.result.wheel.read_bytes()


def test_a_renewed_wheel_is_the_one_that_a_new_build_makes(built: Built, tmp_path: Path) -> None:
    wheels = []
    for name, changes in (("renewed", (False, True)), ("new", (True,))):
        folder, cache = tmp_path / name, shutil.copytree(built.folder / "cache", tmp_path / f"{name}-cache")
        write_sources(folder)
        source = folder / "kernels" / "launch.mlir"
        for change in changes:
            source.write_text(source.read_text().replace("1.0", "2.0") if change else source.read_text())
            wheels.append(built_with(folder, cache=str(cache), sdist=False).wheel.read_bytes())
    before, renewed, new = wheels
    assert renewed == new
    assert renewed != before


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The same build as ``built_with``, in a process group of its own."""
    command = [sys.executable, "-m", "aot", "build", "kernels", "--archs", "sm_80,sm_90", "-j", "2", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_after_kills_at_random_moments_the_next_build_is_right(
    built: Built, stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the whole group or of the front process alone, which leaves the rest to notice."""
    write_sources(tmp_path)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    cache = tmp_path / "cache"
    shared = copied(stock, tmp_path)
    moments = random.Random(7)
    killed = 0
    while killed < 10:
        child = start(tmp_path, "--cache", str(cache))
        assert child.stderr is not None
        try:
            child.wait(moments.uniform(0.1, 2.0))
        except subprocess.TimeoutExpired:
            (os.killpg if killed % 2 else os.kill)(child.pid, signal.SIGKILL)
            child.wait()
            killed += 1
        else:  # a fast machine is done with what the builds before have left: from the beginning
            for folder in (cache, tmp_path / "build", tmp_path / "dist"):
                shutil.rmtree(folder, ignore_errors=True)
        child.stderr.close()
    # The C compiler of the last one may be at work yet, and writes there.
    deadline = time.monotonic() + 60
    while _works_in(temporary) and time.monotonic() < deadline:
        time.sleep(0.05)
    for left in temporary.glob("aot-scratch-*"):
        os.utime(left, (0, 0))
    result = built_with(tmp_path, cache=str(cache), cache_remote=shared)
    assert not list(temporary.glob("aot-scratch-*"))
    assert result.wheel.read_bytes() == built.result.wheel.read_bytes()
    assert not list((tmp_path / "dist").glob(".*"))


def _works_in(folder: Path) -> bool:
    """Whether there is a process that was told of the folder."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in command.read_bytes():
                return True
    return False


def test_after_a_full_disk_the_next_build_is_right(built: Built, stock: Path, tmp_path: Path) -> None:
    """First neither results nor cache entries fit, then only the cache has no place, which is no error."""
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=40k tmpfs build && mount -t tmpfs -o size=12k tmpfs cache"
    for name in ("build", "cache"):
        (tmp_path / name).mkdir()
    if subprocess.run([*alone, mount], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    write_sources(tmp_path)
    caches = f"--cache cache --cache-remote '{copied(stock, tmp_path)}'"
    build = f"'{sys.executable}' -m aot build kernels --archs sm_80,sm_90 --sdist {caches}"
    command = f"{mount} && ! {build} && mount -o remount,size=64m build && {build}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*alone, command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no space is left on the device" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.rpartition("compiling ")[2].count(cachelevels.UNWRITTEN) == 1
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.read_bytes() == built.result.wheel.read_bytes()


def test_files_of_a_wheel_have_the_date_that_is_asked_for(built: Built) -> None:
    def epoch(said: str) -> int:
        return engineoptions.of("local", "off", None, {"SOURCE_DATE_EPOCH": said}).epoch

    assert (epoch(""), epoch("0"), epoch("99999999999")) == (315532800, 315532800, 4354819198)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH='²' is no number"):
        epoch("²")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH='today' is no number"):
        epoch("today")
    old = built.result.wheel
    data = wheelfile.archive(rawzip.read(old.read_bytes()), epoch("1700000000"))
    dates = {member.date_time for member in zipfile.ZipFile(io.BytesIO(data)).infolist()}
    assert dates == {(2023, 11, 14, 22, 13, 20)}


CRASHING = BAD / "compiler_crashes"


def test_a_crash_of_one_source_loses_no_other(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(CRASHING, kernels)
    shutil.copy(BAD / "fine" / "double.mlir", kernels)
    with pytest.raises(CompilerCrash, match=r"twice\.mlir: the compiler died"):
        build_in(tmp_path, archs="sm_80", ptx=False, name="crashing")
    assert (tmp_path / "build" / "objects" / "double" / job.RESULT).is_file()


def test_a_foreman_that_dies_is_told_and_the_next_build_is_right(built: Built, stock: Path, tmp_path: Path) -> None:
    write_sources(tmp_path)

    def kill() -> None:
        (foreman,) = (
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and is_foreman_in(path, str(tmp_path / "build"))
        )
        os.kill(foreman, signal.SIGKILL)

    with pytest.raises(AotError, match="the build's own processes failed"):
        built_with(tmp_path, kill, jobs=1)
    again = built_with(tmp_path, cache_remote=copied(stock, tmp_path))
    assert again.wheel.read_bytes() == built.result.wheel.read_bytes()


def is_foreman_in(process: Path, work: str) -> bool:
    """Whether a process is a foreman that holds the lock of a work folder, and no fork of one."""
    try:
        if b"aot.engine.foreman" not in (process / "cmdline").read_bytes():
            return False
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        held = {os.path.realpath(file) for file in (process / "fd").iterdir()}
    except OSError:
        return False
    return parent == os.getpid() and f"{work}/.lock" in held


def test_processors_are_given_as_long_as_there_are_any(tmp_path: Path) -> None:
    with Local(Orders(slots=3)) as owner:
        owner.busy = 2
        ours, theirs = socket.socketpair()
        child = Forked(owner, None, None, ours, 0)  # type: ignore[arg-type]
        crew = executorlocal.Helpers(theirs)
        answers: list[bool] = []

        def ask() -> None:
            answers.extend([crew.take(), crew.take()])
            crew.give()
            answers.append(crew.take())

        thread = threading.Thread(target=ask)
        thread.start()
        ((_, answer),) = child.watched()
        while thread.is_alive():
            answer()
            thread.join(0.01)
            if len(answers) == 3:
                break
        thread.join()
        assert answers == [True, False, True]
        assert (owner.busy, child.helpers) == (3, 1)
        ours.close()
        theirs.close()


def test_one_job_finds_out_for_all_that_the_shared_cache_is_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "f.mlir"
    source.write_text("")
    todo = some_job(source, "sm_80")
    noted = JobDone(1, notes=(f"{cachelevels.DOWN}: memory://x: no answer",))
    monkeypatch.setattr(executorlocal.worker, "compile_job", lambda *_: noted)
    with Local(Orders(slots=1, remote="memory://x")) as owner:
        owner.loaded = True  # nothing is compiled
        running = owner.start(todo, lambda: None)
        select.select([running], [], [])
        assert running.end() == noted
        assert owner.orders == Orders(slots=1)


def test_a_job_waits_for_memory_unless_it_is_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "f.mlir"
    source.write_text("")
    todo = some_job(source, "sm_80")
    with Local(Orders(slots=2)) as owner:
        monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 30)
        owner.busy = owner.jobs = 1
        assert owner.admits(todo)
        job.write_cost(todo, job.Cost(2 << 30, 1.0))
        assert not owner.admits(todo), "its last compilation took twice what is left"
        owner.busy = owner.jobs = 0
        assert owner.admits(todo)
