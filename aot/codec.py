"""Values of ``aot.model`` as JSON and back, since sources are compiled in processes of their own.

In: a frozen dataclass. Out: bytes that give an equal value. Bytes become base64, tuples lists.

>>> decode(encode(Location("a.mlir", 1, 2)), Location)
Location(file='a.mlir', line=1, column=2)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from cattrs import Converter
from cattrs.strategies import configure_tagged_union

from aot.model import ArrayType, Location, ScalarType, ValueType

__all__ = ["Location", "decode", "encode"]

Value = TypeVar("Value")


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(bytes, lambda data: base64.b64encode(data).decode("ascii"))
    converter.register_structure_hook(bytes, lambda text, _: base64.b64decode(text, validate=True))
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook(Path, lambda text, _: Path(text))
    configure_tagged_union(ArrayType | ScalarType, converter, tag_name="class")
    return converter


_CONVERTER = _converter()
assert ValueType == ArrayType | ScalarType


def encode(value: Any) -> bytes:
    """The value as JSON: sorted, in one line, the same bytes for the same value."""
    plain = _CONVERTER.unstructure(value, unstructure_as=type(value))
    return json.dumps(plain, sort_keys=True, ensure_ascii=False).encode("utf-8")


def prepare(kind: type[object]) -> None:
    """Make what writes values of a type, which takes longer than to write one."""
    _CONVERTER.get_unstructure_hook(kind)


def decode(data: bytes, kind: type[Value]) -> Value:
    """The value that ``encode`` wrote."""
    return _CONVERTER.structure(json.loads(data), kind)


class Line(str):
    """What ``line`` made: it stands in a document as it is."""


def document(plain: Mapping[str, object]) -> bytes:
    """A JSON file: the same values give the same bytes. A line for each value at the top, and for each in a list there.

    Indentation below that would cost a large package a second: only Python's slow encoder has it.
    """
    lines = (f"{line(key)}: {_value(plain[key])}" for key in sorted(plain))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _value(value: object) -> str:
    if not isinstance(value, list) or not value:
        return line(value)
    return "[\n" + ",\n".join(map(line, value)) + "\n]"


def line(value: object) -> Line:
    """A value as ``document`` has it."""
    return value if isinstance(value, Line) else Line(json.dumps(value, sort_keys=True, ensure_ascii=False))
