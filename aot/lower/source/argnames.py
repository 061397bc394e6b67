"""What Python calls the arguments of a function or a kernel.

In: a function, its arguments, and the names that the source's text gives them. Out: one name for each, all different.

``func.func @f(%0: f32 {aot.name = "scale"}, %1: f32 loc("bias"), %x: f32)`` gives ``("scale", "bias", "x")``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir, naming
from aot.errors import SourceError

ATTRIBUTE = "aot.name"


def read(op: mlir.Operation, arguments: Sequence[mlir.Value], given: Sequence[str]) -> tuple[str, ...]:
    """Attribute, else name of the location, else the source text's, else ``arg0``."""
    chosen = [_chosen(op, number) for number in range(len(arguments))]
    twice = next((name for name in chosen if name and chosen.count(name) > 1), "")
    if twice:
        raise _error(op, f"{ATTRIBUTE}: two arguments are called '{twice}'")
    names: list[str] = []
    for number, value in enumerate(arguments):
        name = chosen[number] or _located(value) or (given[number] if number < len(given) else "") or f"arg{number}"
        while not chosen[number] and (name in names or name in chosen):
            name += "_"
        names.append(name)
    return tuple(names)


def attributes(op: mlir.Operation, number: int) -> list[ir.NamedAttribute]:
    """The attributes of one argument."""
    return list(op.attributes["arg_attrs"][number]) if "arg_attrs" in op.attributes else []


def _chosen(op: mlir.Operation, number: int) -> str:
    """The name that an attribute gives; empty without one."""
    attribute = next((each.attr for each in attributes(op, number) if each.name == ATTRIBUTE), None)
    if attribute is None:
        return ""
    name = str(attribute.value) if isinstance(attribute, ir.StringAttr) else ""
    if not name or naming.argument_names([name]) != (name,):
        raise _error(
            op,
            f"{ATTRIBUTE} = {attribute} of argument {number}: no Python name, or one that calls need for themselves",
        )
    return name


def _located(value: mlir.Value) -> str:
    """The location's name. Front ends put all sorts of things there ("aten::mul"); only a name is a name."""
    if not value.location.is_a_name():
        return ""
    name = str(value.location.name_str)
    return name if naming.argument_names([name]) == (name,) else ""


def _error(op: mlir.Operation, message: str) -> SourceError:
    return SourceError("an argument's name cannot be used", diagnostics=(mlir.diagnostic_at(op, message),))
