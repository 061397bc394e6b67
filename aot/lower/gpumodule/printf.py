"""Format strings of gpu.printf: checked against the arguments, and made to fit them.

In: a module with gpu.printf ops. Out: the same module; each conversion has the length of its argument
(``%d`` of an index becomes ``%lld``), and integers below 32 bits are widened, because the device's vprintf
takes arguments as C does, while MLIR passes them as they are.

>>> conversions("%5.2f of %d%%")
(Conversion(start=0, text='%5.2f', kind='f'), Conversion(start=9, text='%d', kind='d'))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.errors import Diagnostic, LoweringError

SIGNED, UNSIGNED, FLOATS, POINTERS = "di", "uoxXc", "fFeEgGaA", "ps"
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?P<precision>\.(?:\*|\d*))?(?P<length>hh|h|ll|l|L|q|j|z|t)?(?P<kind>.?)",
    re.DOTALL,
)
MAX_ARGUMENTS = 32
"""What the device's printf takes."""


@dataclass(frozen=True)
class Conversion:
    """One place of a format where an argument goes."""

    start: int
    """Index of the ``%``."""
    text: str
    kind: str
    """Its letter."""


def conversions(text: str) -> tuple[Conversion, ...]:
    """All conversions of a format, ``%%`` left out."""
    found = (Conversion(match.start(), match.group(), match.group("kind")) for match in _CONVERSION.finditer(text))
    return tuple(each for each in found if each.text != "%%")


def normalise(module: mlir.Module) -> None:
    """Check and adapt every gpu.printf of the module; all faults are reported together."""
    faults = [fault for op in mlir.walk(module) if op.name == "gpu.printf" for fault in _normalise(op)]
    if faults:
        raise LoweringError(
            f"{module.context.aot_path}: gpu.printf with a format that does not fit its arguments",
            diagnostics=tuple(faults),
        )


def _normalise(op: mlir.Operation) -> list[Diagnostic]:
    text = ir.StringAttr(op.attributes["format"]).value
    places, arguments = conversions(text), list(op.operands)
    if len(places) != len(arguments):
        return [mlir.diagnostic_at(op, f"the format has {len(places)} conversions for {len(arguments)} arguments")]
    if len(arguments) > MAX_ARGUMENTS:
        return [mlir.diagnostic_at(op, f"{len(arguments)} arguments; the device prints at most {MAX_ARGUMENTS}")]
    faults = [
        mlir.diagnostic_at(op, f"argument {number} of type '{value.type}': {fault}")
        for number, (place, value) in enumerate(zip(places, arguments, strict=True), 1)
        if (fault := _fault(place, value.type))
    ]
    if not faults:
        op.attributes["format"] = ir.StringAttr.get(_fitted(text, places, arguments))
        for number, (place, value) in enumerate(zip(places, arguments, strict=True)):
            op.operands[number] = _widened(op, value, signed=place.kind in SIGNED)
    return faults


def _fault(place: Conversion, type_: ir.Type) -> str:
    if "*" in place.text:
        return f"'{place.text}': a width or precision from an argument is not possible on the device"
    if place.kind in SIGNED + UNSIGNED and place.kind:
        if isinstance(type_, ir.IndexType) or (isinstance(type_, ir.IntegerType) and type_.width <= 64):
            return ""
        return f"'{place.text}' prints integers"
    if place.kind in FLOATS and place.kind:
        fits = isinstance(type_, ir.FloatType) and type_.width >= 16
        return "" if fits else f"'{place.text}' prints floating-point numbers"
    if place.kind in POINTERS and place.kind:
        return "" if str(type_).startswith("!llvm.ptr") else f"'{place.text}' prints pointers"
    return f"'{place.text}' is no conversion of the device's printf"


def _fitted(text: str, places: tuple[Conversion, ...], arguments: list[mlir.Value]) -> str:
    parts, end = [], 0
    for place, value in zip(places, arguments, strict=True):
        parts += [text[end : place.start], _with_length(place, value.type)]
        end = place.start + len(place.text)
    return "".join([*parts, text[end:]])


def _with_length(place: Conversion, type_: ir.Type) -> str:
    match = _CONVERSION.match(place.text)
    assert match is not None
    wide = place.kind in SIGNED + UNSIGNED and (isinstance(type_, ir.IndexType) or type_.width > 32)
    start = match.start("length") if match.group("length") else match.start("kind")
    return place.text[:start] + ("ll" if wide else "") + place.kind


def _widened(op: mlir.Operation, value: mlir.Value, *, signed: bool) -> mlir.Value:
    if not isinstance(value.type, ir.IntegerType) or value.type.width in (32, 64):
        return value
    wider = ir.IntegerType.get_signless(32 if value.type.width < 32 else 64)
    # A bit is 0 or 1, never -1.
    extend = arith.ExtSIOp if signed and value.type.width > 1 else arith.ExtUIOp
    with ir.InsertionPoint(op), op.location:
        return extend(wider, value).result
