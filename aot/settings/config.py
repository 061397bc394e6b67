"""Reads ``aot.toml``, the settings that lie beside the sources (docs/aot-toml.md describes them).

In: the file's text. Out: Config, with every value checked. Unknown keys are errors that name
the nearest known one; every problem of the file is reported together, with its line.

>>> parse('edition = 1\\n[package]\\nname = "demo"', "aot.toml").package.name
'demo'
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aot import fileset
from aot.errors import ConfigError
from aot.settings import wishes
from aot.settings.configvalues import BUILD_KEYS, PACKAGE_KEYS, SOURCE_KEYS, Check
from aot.settings.wishes import FAST, Wish

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "aot.toml"
EDITION = 1
"""The only edition so far. A change that breaks files gets the next number; old ones keep their meaning."""


@dataclass(frozen=True)
class PackageSettings:
    """``[package]``: what the generated distribution says about itself."""

    name: str | None = None
    version: str | None = None
    description: str | None = None
    license: str | None = None
    """SPDX expression."""


@dataclass(frozen=True)
class BuildSettings:
    """``[build]``: defaults of the options of the same names; None where the file says nothing."""

    archs: tuple[str, ...] | None = None
    ptx: bool | None = None
    compress: str | None = None
    cuda: int | None = None
    toolkit: str | None = None
    """A folder, seen from the file's own folder."""
    hosts: tuple[str, ...] | None = None
    schedules: str | None = None


@dataclass(frozen=True)
class SourceSettings:
    """``[source.<name>]``: what holds for one source only."""

    archs: tuple[str, ...] | None = None
    """The only architectures it can be built for; None: all that are asked for."""
    min_arch: str | None = None
    """The first architecture it can be built for."""
    accumulate: str = "f32"
    """Of f16 and bf16 reductions: wide, or in the element's own type."""
    precision: str = "f32"
    """Of products of f32 matrices: exact, or as tensor cores read f32."""
    fully_masked: str = "nan"
    """What rows of a softmax are that have nothing but minus infinity."""
    passes: tuple[str, ...] = ()
    """MLIR passes that run on the parsed source before anything else."""
    schedules: str = ""
    """Of functions of which nothing else is said: ``fast`` ones, or ``general``; empty: what holds for the build."""
    wishes: tuple[Wish, ...] = ()
    """Schedules of its functions."""
    tuned: tuple[Wish, ...] = ()
    """Those that were measured, of functions of which the user says nothing."""


@dataclass(frozen=True)
class Config:
    """A whole file; the default is that of a folder without one."""

    path: str = ""
    """Where it was read; empty when there is none."""
    package: PackageSettings = PackageSettings()
    build: BuildSettings = BuildSettings()
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    """By namespace."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Dotted key -> its line, for messages."""
    tuned: str = ""
    """Where further schedules were read; empty when there is no such file."""
    schedules: str | None = None
    """What the command line says of them, for all sources."""

    def source(self, name: str) -> SourceSettings:
        """Settings of one source, with nothing left to settle."""
        own = self.sources.get(name, SourceSettings())
        settled = self.schedules or own.schedules or self.build.schedules or FAST
        # What was measured is one fast schedule beside others.
        return replace(own, schedules=settled, wishes=own.wishes + (own.tuned if settled == FAST else ()), tuned=())

    def place(self, key: str) -> str:
        """``file:line`` of a dotted key, or the file alone; what has no line is in the other file, if there is one."""
        mine = any(each == key or each.startswith(f"{key}.") for each in self.lines)
        return _place(self.path if mine else self.tuned or self.path, self.lines, key)


TOP_KEYS = ("edition", "package", "build", "source")


