"""The package in front of split ones (``--split-archs``), met where a package with code is needed.

In: a folder, or the table of parts that such a package has in place of a manifest. Out: an error that names the parts.
"""

from __future__ import annotations

import ast
from pathlib import Path

from aot import fileset
from aot.errors import UsageError

CONTENTS = "_contents.py"
"""Its file that lists the parts (``templates/split/contents.py.in``)."""


def check(folder: Path, name: str) -> None:
    """UsageError where ``folder``, which the user knows by ``name``, is such a package or holds one."""
    for file in (folder / CONTENTS, *folder.glob(f"*/{CONTENTS}")):
        if file.is_file():
            raise refusal(name, fileset.read_file(file))


def refusal(path: str, contents: bytes) -> UsageError:
    """Why ``path`` will not do, and what would."""
    parts = next(
        ast.literal_eval(each.value)
        for each in ast.parse(contents).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PARTS"
    )
    modules = [module for module, _ in parts.values()]
    return UsageError(
        f"'{path}' is the package in front of split ones and has no code itself",
        hint=f"name a package that has: {', '.join(modules)}",
    )
