"""All names of a package, and the rule that keeps them apart.

In: stems of files, names of functions, the name the user asks for. Out: identifiers.

Uniqueness rule. A source's namespace is its file's stem with ``-``, ``.`` and blanks turned
into ``_``; two sources of one build never share a namespace. Inside a namespace all functions
and callable kernels have different names, which are ASCII Python identifiers, no keywords and
without a leading underscore. Entry symbols are ``aot_entry_<namespace>__<function>``: one
namespace with ``__`` inside could make two of them equal (``a__b`` + ``c``, ``a`` + ``b__c``), so the whole
set of entry symbols is checked too. A function stands at top level when exactly one source has
it and no namespace or name of the package itself is called so.

>>> namespace("soft-max")
'soft_max'
"""

from __future__ import annotations

import keyword
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from aot.errors import Diagnostic, PackageError, UsageError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
RESERVED = frozenset({"check", "for_device", "preload", "torch", "jax", "CudaError", "DeviceArray", "HostArray"})
"""Names that a generated package has, or will have, at its top level."""
CALL_WORDS = frozenset(
    {"stream", "out", "grid", "block", "shared", "cluster", "cooperative", "programmatic", "priority"}
)
"""Keywords of a call: an argument of that name would be ambiguous."""
MODULES = sys.stdlib_module_names | {"aot", "numpy", "torch", "jax", "cupy", "tvm_ffi"}
"""Modules that a package must not hide: Python's, and those that packages and their callers import."""
UNTOLD = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""What no path may have that is passed on: signs that are none, and what Python makes of bytes that are no UTF-8."""
UNBUILT = re.compile(r"""[;,"|\\\[\]{}]""")
"""What the path of a build may not have, either."""
MAX_NAME = 200
"""Longest file stem, symbol or distribution name in characters: file names end at 255 bytes."""


def namespace(stem: str) -> str:
    """The namespace that a source of this file stem gets; PackageError when it cannot have one."""
    name = spelled(stem)
    problem = _problem(name)
    if not problem and name in RESERVED:
        problem = "the package itself uses this name"
    if problem:
        said = f"'{stem}' cannot become the namespace '{name}'" if len(name) <= MAX_NAME else "its name cannot be used"
        raise PackageError(f"{said}: {problem}", hint="rename the file")
    return name


def spelled(stem: str) -> str:
    """A file stem written as a namespace, whether or not it can be one."""
    return re.sub(r"[-. ]", "_", stem)


def check_namespaces(paths: Mapping[str, Sequence[str]]) -> None:
    """PackageError when two files (namespace -> paths) want one namespace."""
    clashes = [
        f"'{name}': {', '.join(repr(p) for p in found)}" for name, found in sorted(paths.items()) if len(found) > 1
    ]
    if clashes:
        raise PackageError(
            "two sources with the same name: each needs a namespace of its own\n  " + "\n  ".join(clashes),
            hint="rename one of the files ('-', '.' and blanks count as '_')",
        )


def check_functions(source: str, names: Iterable[str], places: Mapping[str, Diagnostic]) -> None:
    """PackageError when the functions and callable kernels of a source cannot all be Python functions.

    ``places`` has diagnostics at them, whose messages are still to be said; of two of one name at the second.
    """
    problems, seen = [], set()
    for name in names:
        problem = _problem(name)
        if not problem and name in seen:
            problem = "two functions or kernels of this source have this name"
        if problem:
            problems.append(replace(places.get(name, Diagnostic("")), message=f"'@{name}': {problem}"))
        seen.add(name)
    if problems:
        raise PackageError(
            f"functions that cannot be called from Python in namespace '{source}'",
            hint="rename them, or make those that are not called from Python private",
            diagnostics=tuple(problems),
        )


def check_entries(functions: Iterable[tuple[str, str]]) -> None:
    """PackageError when two (namespace, function) pairs would have one symbol."""
    owners: dict[str, tuple[str, str]] = {}
    for pair in functions:
        first = owners.setdefault(entry_symbol(*pair), pair)
        if first != pair:
            raise PackageError(
                f"function '{first[1]}' of source '{first[0]}' and function '{pair[1]}' of source '{pair[0]}' "
                f"would share the symbol '{entry_symbol(*pair)}'",
                hint="rename one of them so that '__' does not meet",
            )


