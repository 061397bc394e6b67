"""What a build says at its end: sizes, and a warning for wheels that are too large."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from builtpackage import Built, Heard

from aot import pipeline
from aot.commands import bench
from aot.reporting import buildnotes, buildresult
from aot.reporting.buildresult import BuildResult, BuiltSource


def source(name: str, *sizes: int) -> BuiltSource:
    return BuiltSource(
        name=name,
        path=f"{name}.mlir",
        functions=("f",),
        kernels=1,
        images=("sm_80", "compute_90")[: len(sizes)],
        image_bytes=sizes,
        blob_bytes=sum(sizes),
        skipped=(),
        notes=(),
        schedules="fast",
        general=("f: linalg.generic: a contraction", "f: linalg.fill: a contraction"),
        how="built",
        seconds=0.25,
    )


RESULT = BuildResult(
    wheel=Path("k.whl"),
    wheel_bytes=100_000_000,
    sdist=None,
    c_files=(),
    tree=Path("tree"),
    package="k",
    version="1",
    archs=("sm_80", "sm_90"),
    sources=(source("small", 896), source("large", 60_000_000, 70_000)),
    left_out=(),
    notes=(),
    seconds=1.0,
)


def test_the_table_has_the_size_of_each_image() -> None:
    lines = pipeline.summary(RESULT).splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["source", "small", "large"]
    assert "sm_80 896 B " in lines[1]
    assert "sm_80 60.0 MB, compute_90 70.0 kB" in lines[2]
    assert lines[3:] == ["built k 1 in 1.0 s: 100000000 bytes"]


def test_a_wheel_that_is_too_large_is_warned_of() -> None:
    text = pipeline.summary(dataclasses.replace(RESULT, wheel_bytes=123_456_789))
    assert "warning: the wheel has 123.5 MB, and PyPI takes 100.0 MB" in text
    assert (
        "device code by image: sm_80 60.0 MB, compute_90 70.0 kB; largest sources: large 60.1 MB, small 896 B" in text
    )
    assert "--compress size, with fewer --archs, or with --split-archs" in text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_950, "1.0 MB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert buildresult.size(count) == text


def test_images_have_the_sizes_of_the_container(built: Built) -> None:
    for each in built.result.sources:
        assert len(each.image_bytes) == len(each.images)
        assert each.blob_bytes * 0.5 < sum(each.image_bytes) < each.blob_bytes


GENERAL = ("f: all of it: fast schedules are off",)


@pytest.mark.parametrize(
    ("of_small", "of_large", "notes"),
    [
        (None, None, ["general schedule: f: linalg.generic: a contraction (and 1 more: -v)"] * 2),
        (GENERAL, GENERAL, ["general schedules: kernels are slower than by default"]),
        (GENERAL, (), ["general schedules for small: kernels are slower than by default"]),
        ((), (), []),
    ],
    ids=["fast", "all", "one has nothing to schedule", "none has"],
)
def test_one_note_says_that_fast_schedules_are_off(
    of_small: tuple[str, ...] | None, of_large: tuple[str, ...] | None, notes: list[str]
) -> None:
    heard = Heard()
    sources = [
        each if left is None else dataclasses.replace(each, schedules="general", general=left)
        for each, left in zip(RESULT.sources, (of_small, of_large), strict=True)
    ]
    buildnotes.tell_notes(dataclasses.replace(RESULT, sources=tuple(sources)), (), heard)
    assert [each.partition(".mlir: ")[2] or each for each in heard.notes] == notes


def test_a_package_knows_that_fast_schedules_were_off() -> None:
    """Those that were built before there was the word say nothing of it."""
    modules = [
        {"name": "older", "general": ["f: linalg.generic: a contraction"]},
        {"name": "fast", "schedules": "fast", "general": ["f: linalg.generic: a contraction"]},
        {"name": "kernels", "schedules": "general", "general": []},
        *({"name": name, "schedules": "general", "general": list(GENERAL)} for name in "abcd"),
    ]
    assert list(buildnotes.slower_modules({"modules": modules[:3]})) == []
    (few,) = buildnotes.slower_modules({"modules": modules[:4]})
    (many,) = buildnotes.slower_modules({"modules": modules})
    assert few == "general schedules for a: kernels are slower than by default"
    assert many == "general schedules for 4 of 7 sources: kernels are slower than by default"
    timed = bench.Benched("k", "1", "a GPU", None, None, (), (few,))
    assert bench.remarks(timed) == [few]


def test_what_was_asked_for_and_left_out_is_a_note() -> None:
    notes = list(buildnotes.notes(dataclasses.replace(source("small", 896), skipped=("sm_80",), general=())))
    assert notes == [
        "not built for sm_80: [source.small] in aot.toml, or the targets of its own gpu.modules, leave that out"
    ]