def load(file: Path) -> Config:
    """The config of a file; the default one when it is not there."""
    if not file.exists():
        return Config()
    try:
        text = fileset.read_file(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text") from error
    return parse(text, str(file))


def parse(text: str, path: str) -> Config:
    """Checks the text of a file and makes its Config; ConfigError lists all that is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    lines = key_lines(text)
    problems = _Problems(path, lines)
    problems.unknown("", table, TOP_KEYS)
    _check_edition(table, problems)
    for section, keys in (("package", PACKAGE_KEYS), ("build", BUILD_KEYS)):
        problems.table(section, table.get(section, {}), keys)
    sources = table.get("source", {})
    if not isinstance(sources, dict):
        problems.add("source", "tables [source.<name>] are needed")
        sources = {}
    for name, settings in sources.items():
        problems.table(f"source.{name}", settings, SOURCE_KEYS)
        functions = settings.get("function", {}) if isinstance(settings, dict) else {}
        for key, text in wishes.problems(functions):
            problems.add(f"source.{name}.function.{key}".rstrip("."), text)
    problems.stop()
    return Config(
        path,
        PackageSettings(**table.get("package", {})),
        BuildSettings(**_values(table.get("build", {}))),
        {name: _source(f"source.{name}", settings, path, lines) for name, settings in sources.items()},
        lines,
    )


def _source(name: str, table: Mapping[str, Any], path: str, lines: Mapping[str, int]) -> SourceSettings:
    """Settings of one source."""

    def place(key: str) -> str:
        return f"{_place(path, lines, f'{name}.function.{key}')}: [{name}.function.{key}]"

    plain = {key: value for key, value in table.items() if key != "function"}
    return SourceSettings(**_values(plain), wishes=wishes.read(table.get("function", {}), place))


def _place(path: str, lines: Mapping[str, int], key: str) -> str:
    return f"{path}:{lines[key]}" if key in lines else path


def check_sources(config: Config, names: Sequence[str]) -> None:
    """ConfigError when the file speaks of sources that are not there."""
    wrong = [
        f"{config.place(f'source.{name}')}: [source.{name}]: there is no such source{wishes.nearest(name, names)}"
        for name in config.sources
        if name not in names
    ]
    if wrong:
        raise ConfigError("\n".join(wrong), hint="the name is the file's stem, with '-', '.' and blanks as '_'")


def key_lines(text: str) -> dict[str, int]:
    """Dotted key -> line. TOML's parser gives no places; headers and keys are enough for messages."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        key = re.match(r"\s*([\w\"'.-]+)\s*=", line)
        if header:
            table = re.sub(r"[\"'\s]", "", header.group(1))
            lines.setdefault(table, number)
        elif key:
            name = re.sub(r"[\"']", "", key.group(1))
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


@dataclass
class _Problems:
    """Collects what is wrong with one file."""

    path: str
    lines: Mapping[str, int]
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, key: str, text: str) -> None:
        line = self.lines.get(key, 0)
        self.found.append((line, f"{self.path}{f':{line}' if line else ''}: {key}: {text}"))

    def unknown(self, prefix: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in [each for each in table if each not in known]:
            told = f"unknown key{wishes.nearest(key, known)}; known are {', '.join(known)}"
            self.add(f"{prefix}.{key}".lstrip("."), told)

    def table(self, name: str, table: Any, keys: Mapping[str, Check]) -> None:
        if not isinstance(table, dict):
            self.add(name, f"a table [{name}] is needed")
            return
        self.unknown(name, table, tuple(keys))
        for key, value in table.items():
            wrong = keys[key](value) if key in keys else ""
            if wrong:
                self.add(f"{name}.{key}", wrong if repr(value) in wrong else f"{wrong}; got {value!r}")

    def stop(self) -> None:
        if self.found:
            raise ConfigError("\n".join(text for _, text in sorted(self.found)))


def _check_edition(table: Mapping[str, Any], problems: _Problems) -> None:
    edition = table.get("edition")
    if edition is None:
        problems.add("edition", f"missing; write `edition = {EDITION}` on the first line")
    elif edition is True or edition != EDITION:
        problems.add("edition", f"this aot knows edition {EDITION} only; got {edition!r}")


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Lists become tuples, a single text for archs a tuple of one, ``min-arch`` a Python name."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        one_text = key == "archs" and isinstance(value, str)
        values[key.replace("-", "_")] = (value,) if one_text else tuple(value) if isinstance(value, list) else value
    return values
