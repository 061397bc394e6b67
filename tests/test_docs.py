"""What the documents name is there: files, modules, options of the command line, keys of ``aot.toml``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from aot import cli, wishes
from aot.configvalues import COMPRESS

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


def test_the_map_has_every_module_of_lowering() -> None:
    map_ = DESIGN[DESIGN.index("## Finding your way") : DESIGN.index("**Where a new thing goes.**")]
    named = set(re.findall(r"`(\w+)(?:\.py)?`", map_))
    modules = {path.stem for path in (ROOT / "aot" / "lower").glob("*.py")} - {"__init__"}
    missing = sorted(modules - named)
    assert not missing, "docs/design.md says of every module of aot/lower in which step it is"


@pytest.mark.parametrize("folder", ["lower/contract", "lower/fast", "verifying"])
def test_a_folder_says_what_each_module_is_for(folder: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / "aot" / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in (ROOT / "aot" / folder).glob("*.py")} - {"__init__"}
    assert not sorted(modules - set(re.findall(r"``(\w+)``", docstring)))


def test_files_of_a_folder_exist() -> None:
    """``fast/table.py``, ``ptxtext.py``: named from where the text is."""
    named = {
        path for each in quoted(ROOT / "docs" / "design.md") for path in re.findall(r"[\w/]+\.(?:py|c|h)\b(?!\.)", each)
    }
    known = {str(path.relative_to(ROOT)) for top in TOP.split("|") for path in (ROOT / top).rglob("*.*")}
    assert not [path for path in sorted(named) if not any(f"/{each}".endswith(f"/{path}") for each in known)]


def test_keys_of_settings_are_described() -> None:
    text = (ROOT / "docs" / "aot-toml.md").read_text(encoding="utf-8")
    assert not [key for key in wishes.KEYS if f"`{key}`" not in text]
    assert not [value for value in COMPRESS if f'`"{value}"`' not in text]
