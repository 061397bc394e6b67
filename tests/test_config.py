"""aot.toml: what is accepted, and what is said about what is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aot.errors import ConfigError
from aot.settings import config
from aot.settings.wishes import Wish

FULL = """\
edition = 1

[package]
name = "demo-kernels"
version = "2.1"
description = "Kernels"
license = "Apache-2.0"

[build]
archs = ["sm_80", "9.0a"]
ptx = false
compress = "size"
cuda = 12
toolkit = "cuda"
hosts = ["x86-64", "aarch64"]
schedules = "general"

[source.softmax]
accumulate = "native"
precision = "tf32"
fully-masked = "zero"
passes = ["canonicalize", "cse"]

[source.wgmma]
archs = "sm_90a"
schedules = "fast"

[source.mma]
min-arch = "sm_80"

[source.norm.function.forward]
schedule = "row"
threads = 256

[source.norm.function.forward.region.2]
width = 1
"""


def test_a_full_file_is_read() -> None:
    read = config.parse(FULL, "aot.toml")
    assert read.package == config.PackageSettings("demo-kernels", "2.1", "Kernels", "Apache-2.0")
    hosts = ("x86-64", "aarch64")
    assert read.build == config.BuildSettings(("sm_80", "9.0a"), False, "size", 12, "cuda", hosts, "general")
    assert read.source("softmax") == config.SourceSettings(
        accumulate="native",
        precision="tf32",
        fully_masked="zero",
        passes=("canonicalize", "cse"),
        schedules="general",
    )
    assert read.source("wgmma") == config.SourceSettings(archs=("sm_90a",), schedules="fast")
    assert read.source("mma").min_arch == "sm_80"
    assert read.source("norm").wishes == (
        Wish("forward", 0, "row", (("threads", 256),), "aot.toml:31: [source.norm.function.forward]"),
        Wish("forward", 2, "", (("width", 1),), "aot.toml:35: [source.norm.function.forward.region.2]"),
    )
    assert read.source("other") == config.SourceSettings(schedules="general")
    assert config.Config().source("other") == config.SourceSettings(schedules="fast")


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert config.load(tmp_path / "aot.toml") == config.Config()


FAULTS = [
    ("no edition", '[package]\nname = "x"', r"aot\.toml: edition: missing; write `edition = 1`"),
    ("future edition", "edition = 2", r"aot\.toml:1: edition: this aot knows edition 1 only; got 2"),
    ("edition true", "edition = true", r"knows edition 1 only; got True"),
    ("not TOML", "edition = = 1", r"aot\.toml: not valid TOML: .*line 1"),
    ("unknown top key", "edition = 1\n[pakage]\n", r"aot\.toml:2: pakage: unknown key; did you mean 'package'\?"),
    (
        "unknown package key",
        'edition = 1\n[package]\nnmae = "x"',
        r":3: package\.nmae: unknown key; did you mean 'name'",
    ),
    ("unknown build key", "edition = 1\n[build]\narch = []", r":3: build\.arch: unknown key; did you mean 'archs'"),
    ("unknown source key", "edition = 1\n[source.a]\npases = []", r":3: source\.a\.pases: .*did you mean 'passes'"),
    ("name a number", "edition = 1\n[package]\nname = 3", r":3: package\.name: a text is needed; got 3"),
    ("ptx a text", 'edition = 1\n[build]\nptx = "yes"', r":3: build\.ptx: true or false is needed; got 'yes'"),
    ("archs a number", "edition = 1\n[build]\narchs = 80", r":3: build\.archs: architectures are needed"),
    ("archs empty", "edition = 1\n[build]\narchs = []", r"build\.archs: architectures are needed"),
    ("cuda unknown", "edition = 1\n[build]\ncuda = 11", r"build\.cuda: one of 12, 13 is needed; got 11"),
    ("compress near", 'edition = 1\n[build]\ncompress = "sise"', r"'none', .*did you mean 'size'\?; got 'sise'"),
    ("schedules near", 'edition = 1\n[build]\nschedules = "genral"', r"'fast', 'general' is needed; .* 'general'\?"),
    ("schedules of a source", "edition = 1\n[source.a]\nschedules = 1", r"source\.a\.schedules: one of 'fast', 'gener"),
    ("host unknown", 'edition = 1\n[build]\nhosts = ["arm64"]', r"build\.hosts: one of 'x86-64', 'aarch64' is needed"),
    ("passes not texts", "edition = 1\n[source.a]\npasses = [1]", r":3: source\.a\.passes: a list of texts"),
    (
        "schedule a number",
        "edition = 1\n[source.a.function.f]\nschedule = 3",
        r":3: source\.a\.function\.f\.schedule: the name of a schedule is needed; got 3",
    ),
    (
        "threads a text",
        'edition = 1\n[source.a.function.f]\nthreads = "many"',
        r":3: source\.a\.function\.f\.threads: a positive number is needed; got 'many'",
    ),
    (
        "unknown size",
        "edition = 1\n[source.a.function.f.region.1]\nunroll = 4",
        r":3: source\.a\.function\.f\.region\.1\.unroll: unknown key; known are schedule, threads, ",
    ),
    (
        "size near",
        "edition = 1\n[source.a.function.f]\nwidht = 4",
        r":3: source\.a\.function\.f\.widht: unknown key; did you mean 'width'\?; known are ",
    ),
    ("archs unknown", 'edition = 1\n[build]\narchs = ["sm_9"]', r":3: build\.archs: unknown architecture 'sm_9'"),
    ("name", 'edition = 1\n[package]\nname = "a b"', r":3: package\.name: 'a b' is no name for a package"),
    ("version", 'edition = 1\n[package]\nversion = "one"', r":3: package\.version: 'one' is no version$"),
    ("license", 'edition = 1\n[package]\nlicense = "mine"', r":3: package\.license: 'mine' is no license"),
    ("least arch", 'edition = 1\n[source.a]\nmin-arch = "sm80x"', r":3: source\.a\.min-arch: unknown arch"),
    (
        "region 0",
        "edition = 1\n[source.a.function.f.region.0]\nrows = 4",
        r":2: .*region\.0: regions are numbered from 1",
    ),
    (
        "region of a power",
        'edition = 1\n[source.a.function.f.region."²"]\nrows = 4',
        r":2: .*region\.²: regions are numbered from 1",
    ),
    ("function no table", "edition = 1\n[source.a]\nfunction = 3", r":3: source\.a\.function: tables \[source\."),
    ("source no table", "edition = 1\nsource = 3", r"aot\.toml:2: source: tables \[source\.<name>\] are needed"),
    ("one source no table", "edition = 1\n[source]\na = 3", r":3: source\.a: a table \[source\.a\] is needed"),
    ("package no table", "edition = 1\npackage = 3", r":2: package: a table \[package\] is needed"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_faults_are_named_with_their_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "aot.toml")
    assert re.search(message, caught.value.text()), caught.value.text()
    assert caught.value.exit_code == 2


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse("edition = 1\n[build]\nptx = 1\ncuda = 9\n[source.a]\nx = 1", "aot.toml")
    assert [int(n) for n in re.findall(r"aot\.toml:(\d+):", caught.value.message)] == [3, 4, 6]


def test_sources_that_do_not_exist_are_refused() -> None:
    read = config.parse("edition = 1\n[source.sofmax]\n", "k/aot.toml")
    with pytest.raises(ConfigError, match=r"k/aot\.toml:2: \[source\.sofmax\]: .*did you mean 'softmax'\?"):
        config.check_sources(read, ["softmax", "gelu"])


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[1] / "docs" / "aot-toml.md").read_text()
    for key in (*config.TOP_KEYS, *config.PACKAGE_KEYS, *config.BUILD_KEYS, *config.SOURCE_KEYS):
        assert f"`{key}`" in text, key
