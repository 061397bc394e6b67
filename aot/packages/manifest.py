"""Whether a manifest has the form that its readers count on: packages come from anywhere, and may be damaged.

In: a file's bytes. Out: the document, or an error that says what is wrong. Fields that nobody reads are not looked at:
new ones come without notice.

>>> problem({"schema": 1, "package": 3})
'package is 3, not a text'
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aot.errors import AotError

FILE, SCHEMA = "aot.json", 1

_LONGEST = 40
"""Characters of a wrong value that are shown."""
_EACH = "*"
"""Key of a table whose own keys may be any."""
_WORDS = {str: "a text", int: "a whole number", bool: "true or false", dict: "a table", list: "a list"}

_ARRAY = {
    "kind": ("tensor", "memref"),
    "dtype": str,
    "type": str,
    "shape": [(int, None)],
    "layout": ({"strides": [(int, None)], "offset": (int, None)}, None),
}
_SCALAR = {"kind": "scalar", "dtype": str, "type": str}
_ARGUMENT = {"name": str, "role": str}
_ARGUMENTS = ({**_ARGUMENT, **_ARRAY}, {**_ARGUMENT, **_SCALAR})
_RESULT = {"argument": (int, None), "extents": ([(int, str, None)], None)}
_TERM = {"factor": int, "dims": [[int]]}
_FUNCTION = {
    "name": str,
    "level": str,
    "gpu": bool,
    "cpu": bool,
    "args": [_ARGUMENTS],
    "results": [({**_RESULT, **_ARRAY}, {**_RESULT, **_SCALAR})],
    "flags": [str],
    "checked": bool,
    "cost": ({_EACH: ([_TERM], None)}, None),
    "doc": str,
}
_USAGE = {
    "registers": int,
    "static_shared_bytes": int,
    "local_bytes": int,
    "spill_bytes": int,
    "max_threads": int,
    "code_bytes": int,
}
_TILING = {
    "class": str,
    "region": int,
    "tile": {_EACH: (int, str)},
    "remarks": [str],
    "grid": [str],
    "block": [str],
}
_KERNEL = {
    "name": str,
    "module": str,
    "symbol": str,
    "callable": bool,
    "params": [_ARGUMENTS],
    "grid": ([(int, str)], None),
    "block": ([(int, str)], None),
    "required_block": ([int], None),
    "shared": (int, str, None),
    "cluster": ([int], None),
    "cooperative": bool,
    "programmatic": bool,
    "priority": (int, None),
    "schedule": str,
    "tiling": (_TILING, None),
    "targets": [str],
    "usage": {_EACH: _USAGE},
    "doc": str,
}
_MODULE = {
    "name": str,
    "source_sha256": str,
    "blob_bytes": int,
    "blob_sha256": (str, None),
    "images": [{"requested": str, "target": str, "kind": str, "bytes": int, "ptx_version": str}],
    "host": [str],
    "cpu": {_EACH: [str]},
    "functions": [_FUNCTION],
    "kernels": [_KERNEL],
    "skipped": [str],
    "notes": [str],
    "general": [str],
    "remarks": [str],
    "passthrough": [str],
}
_MANIFEST = {
    "schema": int,
    "package": str,
    "distribution": str,
    "version": str,
    "toolchain": {"aot": str, "mlir": str, "ptxas": str, "min_driver_cuda": int},
    "modules": [_MODULE],
    "left_out": [str],
}


def read(data: bytes, place: str) -> Mapping[str, Any]:
    """The manifest of ``data``; AotError, with ``place``, when it is none, or one of another schema."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AotError(f"'{place}': {FILE} is damaged: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise AotError(
            f"'{place}': the manifest has schema {schema!r}; this aot reads {SCHEMA}", hint="use a newer aot"
        )
    wrong = problem(document)
    if wrong:
        raise AotError(f"'{place}': {FILE} is damaged: {wrong}")
    return dict(document)


def problem(document: object) -> str:
    """What is wrong with a document; empty when nothing is."""
    return _problem(document, _MANIFEST, "")


def _problem(value: object, form: Any, place: str) -> str:
    if isinstance(form, tuple):
        wrong = [_problem(value, each, place) for each in form]
        return wrong[0] if all(wrong) else ""
    if form is None:
        return "" if value is None else f"{place} is {_shown(value)}, not null"
    if isinstance(form, str):
        return "" if value == form else f'{place} is {_shown(value)}, not "{form}"'
    kind = form if isinstance(form, type) else type(form)
    # In Python, True is a whole number.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return f"{place or FILE} is {_shown(value)}, not {_WORDS[kind]}"
    if isinstance(value, list):
        return _first(_problem(each, form[0], f"{place}[{i}]") for i, each in enumerate(value))
    if isinstance(value, dict):
        return _first(_field(value, key, kind, place) for key, kind in _keys(value, form))
    return ""


def _keys(table: Mapping[str, object], form: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, form[_EACH]) for key in table] if _EACH in form else list(form.items())


def _field(table: Mapping[str, object], name: str, form: Any, place: str) -> str:
    where = f"{place}.{name}".lstrip(".")
    return _problem(table[name], form, where) if name in table else f"{where} is missing"


def _first(problems: Iterator[str]) -> str:
    return next(filter(None, problems), "")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