def entry_symbol(source: str, function: str) -> str:
    """Symbol of the function's entry in the host object."""
    return f"aot_entry_{source}__{function}"


def top_level(functions: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """(name, namespace) of functions (namespace -> names) that also stand at top level, sorted."""
    owners: dict[str, list[str]] = defaultdict(list)
    for source, names in functions.items():
        for name in names:
            owners[name].append(source)
    taken = RESERVED | set(functions)
    return tuple((name, found[0]) for name, found in sorted(owners.items()) if len(found) == 1 and name not in taken)


def argument_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Python parameter names from SSA names: ``%0`` becomes ``arg0``, ``%in`` becomes ``in_``; all different."""
    names: list[str] = []
    for index, text in enumerate(texts):
        name = re.sub(r"\W", "_", text, flags=re.ASCII)
        if not IDENTIFIER.fullmatch(name) or name.strip("_").isdigit():
            name = f"arg{index}"
        elif keyword.iskeyword(name) or name in CALL_WORDS - {"out"}:
            name += "_"
        while name in names:
            name += "_"
        names.append(name)
    return tuple(names)


def distribution(name: str) -> str:
    """The checked distribution name; UsageError when it is none."""
    if not DISTRIBUTION.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"'{name}' is no name for a package: ASCII letters, digits, '-', '_' and '.', and no sign at an end",
            hint="choose one with --name",
        )
    import_name(name)
    return name


def import_name(name: str) -> str:
    """The import name of a distribution name; UsageError when Python could not import it."""
    module = canonicalize_name(name).replace("-", "_")
    problem = _problem(module)
    if not problem and module in MODULES:
        problem = "it would hide an existing module"
    if problem:
        raise UsageError(
            f"package name '{name}' gives the import name '{module}': {problem}", hint="choose one with --name"
        )
    return module


def from_folder(folder: str) -> str:
    """The package name that a folder's name stands for; one with letters that no package may have stays as it is."""
    if any(each.isalpha() and not each.isascii() for each in folder):
        return folder
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder).strip("-._")


def place(said: str, *, builds: bool = False) -> Path:
    """The absolute path of a folder; UsageError when it cannot be written down, or CMake cannot build in it."""
    path = Path(said).absolute()
    found = UNTOLD.search(str(path)) or (UNBUILT.search(str(path)) if builds else None)
    if found is None:
        return path
    why = (
        "CMake, ninja or the linker reads it as its own"
        if found.re is UNBUILT
        else "it is no part of UTF-8 text in a line"
    )
    raise UsageError(
        f"the folder {str(path)!r} cannot be used: its path has {found[0]!r}: {why}",
        hint="choose another one with --work" if builds else "choose another one",
    )


def version(text: str) -> str:
    """The version in its normal form; UsageError when it is none."""
    try:
        return str(Version(text))
    except InvalidVersion as error:
        raise UsageError(f"'{text}' is no version", hint="versions look like 1.0, 2.1.3 or 1.0rc1 (PEP 440)") from error


def spdx(text: str) -> str:
    """The SPDX expression in its normal form; UsageError when it is none."""
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression as error:
        raise UsageError(
            f"'{text}' is no license: {error}",
            hint="licenses are SPDX expressions, such as Apache-2.0 or MIT OR BSD-3-Clause",
        ) from error


def _problem(name: str) -> str:
    """Why a name cannot be used from Python; empty when it can. Soft keywords (match, type) can."""
    if not IDENTIFIER.fullmatch(name):
        return "it is not an ASCII Python identifier"
    if keyword.iskeyword(name):
        return "it is a Python keyword"
    if name.startswith("_"):
        return "names with a leading underscore are reserved"
    if len(name) > MAX_NAME:
        return f"it is longer than {MAX_NAME} characters"
    return ""


def description(namespaces: Sequence[str], *, gpu_only: bool) -> str:
    """One line about a package that says nothing about itself."""
    return f"{'GPU functions' if gpu_only else 'Functions'}: {', '.join(namespaces)}."
