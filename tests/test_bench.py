"""``aot bench``: every function is timed where it runs, with bytes and operations from the manifest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fakecuda
import pytest

from aot import cli, pipeline
from aot.commands import bench, chart, verify
from aot.commands.bench import Benched, BenchRequest
from aot.errors import UsageError
from aot.verifying import cost, timed, timing
from aot.verifying.dims import Dims
from aot.verifying.job import TimedRow
from aot.verifying.signature import Parameter, Signature

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bench")
    for source in ("vector_add", "smooth"):
        (folder / f"{source}.mlir").write_text((ROOT / f"examples/kernels/{source}.mlir").read_text())
    places = {"out": str(folder / "dist"), "work": str(folder / "build"), "name": "timed"}
    return str(pipeline.build(pipeline.BuildRequest((str(folder),), archs="sm_80,host", jobs=2, **places)).wheel)


def test_times_and_rates(package: str) -> None:
    found = bench.bench(BenchRequest(package, dims=("x.0=100000",), on="cpu"))
    row = next(each for each in found.rows if each.function == "vector_add.vector_add")
    assert row.shapes == "x[100000] y[100000]"
    assert row.place == "cpu"
    assert row.cold_s is not None
    assert row.median_s is not None
    assert row.best_s is not None
    assert 0 < row.best_s <= row.median_s
    assert row.gigabytes_s == pytest.approx(1.2e6 / row.median_s / 1e9)
    assert row.gigaflops_s == pytest.approx(1e5 / row.median_s / 1e9)
    assert found.copy_cpu is not None
    assert row.copy_share == pytest.approx(1.2e6 / row.median_s / found.copy_cpu)
    (launches,) = (each for each in found.rows if each.function == "smooth.smooth")
    assert launches.median_s is None
    assert launches.note == "it has no CPU code"
    assert found.ok


def test_nothing_that_can_run_is_wrong_use(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", package, "--function", "smooth", "--on", "cpu"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    if verify.driver.ask().devices:
        assert "nothing could be timed:\n  smooth.smooth: it has no CPU code" in shown.err
    else:
        assert "there is no GPU, and no CPU code of smooth.smooth" in shown.err


def test_the_gpu_is_timed_without_a_framework(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    environment = {**fakecuda.environment(fakecuda.build_fake(tmp_path / "fake")), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "aot", "bench", package, "--on", "gpu", "--dims", "m=1000", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)
    assert found["gpu"] == "Fake GPU"
    rows = {row["function"]: row for row in found["rows"]}
    assert rows["vector_add.vector_add"]["place"] == "gpu"
    assert rows["vector_add.vector_add"]["median_s"] > 0
    assert rows["smooth.smooth"]["median_s"] > 0
    assert rows["smooth.smooth"]["gigabytes_s"] is None
    assert done.returncode == 0, done.stderr


def test_as_the_command_line_shows_it(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", package, "--function", "vector_add", "--dims", "m=1000", "--on", "cpu"]) == 0
    shown = capsys.readouterr()
    head, row = shown.out.splitlines()
    assert [name for name in bench.COLUMNS if name not in head] == []
    assert row.startswith("vector_add.vector_add  x[1000] y[1000]  cpu  ")
    assert "a copy reaches" in shown.err
    assert cli.run(["bench", package, "--function", "nothing"]) == 2
    assert cli.run(["bench", package, "--plot", "chart.pdf"]) == 2
    assert "ends in neither .png nor .svg" in capsys.readouterr().err


def test_extents_grow_until_there_is_something_to_time() -> None:
    free, fixed = (0, 0), (0, 1)
    signature = Signature(
        "s", "f", "tensor", True, True, (Parameter("x", "f32", (None, None), "in"),), (None,), ("f32",)
    )
    found = Dims(((free,), (fixed,)), {free: 7, fixed: 3}, {free: "m", fixed: "n"}, frozenset({fixed}))
    extents = timed.grown(signature, found)
    assert extents[fixed] == 3
    assert extents[free] * 3 * 4 >= timed.ENOUGH_BYTES > extents[free] * 3 * 2


def test_polynomials_of_the_manifest() -> None:
    costs = {"read": [{"factor": 4, "dims": [[0, 0], [0, 1]]}, {"factor": 8, "dims": []}], "operations": None}
    signature = Signature("s", "f", "tensor", True, True, (Parameter("x", "f32", (None, 5), "in"),), (), (), costs)
    assert cost.estimate(signature, {(0, 0): 3}, "read") == 4 * 3 * 5 + 8
    assert cost.estimate(signature, {(0, 0): 3}, "operations") is None
    assert cost.estimate(signature, {(0, 0): 3}, "written") is None


def test_samples() -> None:
    calls: list[int] = []
    found = timing.sample(lambda: calls.append(1), lambda: None, seconds=0.02)
    assert len(found.warm) >= 3
    assert found.warm[0] <= found.median
    assert len(calls) > len(found.warm)


DURATIONS = [(None, "-"), (2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 µs"), (7e-9, "7 ns"), (0.0, "0 ns")]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS, ids=[row[1] for row in DURATIONS])
def test_durations(seconds: float | None, text: str) -> None:
    assert bench.duration(seconds) == text


ROW = TimedRow("s.f", "x[3]", "cpu", 1e-3, 1e-5, 9e-6, 0.1, 12.0, 3.0, 0.5)


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")], ids=["png", "svg"])
def test_charts(form: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    found = Benched("demo", "1.0", "", 8e9, None, (ROW, TimedRow("s.g", note="nothing")))
    assert chart.draw(found, form).startswith(start)
    with pytest.raises(UsageError, match="there is nothing to draw"):
        chart.draw(Benched("demo", "1.0", "", 8e9, None, ()), form)


def test_a_chart_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="--plot needs matplotlib"):
        chart.form_of("chart.svg")
