"""Symbols and references to them, in attributes of any depth.

In: an operation and a rule. Out: the operation with every reference below it rewritten by the rule.

>>> rename_references(module.operation, {("a",): ("b",)})               # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import count

from mlir import ir

from aot import mlir

Path = tuple[str, ...]
"""``("module", "kernel")`` for ``@module::@kernel``."""


def rename_references(root: mlir.Operation, names: Mapping[Path, Path]) -> None:
    """Rewrite references in all operations in ``root``, ``root`` included."""
    for op in mlir.walk(root) if names else ():
        for name in list(op.attributes):
            new = _renamed(mlir.attribute(op, name), names)
            if new is not None:
                op.attributes[name] = new


def rename(op: mlir.Operation, name: str) -> None:
    """Give an operation another symbol; references to it stay as they are."""
    op.attributes["sym_name"] = ir.StringAttr.get(name)


def unused(name: str, taken: Container[str]) -> str:
    """``name``, or ``name_1``, ``name_2``… when it is taken."""
    if name not in taken:
        return name
    return next(each for number in count(1) if (each := f"{name}_{number}") not in taken)


def path(attribute: ir.Attribute) -> Path:
    """The names that a reference consists of."""
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return (attribute.value,)
    return tuple(ir.SymbolRefAttr(attribute).value)


def _renamed(attribute: ir.Attribute | None, names: Mapping[Path, Path]) -> ir.Attribute | None:
    """The attribute with references rewritten; None when it has none to rewrite."""
    if isinstance(attribute, ir.FlatSymbolRefAttr | ir.SymbolRefAttr):
        new = names.get(path(attribute))
        return None if new is None else _reference(new)
    if isinstance(attribute, ir.ArrayAttr):
        found = [_renamed(each, names) for each in attribute]
        if not any(found):
            return None
        return ir.ArrayAttr.get([new or old for new, old in zip(found, attribute, strict=True)])
    if isinstance(attribute, ir.DictAttr):
        entries = {each.name: each.attr for each in attribute}
        changed = {name: new for name, old in entries.items() if (new := _renamed(old, names)) is not None}
        return ir.DictAttr.get(entries | changed) if changed else None
    return None


def _reference(names: Path) -> ir.Attribute:
    return ir.FlatSymbolRefAttr.get(names[0]) if len(names) == 1 else ir.SymbolRefAttr.get(list(names))
