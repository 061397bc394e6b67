"""What the documents name is there: files, modules, options of the command line, keys of ``aot.toml``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from aot import cli
from aot.settings import wishes
from aot.settings.configvalues import COMPRESS
from aot.verifying import reference

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "examples/README.md"]
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
TOP = "aot|templates|tests|benchmarks|examples|build_rules|docs"
OTHERS = {"--update-golden"}
"""Options of programs that are not ours, and of our tests."""


def quoted(document: Path) -> list[str]:
    """What stands between backticks, in text and in blocks."""
    text = document.read_text(encoding="utf-8")
    return re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)


def options(command: click.Command) -> Iterator[str]:
    for each in getattr(command, "commands", {}).values():
        yield from options(each)
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document: Path) -> None:
    named = {
        path.rstrip(".,")
        for each in quoted(document)
        for path in re.findall(rf"(?<![\w/.-])((?:{TOP})/[\w.*/-]+)", each)
    }
    assert not [path for path in sorted(named) if not list(ROOT.glob(path.rstrip("/")))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_exist(document: Path) -> None:
    named = {
        option
        for each in quoted(document)
        if "pip " not in each and "pytest " not in each and ".py " not in each
        for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", each)
    }
    assert not sorted(named - set(options(cli.cli)) - OTHERS)


PACKAGES = sorted(path.parent for path in (ROOT / "aot").rglob("__init__.py"))
MAPPED = [ROOT / "aot", ROOT / "aot" / "lower", ROOT / "aot" / "lower" / "cpu"]
"""Packages whose parts docs/design.md names, not their own docstrings."""


def parts(package: Path) -> set[str]:
    """Modules and packages in a package."""
    return {path.stem for path in package.glob("*.py")} - {"__init__"} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }


def test_the_map_has_every_part() -> None:
    named = set(re.findall(r"`(?:aot/|lower/)*(\w+)(?:\.py|/)?`", DESIGN))
    missing = {part for package in MAPPED for part in parts(package)} - named - {"__main__"}
    assert not sorted(missing), "docs/design.md says of every part of aot and of aot/lower what it is"


@pytest.mark.parametrize(
    "package", [each for each in PACKAGES if each not in MAPPED], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_a_package_says_what_each_module_is_for(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert not sorted(parts(package) - set(re.findall(r"``(\w+)``", docstring)))


def test_files_of_a_folder_exist() -> None:
    """``fast/table.py``, ``ptxtext.py``: named from where the text is."""
    named = {
        path for each in quoted(ROOT / "docs" / "design.md") for path in re.findall(r"[\w/]+\.(?:py|c|h)\b(?!\.)", each)
    }
    known = {str(path.relative_to(ROOT)) for top in TOP.split("|") for path in (ROOT / top).rglob("*.*")}
    assert not [path for path in sorted(named) if not any(f"/{each}".endswith(f"/{path}") for each in known)]


def test_the_steps_on_a_gpu_are_described() -> None:
    script, text = ((ROOT / "tests" / "gpu" / name).read_text("utf-8") for name in ("run_on_device.sh", "README.md"))
    (default,) = re.findall(r"\|\| set -- (.*)", script)
    (said,) = re.findall(r"in order:\n((?:# .*\n)+?)# Prints", script)
    described = [
        name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert said.replace("#", "").rstrip(".\n").split() == default.split()
    assert sorted(described) == sorted(default.split())


def test_the_example_of_references_can_be_taken(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "references.py"
    path.write_text(example, encoding="utf-8")
    taken = reference.load(str(path))
    assert isinstance(taken, reference.PythonFile)
    assert set(taken.dims) | set(taken.ranges) <= set(taken.functions)
    for shape in ((3, 5), (7, 0), (0, 7)):
        assert taken.functions["softmax"](np.ones(shape, "f4")).sum() == pytest.approx(shape[0] if shape[1] else 0)


def test_keys_of_settings_are_described() -> None:
    text = (ROOT / "docs" / "aot-toml.md").read_text(encoding="utf-8")
    assert not [key for key in wishes.KEYS if f"`{key}`" not in text]
    assert not [value for value in COMPRESS if f'`"{value}"`' not in text]
