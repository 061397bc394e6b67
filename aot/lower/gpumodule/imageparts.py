"""What of device code the targets share: kernels that the same images hold are lowered, and often translated, once.

In: a module with the source's joined gpu.module, and the forms of its images. Out: each form in parts.

>>> [len(each) for each in parts(isolated, [Form(("wgmma",), False), Form((), False)]).values()]     # doctest: +SKIP
[1, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot import mlir
from aot.lower.gpumodule import imageneeds, pieces


@dataclass(frozen=True)
class Form:
    """What of the common code depends on the target."""

    left_out: tuple[str, ...]
    """Kernels that its image cannot hold, or that are in another part of it."""
    old: bool
    """Our own kernels have to do without asynchronous copies."""


def parts(isolated: mlir.Module, forms: Sequence[Form]) -> dict[Form, tuple[Form, ...]]:
    """The parts of each form, in the order of the module; one where kernels are not translated without each other."""
    if len(set(forms)) < 2 or not pieces.are_apart(isolated):
        return {form: (form,) for form in forms}
    names = [mlir.symbol_name(op) for op in imageneeds.kernels(isolated)]
    groups: dict[tuple[bool, ...], set[str]] = {}
    for name in names:
        groups.setdefault(tuple(name not in form.left_out for form in forms), set()).add(name)
    others = {holders: tuple(name for name in names if name not in group) for holders, group in groups.items()}
    return {
        form: tuple(Form(left_out, form.old) for holders, left_out in others.items() if holders[number]) or (form,)
        for number, form in enumerate(forms)
    }
