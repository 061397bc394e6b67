"""``aot tune``: candidates, the race between them, and the file that keeps the fastest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakecuda
import pytest

from aot import driver, plan
from aot.errors import AotError, ConfigError
from aot.model import Argument, ArrayType, CompiledSource, Function, PackageSpec, Result, ToolVersions
from aot.packages import metadata
from aot.reporting.report import Silent
from aot.request import BuildRequest
from aot.settings import config, configfiles
from aot.tuning import tune, tunebuild, tunecandidates, tunechoice, tunedfile, tunerace
from aot.tuning.tunebuild import Course
from aot.tuning.tunecandidates import Candidate
from aot.tuning.tunechoice import Choosable, TuneRequest
from aot.tuning.tunedfile import Pick
from aot.verifying import job, race, signature, timing
from aot.verifying.checks import Setup
from aot.verifying.installed import installed
from aot.verifying.job import Sizes, VerifyJob
from aot.verifying.place import Cpu

ROW = {"threads": 128, "rows": 1, "vectors": 2, "width": 4}
DOUBLE = """\
func.func @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def test_candidates_hold_the_row_and_are_others() -> None:
    found = tunecandidates.candidates("rows", "row", ROW)
    rows = [dict(each.sizes) for each in found if each.schedule == "row"]
    assert all(each["threads"] * each["vectors"] * each["width"] >= 1024 for each in rows)
    assert ROW not in rows
    assert {"long-row", "cluster-row", "slices"} <= {each.schedule for each in found}
    assert tunecandidates.candidates("general", "general", {}) == []
    assert [each.text() for each in tunecandidates.candidates("columns", "columns", {"width": 2})] == [
        "columns: width 1",
    ]
    assert tunecandidates.limited(found, 3) == [found[0], found[len(found) // 3], found[2 * len(found) // 3]]
    sooner = tunecandidates.far_apart_first(found[:7])
    assert [found.index(each) for each in sooner] == [0, 4, 2, 6, 1, 5, 3]


def pick(function: str, threads: int, source: str = "s") -> Pick:
    return Pick(source, function, 1, Candidate("row", (("threads", threads),)), f"{threads} are best")


def wishes(folder: Path, *, with_tuned: bool = True) -> dict[str, int]:
    found = configfiles.load(folder, with_tuned=with_tuned).source("s").wishes
    return {each.function: dict(each.sizes)["threads"] for each in found}


def test_what_was_tuned_holds_where_the_user_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / configfiles.TUNED_NAME
    file.write_text(tunedfile.text([pick("f", 32), pick("g", 32), pick("ff", 32)], "", "an H200"))
    assert wishes(tmp_path) == dict.fromkeys(("f", "g", "ff"), 32)
    (tmp_path / "aot.toml").write_text("edition = 1\n[source.s.function.g]\nthreads = 8\n")
    assert wishes(tmp_path) == {"f": 32, "g": 8, "ff": 32}
    assert wishes(tmp_path, with_tuned=False) == {"g": 8}
    file.write_text(tunedfile.text([pick("f", 64)], file.read_text(), "an H100", [("s", "f"), ("s", "g")]))
    assert wishes(tmp_path) == {"f": 64, "g": 8, "ff": 32}
    assert file.read_text().count("# ") == 3
    file.write_text('edition = 1\n[source.s]\naccumulate = "native"\n')
    with pytest.raises(ConfigError, match=r"aot\.tuned\.toml:2: \[source\.s\]: only `edition` and schedules belong"):
        configfiles.load(tmp_path)
    file.write_text("edition = 1\n[build]\nptx = false\n")
    with pytest.raises(ConfigError, match=r"aot\.tuned\.toml:\d: \[build\]: only `edition` and schedules belong"):
        configfiles.load(tmp_path)


def test_what_an_edited_file_says_of_others_stays(tmp_path: Path) -> None:
    before = (
        "edition = 1\n[source.s.function.g]\nthreads = 8  # by hand\n"
        "[ source.s.function . 'f' ]\nthreads = 4\n# as ever\n[source.s.function.h]\n\n# small\nthreads = 2\n"
    )
    found = tunedfile.text([pick("f", 64)], before, "an H100")
    (tmp_path / configfiles.TUNED_NAME).write_text(found)
    assert wishes(tmp_path) == {"f": 64, "g": 8, "h": 2}
    assert "8  # by hand" in found
    assert "# as ever\n[source.s.function.h]\n# small\nthreads = 2" in found


def test_candidates_are_built_with_the_settings_of_their_source(tmp_path: Path) -> None:
    (tmp_path / "s.mlir").write_text(DOUBLE)
    own = 'precision = "tf32"\nfully-masked = "zero"\naccumulate = "native"'
    (tmp_path / "aot.toml").write_text(f"edition = 1\n[source.s]\n{own}\n")
    (source,) = plan.plan(BuildRequest((str(tmp_path),), archs="sm_90", ptx=False)).sources
    course = Course(source, "double", 2, (), (), 0, until=0.0, jobs=1, base=((1, Candidate("row")),))
    files = tunebuild._files(course, {"c1": Candidate("long-row", (("threads", 64),))})
    written = config.parse(files["aot.toml"].decode(), "aot.toml")
    expected = config.parse(f"edition = 1\n[source.s]\n{own}\n", "").source("s")
    assert [replace(written.source(each), wishes=()) for each in written.sources] == [expected, expected]
    wishes = [[(each.region, each.schedule, each.sizes) for each in one.wishes] for one in written.sources.values()]
    assert wishes == [[(1, "row", ())], [(1, "row", ()), (2, "long-row", (("threads", 64),))]]


@pytest.mark.parametrize(("text", "dims", "message"), [("garbage", (), "not valid TOML"), ("", ("m=x",), "--dims")])
def test_what_is_wrong_is_said_before_anything_is_built(
    tmp_path: Path, text: str, dims: tuple[str, ...], message: str
) -> None:
    (tmp_path / "s.mlir").write_text(DOUBLE)
    if text:
        (tmp_path / configfiles.TUNED_NAME).write_text(text)
    with pytest.raises(AotError, match=message):
        tunechoice.choosable(TuneRequest((str(tmp_path),), dims=dims, archs="sm_90"))


def test_those_that_give_what_the_first_gives_are_timed() -> None:
    def refuses(x: Any) -> Any:
        raise ValueError("not today")

    functions = {"c0": lambda x: x + x, "c1": lambda x: 2 * x, "c2": lambda x: 3 * x, "c3": refuses}
    package: Any = SimpleNamespace(**{name: SimpleNamespace(f=each) for name, each in functions.items()})
    package.CudaError = type("CudaError", (Exception,), {})
    x = {"name": "x", "kind": "tensor", "dtype": "f32", "shape": [None], "layout": None, "role": "in"}
    described = {"name": "f", "level": "tensor", "gpu": False, "cpu": True, "args": [x], "results": [], "cost": None}
    result = {**x, "argument": None}
    manifest = {
        "modules": [
            {"name": name, "functions": [{**described, "results": [result]}], "kernels": []} for name in functions
        ]
    }
    known = signature.signatures(manifest)
    todo = VerifyJob("", "", "tuned", "host", tuple(each.full_name for each in known), mode=job.TRY)
    setup, sizes = Setup(todo, package, (Cpu(),), None), Sizes((1000,), ("m",))
    tried = race.tryer(setup, known[0], sizes)
    found = [tried(each) for each in known]
    notes = [each.note for each in found]
    assert notes[:2] == ["", ""]
    assert notes[2].startswith("wrong: result 0[")
    assert notes[3] == "refused: not today"
    assert [each.seconds > 0 for each in found] == [True, True, False, False]
    turns: list[tuple[int, str]] = []
    seconds = race.rounds(setup, known[:2], sizes, lambda number, step: turns.append((number, step)))
    assert [len(each) for each in seconds] == [2] * race.FEWEST
    assert turns[:6] == [(0, "begins"), (1, "begins"), (0, "0"), (1, "0"), (1, "1"), (0, "1")]


def test_the_first_call_says_nothing_of_how_many_are_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads code: a function that is called once a round would be timed with the wait for it."""
    counts = {"c0": 0, "c1": 0}
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now, monotonic=lambda: clock.now)
    for module in (race, timing):
        monkeypatch.setattr(module, "time", clock)

    def slow_at_first(name: str) -> Any:
        def f(x: Any) -> Any:
            counts[name] += 1
            clock.now += 0.05 if name == "c0" and counts[name] < 2 else 0.0001
            return x

        return f

    described = {"name": "f", "level": "tensor", "gpu": False, "cpu": True, "args": [], "results": [], "cost": None}
    manifest = {"modules": [{"name": name, "functions": [described], "kernels": []} for name in counts]}
    known = signature.signatures(manifest)
    made = {name: slow_at_first(name) for name in counts}
    package: Any = SimpleNamespace(
        **{name: SimpleNamespace(f=lambda each=each: each(0)) for name, each in made.items()}
    )
    todo = VerifyJob("", "", "tuned", "host", tuple(each.full_name for each in known), mode=job.RACE)
    race.rounds(Setup(todo, package, (Cpu(),), None), known, Sizes(), lambda number, step: None)
    assert counts["c0"] == counts["c1"]


DEFAULT_ROUNDS = (1.0, 1.1, 0.9, 1.0)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"c1": (0.9, 0.9, 0.8, 0.9), "c2": (0.8, 0.8, 0.8, 0.8)}, "c2"),
        ({"c1": (0.99, 1.09, 0.89, 0.99)}, ""),
        ({"c1": (0.1, 1.2, 1.0, 0.1)}, ""),
        ({"c1": (0.9, 1.0, 1.0, 0.9)}, "c1"),
        ({}, ""),
    ],
    ids=["the fastest of two", "less than 2 %", "not in three of four rounds", "in three of four", "none"],
)
def test_who_wins(others: dict[str, tuple[float, ...]], expected: str) -> None:
    assert tunerace.fastest({"c0": DEFAULT_ROUNDS, **others}) == expected


PACKAGE = """\
import os, sys, time
from types import SimpleNamespace

class CudaError(Exception):
    pass

def dies_in_a_race(x):
    if "race" in sys.argv[1]:
        os.abort()
    return x

def hangs(x):
    time.sleep(1000)

c0 = c1 = SimpleNamespace(f=lambda x: x)
c2 = SimpleNamespace(f=lambda x: os.abort())
c3 = SimpleNamespace(f=hangs)
c4 = SimpleNamespace(f=dies_in_a_race)
"""


def stand_in(folder: Path) -> None:
    """A package ``tuned`` of which some functions end their process, or never."""
    x = ArrayType("tensor", "f32", (None,))
    function = Function("f", "on the GPU", "tensor", (Argument("x", x),), (Result(x),))
    sources = [CompiledSource(f"c{number}", "", "", (function,), (), None, ()) for number in range(5)]
    spec = PackageSpec("tuned", "tuned", "1", ToolVersions("", "", "", 13000))
    manifest = metadata.manifest(spec, {each.name: metadata.module(each) for each in sources})
    (folder / "tuned").mkdir(parents=True)
    (folder / "tuned" / "__init__.py").write_text(PACKAGE)
    (folder / "tuned" / "aot.json").write_text(json.dumps({**manifest, "left_out": []}))


def test_candidates_that_die_or_never_end_are_left_out(
    fake_cuda: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fakecuda.environment(fake_cuda, {"capability": 90}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(fakecuda.ROOT))
    monkeypatch.setattr(tunerace, "PATIENCE_S", 3.0)
    monkeypatch.setattr(tunerace, "NEAR", 1e9)
    stand_in(tmp_path)
    source: Any = SimpleNamespace(file=SimpleNamespace(name="s"))
    course = Course(source, "f", 1, ("m=8",), (), 0, until=time.monotonic() + 100, jobs=1)
    told: list[str] = []
    tell = SimpleNamespace(progress=lambda done, total, what: told.append(f"{done}/{total} {what}"))
    named = {f"c{number}": Candidate("row", (("threads", number),)) for number in range(1, 5)}
    found = tunerace.measured(course, installed(str(tmp_path), tmp_path / "x"), named, tmp_path, tell)  # type: ignore[arg-type]
    assert set(found.seconds) == {"c0", "c1", "c4"}
    assert set(found.rounds) == {"c0", "c1"}
    assert found.notes == {
        "c2": "the process ended with SIGABRT in this function: it said nothing",
        "c3": "the process ended with SIGKILL in this function: it did not end within 3 seconds",
        "c4": "the process ended with SIGABRT in this function: it said nothing",
    }
    assert [each.partition(":")[0] for each in told] == ["1/5 as it is", "2/5 row", "5/5 row"]
    again = tmp_path / "again"
    monkeypatch.setattr(tunerace, "LEAST_S", 0.0)
    with pytest.raises(AotError, match=r"s\.f cannot be timed: the time was up"):
        tunerace.measured(replace(course, until=0.0), installed(str(tmp_path), tmp_path / "x"), named, again, Silent())


def test_what_is_compiled_when_half_of_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.mlir").write_text(DOUBLE + DOUBLE.replace("@double", "@other"))
    monkeypatch.setattr(driver, "capabilities", lambda: ((9, 0),))
    (source,) = plan.plan(BuildRequest((str(tmp_path),), archs="sm_90", ptx=False)).sources
    course = Course(source, "double", 1, (), (), 0, until=0.0, jobs=1)
    widths = {f"c{number}": Candidate("pointwise", (("width", 2**number),)) for number in range(1, 4)}
    widths["c1"] = Candidate("long-row")
    notes = tunebuild.build(course, widths, tmp_path / "work", Silent())
    assert set(notes) == {"c1", "c3"}
    assert notes["c1"].startswith("not built: ")
    assert notes["c3"] == tunebuild.OVER
    manifest = installed(str(tmp_path / "work" / tunebuild.WHEELS), tmp_path / "package").manifest
    functions = [f"{module['name']}.{each['name']}" for module in manifest["modules"] for each in module["functions"]]
    assert functions == ["c0.double", "c2.double"]


def tuned(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aot", "tune", "double.mlir", *options]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(fakecuda.ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_candidates_are_built_called_and_timed(fake_cuda: Path, tmp_path: Path) -> None:
    """On a stand-in for the driver, where all take the same time: the file says nothing of the function."""
    (tmp_path / "double.mlir").write_text(DOUBLE)
    fake = fakecuda.environment(fake_cuda, {"capability": 90})
    done = tuned(tmp_path, "--dims", "m=1000", "--json", "-q", **fake)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["candidate"].rpartition(": ")[2] for row in rows[1:]] == ["width 1", "width 2"]
    assert all(row["median_s"] for row in rows)
    assert rows[0]["note"] == "default"
    assert configfiles.load(tmp_path).tuned


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "there is no usable GPU here to measure on"),
        (["--list", "--archs", "sm_90", "--function", "triple"], r"no function 'triple' has something to tune"),
        (["--list", "--archs", "sm_90", "--dims", "q=4"], "--dims and --range are for measuring"),
        (["--list", "--archs", "sm_90", "--range", "q=0:4"], "--dims and --range are for measuring"),
        (["--budget", "-1"], "'--budget': -1.0 is not in the range x>=1"),
        (["--budget", "nan"], "'--budget': nan is not a finite number"),
        (["--budget", "inf"], "'--budget': inf is not a finite number"),
    ],
    ids=["no GPU", "no such function", "list with extents", "list with ranges", "negative", "NaN", "infinity"],
)
def test_messages(
    fake_cuda: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    done = tuned(tmp_path, *options, **fakecuda.environment(fake_cuda, {"devices": 0}))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


TWO = """\
func.func @fixed(%x: tensor<512xf32>) -> tensor<512xf32> {
  %y = arith.addf %x, %x : tensor<512xf32>
  return %y : tensor<512xf32>
}
"""


def test_letters_and_arguments_belong_to_some_function(fake_cuda: Path, tmp_path: Path) -> None:
    (tmp_path / "double.mlir").write_text(TWO + DOUBLE)
    fake = fakecuda.environment(fake_cuda, {"capability": 90})
    done = tuned(tmp_path, "--dims", "m=1000", "--json", "-q", **fake)
    assert done.returncode == 0, done.stderr
    assert {row["function"] for row in json.loads(done.stdout)["rows"]} == {"double.fixed", "double.double"}
    done = tuned(tmp_path, "--dims", "k=1000", "-q", **fake)
    assert done.returncode == 2
    assert "no function has a dimension 'k'" in done.stderr


def test_what_cannot_be_timed_costs_nothing_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    best = Candidate("row", (("threads", 64),))
    names = ("f", "g", "h")
    source: Any = SimpleNamespace(file=SimpleNamespace(name="s"))
    regions = [Choosable(source, name, 1, Candidate("row"), (best,)) for name in names]
    bases: list[Any] = []

    def run(course: Course, *_: Any) -> tunerace.Times:
        bases.append(course.base)
        if course.function == "g":
            raise AotError("s.g cannot be timed: it is too slow\nmore")
        return tunerace.Times(2.0, {best: 1.0}, {}, "m=1", best)

    monkeypatch.setattr(tune.driver, "ask", lambda: SimpleNamespace(devices=[SimpleNamespace(name="an H200")]))
    monkeypatch.setattr(tune, "choosable", lambda *_: regions)
    monkeypatch.setattr(tunerace, "run", run)
    regions.append(Choosable(source, "h", 2, Candidate("row"), (best,)))
    found = tune.tune(TuneRequest(("s.mlir",)))
    assert [each.function for each in found.picks] == ["f", "h", "h"]
    assert bases == [(), (), (), ((1, best),)]
    assert [row.note for row in found.rows if row.function == "s.h"] == [
        "default",
        "taken",
        "default, with what was taken above",
        "taken",
    ]
    assert found.tuned == (("s", "f"), ("s", "h"))
    assert [row.note for row in found.rows if row.function == "s.g"] == ["s.g cannot be timed: it is too slow"]
    regions[:] = regions[1:2]
    with pytest.raises(AotError, match="cannot be timed"):
        tune.tune(TuneRequest(("s.mlir",)))


def test_tuned_settings_name_functions_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "s.mlir").write_text(DOUBLE)
    (tmp_path / configfiles.TUNED_NAME).write_text("edition = 1\n[source.s.function.doubel]\nwidth = 1\n")
    with pytest.raises(ConfigError, match=r"aot\.tuned\.toml:2: .* no tensor-level function 'doubel'; did you mean"):
        tunechoice.choosable(TuneRequest((str(tmp_path),), archs="sm_90"))


def test_lists_have_no_columns_of_times(tmp_path: Path) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    done = tuned(tmp_path, "--list", "--archs", "sm_90")
    assert done.returncode == 0, done.stderr
    head, default, *_ = done.stdout.splitlines()
    assert head.split() == ["function", "region", "candidate"]
    assert default.split()[0] == "double.double"
    assert default.endswith("  default")


def test_functions_that_aot_toml_speaks_of_are_named(tmp_path: Path) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    (tmp_path / "aot.toml").write_text("edition = 1\n[source.double.function.double]\nwidth = 1\n")
    done = tuned(tmp_path, "--list", "--archs", "sm_90")
    assert done.returncode == 2
    assert "something to tune (GPU code of tensor-level functions has); left alone, since aot.toml has" in done.stderr
    assert "tables for them: double.double" in done.stderr


def test_fast_schedules_are_tuned_where_builds_have_none(tmp_path: Path) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    (tmp_path / "aot.toml").write_text('edition = 1\n[build]\nschedules = "general"\n')
    done = tuned(tmp_path, "--list", "--archs", "sm_90")
    assert done.returncode == 0, done.stderr
    assert "double.double  1       pointwise: width 1" in done.stdout
    assert "aot.toml switches fast schedules off, and with them what is found here; tuned are fast ones" in done.stderr


def test_what_there_is_no_time_for_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    monkeypatch.chdir(tmp_path)
    gpu = driver.Device(0, "Fake GPU", (9, 0))
    monkeypatch.setattr(driver, "ask", lambda: driver.Driver(found=True, cuda=(13, 0), devices=(gpu,)))
    moments = iter((0.0, 601.0))
    monkeypatch.setattr(tune, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    said = Silent()
    notes: list[str] = []
    monkeypatch.setattr(said, "note", notes.append)
    with pytest.raises(AotError, match="the time was up") as error:
        tune.tune(TuneRequest(("double.mlir",)), said)
    assert error.value.hint.startswith("give it more with --budget")
    assert notes[-1] == "double.double, region 1 is left out: the time was up"
