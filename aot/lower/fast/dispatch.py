"""Linalg on buffers becomes kernels, by the class of what belongs together.

In: functions after buffers are settled. Out: the same with ``gpu.launch`` in place of the linalg operations that a fast
schedule covers, and for each that none covers the reason; those stay for the general schedule.

Classes, by the loops of a region: rows (reductions of the innermost loops, and what surrounds them), one row in all,
columns (reductions of the outermost loops), transposes (operands that run along another loop), pointwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk, overlap, views
from aot.lower.fast import candidates, pointwise, table
from aot.lower.fast.columnwise import columns, totals, transposes
from aot.lower.fast.conditions import Conditions
from aot.lower.fast.region import COLUMN, FULL, PART, Member, Region, Source
from aot.lower.fast.regions import bodyloads, forming, gathered, places
from aot.lower.fast.regions.extents import Extents
from aot.lower.fast.regions.forming import Formed
from aot.lower.fast.regions.operations import ZERO
from aot.lower.fast.rowwise import rows, slices
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.fast.table import Candidate, Facts
from aot.lower.fast.wished import ASKED, Choice, UnfitError, Wished
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches
from aot.lower.source.signature import public_functions, tensor_arguments
from aot.lower.tolinalg import frontend
from aot.model import Function

_NAMED = ("broadcast", "copy", "fill", "map", "reduce", "transpose")
"""Named operations that are made generic: nothing else looks for them."""
_PERMUTED = "an operand is permuted"
_OFF = "all of it: fast schedules are off"
_WITH_CONTRACTION = "it belongs to an operation that only the general schedule covers"


@dataclass(frozen=True)
class General:
    """What is left to the general schedule: ``function: operation: reason``."""

    reasons: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()
    """What only goes with them."""


def emit(module: ir.Module, functions: Sequence[Function], wished: Wished) -> General:
    """Emit kernels for all regions that a class covers, as the user wishes; what is left."""
    heard = {function.name: function for function in wished.heard(functions)}
    if heard:
        generalize(module)
    off = [f"{each.name}: {_OFF}" for each in functions if each.name not in heard]
    left: dict[bool, list[str]] = {False: off, True: []}
    counts: dict[str, int] = {}
    for function in [each for each in public_functions(module) if mlir.symbol_name(each) in heard]:
        name = mlir.symbol_name(function)
        tensors = tensor_arguments(function, heard[name])
        gathered.rewrite(function)
        for block in _blocks(function):
            _sink_fills(block)
            formed = forming.form(block, Extents(), tensors)
            reasons = list(formed.refused)
            busy = _contracted(formed)
            for region in formed.regions:
                region.number = counts[name] = counts.get(name, 0) + 1
                choice = wished.choice(name, region)
                reason = _refusal(region, busy, choice)
                try:
                    reason = reason or _emit(region, choice)
                except UnfitError as problem:
                    reason = str(problem)
                if reason and choice.asks:
                    wished.refuse(name, region, reason)
                if reason and not choice.general:
                    reasons.append((region.last, reason))
            for op, reason in reasons:
                left[reason == _WITH_CONTRACTION].append(f"{name}: {_named(op)}: {reason}")
        if wished.dropped:
            wished.give_room(name, opwalk.named(function, "gpu.launch"))
    wished.finish(counts)
    return General(tuple(left[False]), tuple(left[True]))


def _refusal(region: Region, busy: set[ir.Value], choice: Choice) -> str:
    """Why a region is left to the general schedule before its class is known."""
    if choice.general:
        return ASKED
    return _WITH_CONTRACTION if not region.reductions and _feeds(region, busy) else ""


def _contracted(formed: Formed) -> set[ir.Value]:
    """Buffers of operations that reduce in a way that no class covers."""
    ops = [
        op for op, _ in formed.refused if "reduction" in str(op.attributes.get("iterator_types", "")) or _is_named(op)
    ]
    return {views.root(value) for op in ops for value in op.operands if views.is_memref(value)}


def _is_named(op: ir.Operation) -> bool:
    return bool(op.name != "linalg.generic")


def _feeds(region: Region, busy: set[ir.Value]) -> bool:
    """Whether a region begins or ends with a buffer of such an operation: the general schedule fuses them."""
    own = {views.root(store.memory) for store in region.stores}
    own |= {views.root(source.value) for source in region.sources() if views.is_memref(source.value)}
    return any(root in busy and overlap.is_own(root) for root in own)


def _named(op: ir.Operation) -> str:
    line = mlir.location_of(op).line
    return f"{op.name} (line {line})" if line else str(op.name)


def generalize(module: ir.Module) -> None:
    """Named operations of linalg that this module knows as generic ones."""
    frontend.generalize(module, _NAMED, "operations on buffers")


def _blocks(function: ir.Operation) -> list[ir.Block]:
    """Blocks of host code that hold linalg."""
    found: list[ir.Block] = []
    for op in mlir.walk(function):
        ours = op.name.startswith("linalg.") and not mlir.inside_kernel(op) and not _in_parallel_loop(op)
        if ours and op.block not in found and not op.parent.name.startswith("linalg."):
            found.append(op.block)
    return found


def _in_parallel_loop(op: ir.Operation) -> bool:
    return any(each.name in ("scf.parallel", "scf.forall", "affine.parallel") for each in mlir.parents(op))


def _sink_fills(block: ir.Block) -> None:
    """Put what only writes right before the first operation that uses its buffer."""
    ops = [each.operation for each in block.operations]
    for number in range(len(ops) - 1, -1, -1):
        op = ops[number]
        if op.name != "linalg.generic" or any(views.is_memref(value) for value in list(op.operands)[:-1]):
            continue
        if bodyloads.has(op.regions[0].blocks[0]):
            continue
        memory = op.operands[len(op.operands) - 1]
        if not views.is_memref(memory) or not overlap.is_own(views.root(memory)):
            continue
        user = next((each for each in ops[number + 1 :] if _touches(each, views.root(memory))), None)
        if user is not None and user.name == "linalg.generic":
            op.move_before(user)


def _touches(op: ir.Operation, root: ir.Value) -> bool:
    return any(
        views.is_memref(value) and views.root(value) == root
        for inner in mlir.walk(op)
        if inner.name not in views.VIEWS and inner.name != "memref.dim"
        for value in inner.operands
    )


def _emit(region: Region, choice: Choice) -> str:
    """Emit a region; or why no class covers it."""
    if not region.columns:
        return "a single element"
    if not region.stores and choice.asks:
        return "nothing that it writes is read"
    with ir.InsertionPoint(region.last), region.last.location:
        space = places.space(region)
        sources = {source: places.place(source, region, space) for source in region.sources()}
        stores = tuple((store, places.place(store, region, space)) for store in region.stores)
        job = Job(region, space, sources, stores)
        reason = _emit_class(job, choice) if region.stores else ""
    if reason:
        return reason
    for each in region.freed:
        each.move_after(region.last)
    for op in [member.operation.op for member in reversed(region.members)]:
        op.erase()
    for op in region.dead:
        op.erase()
    return ""


def _emit_class(job: Job, choice: Choice) -> str:
    """Emit by the region's class; or why there is none."""
    reason = _misfit(job)
    if reason == _PERMUTED and transposes.matches(job.region):
        choice.limit(["transpose"], ["width"])
        transposes.launch(job, choice.width("transpose", transposes.widest(job)))
        return ""
    if job.region.turned:
        reason = columns.misfit(job.region) or reason
    if not reason and job.region.turned:
        choice.limit(["columns"], ["width"])
        columns.launch(job, choice.width("columns", table.width(_facts(job))))
    elif not reason:
        _choose(job, choice)
    return reason


