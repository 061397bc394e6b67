"""What a build is before any compiler runs: names, architectures, settings, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aot import plan
from aot.errors import AotError
from aot.plan import Plan
from aot.request import BuildRequest

FUNCTION = "func.func @f() { return }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    kernels = tmp_path / "my kernels"
    kernels.mkdir()
    for name in ("one", "two"):
        (kernels / f"{name}.mlir").write_text(FUNCTION)
    return kernels


def made(settings: str = "", environment: Mapping[str, str] | None = None, **request: object) -> Plan:
    if settings:
        Path("my kernels/aot.toml").write_text(f"edition = 1\n{settings}")
    asked = BuildRequest(**{"sources": ("my kernels",), **request})  # type: ignore[arg-type]
    return plan.plan(asked, environment or {})


def images(found: Plan) -> dict[str, str]:
    return {each.file.name: " ".join(image for _, image in each.selection.names()) for each in found.sources}


def test_defaults() -> None:
    found = made()
    assert (found.package.name, found.package.distribution, found.package.version) == (
        "my_kernels",
        "my-kernels",
        "0.1.0",
    )
    assert images(found) == {"one": "sm_80 sm_90 compute_90", "two": "sm_80 sm_90 compute_90"}
    assert (found.compress, found.notes, found.left_out) == ("none", (), ())
    assert (found.out, found.work) == (Path("dist").absolute(), Path("build").absolute())


SAYS = '[package]\nname = "said"\nversion = "2"\n[build]\narchs = ["sm_86"]\nptx = false\ncompress = "size"\n'


def test_settings_win_over_defaults_the_environment_over_them_and_options_over_all() -> None:
    found = made(SAYS)
    assert (found.package.name, found.package.version, found.compress) == ("said", "2", "size")
    assert images(found)["one"] == "sm_86"
    assert images(made(SAYS, {"AOT_ARCHS": "8.9"}))["one"] == "sm_89"
    found = made(SAYS, {"AOT_ARCHS": "8.9"}, archs="sm_75", name="asked", version="3", ptx=True, compress="fast")
    assert images(found)["one"] == "sm_75 compute_75"
    assert (found.package.name, found.package.version, found.compress) == ("asked", "3", "fast")


SPOKEN = '[source.two]\nschedules = "fast"\n[source.two.function.f]\nthreads = 8\n[build]\nschedules = "general"\n'
MEASURED = "".join(f"[source.{name}.function.{each}]\nwidth = 1\n" for name in ("one", "two") for each in "fg")


@pytest.mark.parametrize(
    ("asked", "schedules", "functions"),
    [
        (None, "general fast", {"two": "fg"}),
        ("fast", "fast fast", {"one": "fg", "two": "fg"}),
        ("general", "general general", {"two": "f"}),
    ],
)
def test_schedules_of_a_build_a_source_and_a_function(
    asked: str | None, schedules: str, functions: dict[str, str]
) -> None:
    """What was measured is left out where fast schedules are off; what the user says of a function holds."""
    Path("my kernels/aot.tuned.toml").write_text(f"edition = 1\n{MEASURED}")
    found = made(SPOKEN, schedules=asked).sources
    assert " ".join(each.settings.schedules for each in found) == schedules
    wished = {each.file.name: "".join(sorted({wish.function for wish in each.settings.wishes})) for each in found}
    assert {name: all_ for name, all_ in wished.items() if all_} == functions


def test_unknown_schedules() -> None:
    with pytest.raises(AotError, match="unknown schedules 'genral'; did you mean 'general'\\?; choose fast or general"):
        made(schedules="genral")


def test_ptx_that_is_named_replaces_the_automatic_one() -> None:
    assert images(made(archs="sm_80,sm_90,compute_80"))["one"] == "sm_80 sm_90 compute_80"
    assert images(made(archs="8.0;9.0+PTX"))["one"] == "sm_80 sm_90 compute_90"


def test_one_file_of_a_folder_with_settings_for_others() -> None:
    """aot.toml may speak of the sources beside it that are not built this time."""
    found = made("[source.two]\nmin-arch = 'sm_90'\n", sources=("my kernels/one.mlir",))
    assert images(found) == {"one": "sm_80 sm_90 compute_90"}


def test_two_settings_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "three.mlir").write_text(FUNCTION)
    assert len(made("", sources=("my kernels", "other")).sources) == 3
    (other / "aot.toml").write_text("edition = 1")
    with pytest.raises(AotError, match="two folders with settings for one build: 'my kernels' and 'other'"):
        made("[build]\n", sources=("my kernels", "other"))


def test_a_warning_when_nothing_will_run_on_newer_gpus() -> None:
    assert any("no PTX for newer GPUs" in note for note in made(archs="sm_90a").notes)
    assert made(archs="sm_80", ptx=False).notes == ()


def test_jobs_come_from_the_option_the_environment_or_the_machine() -> None:
    assert made(jobs=3, environment={"MAX_JOBS": "5"}).jobs == 3
    assert made(environment={"MAX_JOBS": "5"}).jobs == 5
    assert made().jobs >= 1


def test_machines_for_host_code() -> None:
    assert made('[build]\nhosts = ["aarch64", "x86-64"]\n').triples == ("aarch64-linux-gnu", "x86_64-linux-gnu")
    assert len(made("[build]\n").triples) == 1
    assert made("[build]\n", sdist=True).triples == ("aarch64-linux-gnu", "x86_64-linux-gnu")
    assert made('[build]\nhosts = ["aarch64"]\n', sdist=True).triples == ("aarch64-linux-gnu",)


def test_a_toolkit_in_the_settings_lies_beside_them() -> None:
    with pytest.raises(AotError, match=r"looked at .*/my kernels/cuda/bin/ptxas"):
        made('[build]\ntoolkit = "cuda"\n')
