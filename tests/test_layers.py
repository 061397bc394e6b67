"""The rules that keep the parts apart, read from the syntax of every module."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "aot"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

STAGES = {
    "sources": ("aot.sources",),
    "lower": ("aot.lower",),
    "binary": ("aot.fatbins.binary", "aot.fatbins.ptxas"),
    "host": ("aot.host",),
    "metadata": ("aot.packages.metadata",),
    "package": ("aot.packages.package",),
    "wheel": ("aot.wheels.wheel",),
}
"""Stage -> its modules. No stage knows another one; the order is the pipeline's business."""
ORDER = (
    *("aot.pipeline", "aot.finishing", "aot.onesource", "aot.crashplace", "aot.plan", "aot.split"),
    *("aot.fatbins.images", "aot.fatbins.refusal"),
    *("aot.packages.jobresults", "aot.packages.splitpackage", "aot.wheels.packing"),
)
"""What may import stages: the pipeline, its half inside a worker and the search for what that dies of, the images there
and their errors, the plan, which reads the sources, the step that knows whether a wheel must be built at all, several
pipelines side by side, and what keeps of a source what the package says of it."""
FRONT = (
    *("aot.cli", "aot.__main__", "aot.pipeline", "aot.commands", "aot.tuning", "aot.verifying"),
    *("aot.reporting.report", "aot.reporting.terminal"),
)
"""What stages and doors never import."""
DOORS = {
    "mlir": ("aot.mlir", "aot.lower"),
    "subprocess": ("aot.process",),
    "ctypes": ("aot.driver", "aot.verifying.cudamemory"),
}
"""Module of the outside world -> who may import it."""
WRITERS = frozenset(
    {"write_text", "write_bytes", "mkdir", "unlink", "rmdir", "rmtree", "touch", "symlink_to", "copytree"}
)
SCRATCH = frozenset({"aot.fatbins.ptxas"})
"""Modules that fill a scratch folder which their caller made and removes."""
ENDERS = ("aot.cli", "aot.engine.ninjaclient", "aot.engine.forked", "aot.engine.foreman")
"""Programs of their own, and the door to forks."""
MAX_MODULE, MAX_FUNCTION, MAX_TEMPLATE = 300, 40, 60


@functools.cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


def imports(name: str) -> Iterator[str]:
    """Full names of everything a module imports, at its top or inside its functions, except for typing only."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    typing_only = {
        id(inner)
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree_of(name)):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parts, node.module or ""]).rstrip(".") if node.level else node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in MODULES else base


@functools.cache
def calls(name: str) -> tuple[tuple[str, int], ...]:
    found = [node for node in ast.walk(tree_of(name)) if isinstance(node, ast.Call)]
    return tuple((ast.unparse(node.func), node.lineno) for node in found)


def imports_keep_to_their_layer(name: str) -> None:
    used = set(imports(name))
    for outside, allowed in DOORS.items():
        if any(each.split(".")[0] == outside for each in used):
            assert within(name, allowed), f"{name} imports {outside}; only {allowed} may"
    own = next((stage for stage, modules in STAGES.items() if within(name, modules)), None)
    for each in used:
        for stage, modules in STAGES.items():
            if within(each, modules) and stage != own:
                assert name in ORDER, f"{name} imports {each} of the stage {stage}"
        if own is not None:
            assert not within(each, FRONT), f"the stage {own} imports {each}"


def the_disk_is_written_through_its_door(name: str) -> None:
    if name in SCRATCH | {"aot.fileset"} or "tempfile" in set(imports(name)):  # scratch folders are their maker's own
        return
    for function, line in calls(name):
        assert function.rpartition(".")[2] not in WRITERS, f"{name}:{line} calls {function}"
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "io.open"):
            mode = "".join(ast.unparse(argument) for argument in node.args[1:2])
            assert not re.search("[wax+]", mode), f"{name}:{node.lineno} opens a file for writing"


def printing_and_exits_have_one_place(name: str) -> None:
    for function, line in calls(name):
        assert function != "print", f"{name}:{line} prints"
        if function in ("sys.exit", "exit", "os._exit"):
            assert name in ENDERS, f"{name}:{line} ends the process"


def no_error_is_swallowed_or_left_for_later(name: str) -> None:
    text = MODULES[name].read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", text)
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{name}:{node.lineno} catches everything"
            silent = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
            assert not silent, f"{name}:{node.lineno} swallows an error"


def modules_and_functions_are_small_and_described(name: str) -> None:
    path, tree = MODULES[name], tree_of(name)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_MODULE, f"{name} has {len(lines)} lines"
    assert ast.get_docstring(tree), f"{name} has no docstring"
    assert "from __future__ import annotations" in lines, name
    assert path.stem not in ("utils", "util", "common", "helpers", "base"), name
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= MAX_FUNCTION, f"{name}.{node.name} has {size} lines"


RULES = (
    imports_keep_to_their_layer,
    the_disk_is_written_through_its_door,
    printing_and_exits_have_one_place,
    no_error_is_swallowed_or_left_for_later,
    modules_and_functions_are_small_and_described,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_to(rule: Callable[[str], None]) -> None:
    for name in MODULES:
        rule(name)


def test_every_module_is_checked() -> None:
    assert {"aot", "aot.model", "aot.errors", "aot.cli"} <= set(MODULES)
    assert not [
        path for path in (ROOT / "templates").rglob("*.in") if len(path.read_text().splitlines()) > MAX_TEMPLATE
    ]


def test_generated_packages_do_not_know_the_tool() -> None:
    pattern = re.compile(r"^\s*(?:import|from)\s+(?:aot|mlir)\b", re.MULTILINE)
    for path in (ROOT / "templates").rglob("*"):
        if path.is_file() and path.parent.name != "__pycache__":
            assert not pattern.search(path.read_text(encoding="utf-8")), path
