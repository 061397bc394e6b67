"""Where in the user's source something is, and what MLIR says of it, as diagnostics of ours.

In: locations, operations and diagnostics of MLIR. Out: Locations and Diagnostics with the file as the user gave it, and
the text of the line.

>>> diagnostic_at(op, "size -3 is negative").text()                     # doctest: +SKIP
"sizes.mlir:3:8: error: size -3 is negative"
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from aot.errors import Diagnostic
from aot.model import Location

Context = Any
Operation = Any
"""MLIR's own classes; the bindings carry no types that mypy could check."""
_UNNAMED = "-"
"""File name that the bindings give to locations of a module parsed from memory."""
_IDLE_NOTES = ("see current operation", "Available dialects")
"""Starts of notes in which MLIR prints a whole operation or its manual: of no use beside file and line."""
_ILLEGAL = re.compile(r"failed to legalize operation '([^']+)'(?: that was explicitly marked illegal)?")
"""How conversions say that they cannot do it: nothing is illegal about it for a user."""
_UNDONE = r"'\1' cannot be lowered as it is written here: no code is made for its types or attributes"


def location_of(op: Operation) -> Location:
    """Where the operation stands in the user's source, as far as it is known."""
    return _location(op.operation.context, op.operation.location)


def diagnostic_at(op: Operation, message: str) -> Diagnostic:
    """A diagnostic of our own about ``op``, with its source line."""
    return placed(op.operation.context, location_of(op), message)


def quoted(ctx: Context, found: Diagnostic) -> Diagnostic:
    """The diagnostic with the text of its line, where that is one of the source's."""
    known = found.file == ctx.aot_path and 0 < found.line <= len(ctx.aot_lines)
    return replace(found, source_line=ctx.aot_lines[found.line - 1]) if known else found


def placed(ctx: Context, at: Location, message: str, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
    """A diagnostic with its source line."""
    return quoted(ctx, Diagnostic(message, at.file, at.line, at.column, notes=notes))


def _location(ctx: Context, location: Any) -> Location:
    """The first file location inside a location of any kind."""
    if location.is_a_file():
        name = location.filename
        file = name.value if hasattr(name, "value") else str(name)
        return Location(ctx.aot_path if file == _UNNAMED else file, location.start_line, location.start_col)
    if location.is_a_name():
        return _location(ctx, location.child_loc)
    if location.is_a_callsite():
        return _location(ctx, location.callee)
    if location.is_a_fused():
        places = (_location(ctx, each) for each in location.locations)
        return next((place for place in places if place.line), Location(ctx.aot_path))
    return Location(ctx.aot_path)


def told(ctx: Context, found: Any) -> Diagnostic:
    """What MLIR has told."""
    notes = tuple(told(ctx, note) for note in found.notes if not note.message.startswith(_IDLE_NOTES))
    return placed(ctx, _location(ctx, found.location), _ILLEGAL.sub(_UNDONE, found.message.strip()), notes)
