"""Contractions on buffers become kernels.

In: functions after buffers are settled. Out: the same with ``gpu.launch`` in place of contractions and of the
elementwise operations around them; what is no problem for a kernel stays, for the schedules after this one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from mlir import ir

from aot import mlir
from aot.lower.contract import choice, productwishes
from aot.lower.contract.attention import attention, attentionpick
from aot.lower.contract.choice import Images
from aot.lower.contract.products import contraction, forming, matching, unfused
from aot.lower.fast.regions.extents import Extents
from aot.lower.fast.wished import UnfitError, Wished
from aot.lower.source.signature import public_functions, tensor_arguments
from aot.model import Function
from aot.settings.wishes import ATTENTIONS, PRODUCTS, Dropped, Wish

_PARALLEL = ("scf.parallel", "scf.forall", "affine.parallel")


def emit(module: ir.Module, functions: Sequence[Function], images: Images, wished: Wished) -> None:
    """Emit kernels for all contractions of these functions that are covered, as the user wishes."""
    by_name = {function.name: function for function in functions}
    for function in public_functions(module):
        if mlir.symbol_name(function) not in by_name:
            continue
        wish = wished.one_of(PRODUCTS, mlir.symbol_name(function))
        reason = productwishes.impossible(wish) if wish else ""
        tensors = tensor_arguments(function, by_name[mlir.symbol_name(function)])
        unfused.rewrite(function, tensors)
        _emit_attention(function, tensors, images, wished)
        read = [(contraction.read(op, known := Extents()), known) for op in mlir.walk(function) if _is_candidate(op)]
        for found, known in read:
            if not isinstance(found, str):
                match = matching.match(found, known, tensors)
                made = _emit(match, images, None if reason else wish, wished.spilled(mlir.symbol_name(function)))
                wished.products |= {mlir.symbol_name(function)} if made else set()
        reason = reason or (productwishes.unmet(wish, function) if wish else "")
        if wish and reason:
            wished.problems.append(f"{wish.place}: {reason}")


def _emit_attention(function: ir.Operation, tensors: Collection[ir.Value], images: Images, wished: Wished) -> None:
    """The same for attention in one kernel."""
    name = mlir.symbol_name(function)
    wish = wished.one_of(ATTENTIONS, name)
    reason = attentionpick.impossible(wish) if wish else ""
    pick = attentionpick.pick(None if reason else wish, wished.dropped, name)
    try:
        done = attention.emit(function, tensors, images, pick)
    except UnfitError as problem:
        reason = str(problem)
        done = attention.emit(function, tensors, images, replace(pick, wish=None))
    wished.attention |= {name} if done else set()
    reason = reason or (attentionpick.unmet(wish, function) if wish else "")
    if wish and reason:
        wished.problems.append(f"{wish.place}: {reason}")


def _is_candidate(op: ir.Operation) -> bool:
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or mlir.inside_kernel(op):
        return False
    return not any(each.name in _PARALLEL or each.name.startswith("linalg.") for each in mlir.parents(op))


def _emit(match: matching.Match, images: Images, wish: Wish | None, spilled: tuple[Dropped, ...]) -> bool:
    groups = forming.groups(match)
    if isinstance(groups, str) or not choice.covers(match.contraction, images):
        return False
    with ir.InsertionPoint(match.last), match.last.location:
        choice.launch(replace(forming.problem(match, groups), asked=wish, spilled=spilled), images)
    for each in match.freed:
        each.move_after(match.last)
    for op in match.operations:
        op.erase()
    for op in match.dead:
        op.erase()
    return True
