"""Names: what becomes of file stems, functions, arguments and packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aot import naming
from aot.errors import AotError, Diagnostic, UsageError

GOOD: list[tuple[Callable[[str], str], str, str]] = [
    (naming.namespace, "softmax", "softmax"),
    (naming.namespace, "soft-max.v2 b", "soft_max_v2_b"),
    (naming.namespace, "match", "match"),
    (naming.import_name, "Demo-Kernels", "demo_kernels"),
    (naming.import_name, "demo.kernels", "demo_kernels"),
    (naming.from_folder, "my kernels!", "my-kernels"),
    (naming.version, "1.0-RC1", "1.0rc1"),
]
BAD: list[tuple[Callable[[str], object], str, int, str]] = [
    (naming.namespace, "for", 1, "Python keyword"),
    (naming.namespace, "None", 1, "Python keyword"),
    (naming.namespace, "-a", 1, "leading underscore"),
    (naming.namespace, "a+b", 1, "not an ASCII Python identifier"),
    (naming.namespace, "torch", 1, "the package itself uses this name"),
    (naming.namespace, "x" * 300, 1, "its name cannot be used: it is longer than 200"),
    (naming.distribution, "a/b", 2, "no name for a package"),
    (naming.distribution, "-a", 2, "no name for a package"),
    (naming.distribution, "", 2, "no name for a package"),
    (naming.distribution, "class", 2, "Python keyword"),
    (naming.distribution, "json", 2, "hide an existing module"),
    (naming.distribution, "aot", 2, "hide an existing module"),
    (naming.distribution, "NumPy", 2, "hide an existing module"),
    (naming.distribution, "3d", 2, "identifier"),
    (naming.version, "one", 2, "'one' is no version"),
]


def ids(rows: list[tuple[Callable[[str], object], str, object, str]]) -> list[str]:
    return [f"{row[0].__name__}-{row[1][:20]}" for row in rows]


@pytest.mark.parametrize(("function", "given", "expected"), GOOD, ids=[f"{r[0].__name__}-{r[1]}" for r in GOOD])
def test_good_names(function: Callable[[str], str], given: str, expected: str) -> None:
    assert function(given) == expected


@pytest.mark.parametrize(
    ("function", "given", "code", "message"), BAD, ids=[f"{r[0].__name__}-{r[1][:9]}" for r in BAD]
)
def test_bad_names(function: Callable[[str], object], given: str, code: int, message: str) -> None:
    with pytest.raises(AotError, match=re.escape(message)) as caught:
        function(given)
    assert caught.value.exit_code == code
    assert caught.value.hint


def test_letters_of_a_folder_are_not_dropped() -> None:
    with pytest.raises(AotError, match="'zählen' is no name for a package: ASCII letters"):
        naming.distribution(naming.from_folder("zählen"))


ARGUMENTS = [
    (("a", "b"), ("a", "b")),
    (("0", "1"), ("arg0", "arg1")),
    (("x.1", "x-1"), ("x_1", "x_1_")),
    (("in", "stream", "out", "grid"), ("in_", "stream_", "out", "grid_")),
    (("priority", "cooperative", "programmatic"), ("priority_", "cooperative_", "programmatic_")),
    (("arg1", "0"), ("arg1", "arg1_")),
]


@pytest.mark.parametrize(
    ("given", "expected"), ARGUMENTS, ids=["plain", "numbers", "signs", "keywords", "launches", "taken"]
)
def test_argument_names(given: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert naming.argument_names(given) == expected


def test_functions_need_names_that_python_can_call() -> None:
    naming.check_functions("s", ["forward", "match", "main"], {})
    with pytest.raises(AotError) as caught:
        naming.check_functions("s", ["def", "a.b", "f", "f", "_hidden"], {"f": Diagnostic("", "s.mlir", 7)})
    said = [each.text().partition(": it")[0] for each in caught.value.diagnostics]
    again = "s.mlir:7: error: '@f': two functions or kernels of this source have this name"
    assert said[:3] == ["'@def'", "'@a.b'", again]
    assert said[3].startswith("'@_hidden'")


def test_a_function_stands_at_top_level_only_when_nothing_else_wants_the_name() -> None:
    functions = {"softmax": ["softmax", "forward", "rows"], "gelu": ["forward", "check"], "norm": ["gelu"]}
    assert naming.top_level(functions) == (("rows", "softmax"),)


def test_entry_symbols_that_would_meet_are_refused() -> None:
    naming.check_entries([("a", "f"), ("b", "f")])
    with pytest.raises(AotError, match="aot_entry_a__b__c"):
        naming.check_entries([("a__b", "c"), ("a", "b__c")])


@pytest.mark.parametrize("sign", list(""";,"|\\[]{}\n\t\udcff"""))
def test_folders_that_no_build_can_be_in(sign: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"its path has {sign!r}")) as caught:
        naming.place(f"/a{sign}b", builds=True)
    assert caught.value.hint == "choose another one with --work"


def test_folders_have_any_other_name() -> None:
    name = "a $#'()&%@:=*?~!<>^`+ü b"
    assert naming.place(name, builds=True) == Path.cwd() / name
    assert naming.place("a;b") == Path.cwd() / "a;b"