def _misfit(job: Job) -> str:
    """Why rows of the region are no good way to run it."""
    last = len(job.region.rows) + len(job.region.columns) - 1
    for place in [*job.places.values(), *(place for _, place in job.stores)]:
        if place.kind == PART and last in place.loops and place.loops[-1] != last:
            return _PERMUTED
    if any(not _reads_all(member, last + 1) for member in job.region.reductions):
        return "a contraction"
    return ""


def _reads_all(member: Member, rank: int) -> bool:
    """Whether a reduction reads something that has an element for each of its points."""
    nodes = [node for number, node in enumerate(member.nodes) if node and number not in member.operation.outputs]
    return not nodes or any(
        node.kind == FULL or (isinstance(node, Source) and len(set(node.loops) - {ZERO}) == rank) for node in nodes
    )


def _facts(job: Job) -> Facts:
    everything = [*job.places.values(), *(place for _, place in job.stores)]
    sizes = [rtcalls.storage_bytes(each.element) for each in everything if each.kind == FULL or each.inner]
    cached = sum(rtcalls.storage_bytes(job.places[source].element) for source in job.cached())
    return Facts(
        job.space.columns.static,
        max(sizes, default=4),
        cached,
        bool(job.region.reductions),
        job.space.rows.static,
        slices.fits(job.region),
        not cached and all(store.product.kind != FULL for store, _ in job.stores),
        sum(source.kind == COLUMN for source in job.places),
    )


def _choose(job: Job, choice: Choice) -> None:
    """Launches, in branches of host code where more than one tile may run."""
    facts = _facts(job)
    if not facts.reduces and facts.rows == 1:
        choice.limit(["pointwise"], ["width"])
        pointwise.launch(job, choice.width("pointwise", table.width(facts)))
        return
    total = facts.rows == 1 and facts.slices and totals.fits(job.region)
    if total and choice.schedule in ("", totals.NAME) and choice.is_only("width"):
        totals.launch(job, choice.width(totals.NAME, table.width(facts)))
        return
    conditions = Conditions(job)
    found = candidates.candidates(facts, choice, gaps=conditions.strict)
    plain = choice.width("pointwise", table.width(facts))
    branches.first((conditions.of(each), partial(_launch, job, each, plain)) for each in found)


def _launch(job: Job, candidate: Candidate, plain: int) -> None:
    """Launch the kernels of a candidate; ``plain``: elements of a vector where rows are no more than elements."""
    if candidate.sliced:
        slices.launch(job, candidate.tile)
    elif candidate.tile.name == "any-row" and not job.region.reductions:
        pointwise.launch(job, plain)
    else:
        rows.launch(job, candidate.tile)
