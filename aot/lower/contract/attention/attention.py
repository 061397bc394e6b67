"""Attention written with tensor operations becomes one kernel.

In: a function after buffers are settled. Out: for each chain of operations that is attention (``attentionchain``) a
launch in a branch of host code: of ``decode`` for few queries, else of ``flash`` on Hopper, else of ``mmaflash``. The
chain itself goes to the last branch, for the schedules after this: for images without the kernels, and for arrays that
copies of 16 bytes cannot read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import scf

from aot import mlir
from aot.lower.analysis import views
from aot.lower.contract.attention import (
    attentionchain,
    causal,
    decode,
    divided,
    flash,
    flashpick,
    hopperdecode,
    mmaflash,
    scaled,
    sight,
)
from aot.lower.contract.attention.attentionchain import Chain
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.flashwarp import SIXTEEN
from aot.lower.contract.attention.onlinesoftmax import LOW, Scale
from aot.lower.contract.attention.placesums import Scores
from aot.lower.contract.choice import AMPERE, HOPPER, Images
from aot.lower.contract.products import extents, forming, kinds, problem
from aot.lower.contract.products.forming import Groups
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma import wgmmafit
from aot.lower.fast.regions import hazards
from aot.lower.fast.wished import UnfitError
from aot.lower.hostmodule import rtcalls
from aot.settings.wishes import DECODE, FLASH, HOPPER_DECODE, MMA_FLASH

_CHUNK = 8
"""Elements of 16 bytes."""
_MOST_HOPPER, _MOST_WIDTH = 128, 256
"""Elements of a query or a value."""
_MOST_LOOPS = 3
_NEAR = 128
"""Keys behind a query that few queries need not share among blocks."""
_VIEWS = ("memref.reinterpret_cast", "memref.extract_strided_metadata")


def emit(function: ir.Operation, tensors: Collection[ir.Value], images: Images, pick: Pick) -> int:
    """Emit kernels for all chains of a function, with tiles of its Pick; their number. UnfitError for wrong sizes."""
    done = 0
    for op in [each for each in mlir.walk(function) if _is_candidate(each)]:
        chain = attentionchain.find(op, tensors) if op.parent is not None else None
        done += chain is not None and _emit(chain, images, pick)
    return done


def _is_candidate(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and len(op.operands) == 3 and not mlir.inside_kernel(op)


def _emit(chain: Chain, images: Images, pick: Pick) -> bool:
    last = chain.output.last
    with ir.InsertionPoint(last), last.location:
        loops = _loops(chain)
        job = _job(chain, loops) if loops else None
        if loops is None or job is None:
            return False
        few = _few(job, chain, loops)
        ways = [way for way in _ways(job, few, images, pick) if not isinstance(way.condition, bool)]
        if not ways:
            return False
        _move(chain, _branches(ways))
    return True


@dataclass(frozen=True, eq=False)
class _Way:
    """A kernel, and when it may run."""

    condition: ir.Value | bool
    emit: Callable[[], None]


def _ways(job: Attention, few: Attention | None, images: Images, pick: Pick) -> list[_Way]:
    """Kernels for a job, the best one first; ``few``: the same with as many queries of the same keys as there are."""
    kind, served = kinds.of(job.scores), images.least(AMPERE)
    if kind is None or kind.bytes != 2 or served is False:
        return []
    need = "" if served else "sm_80"
    found: dict[str, _Way] = {}
    takes_hopper = images.some(HOPPER) and max(job.depth, job.width) <= _MOST_HOPPER
    is_few = False if few is None else extents.at_most(few.scores.m, decode.MOST_ROWS)
    if few is not None and is_few is not False:
        _refuse_misfits(few, pick, {HOPPER_DECODE: hopperdecode.misfit, DECODE: decode.misfit})
        if takes_hopper:
            some = problem.all_of([is_few, _hopper_condition(few)])
            found[HOPPER_DECODE] = _Way(some, lambda: hopperdecode.launch(few, kind, pick))
        some = problem.all_of([is_few, _condition(few, need)])
        found[DECODE] = _Way(some, lambda: decode.launch(few, kind, need, pick))
    if is_few is not True:
        _refuse_misfits(job, pick, {FLASH: flashpick.misfit, MMA_FLASH: mmaflash.misfit})
        if takes_hopper:
            staged = replace(job, staged=flashpick.stages_results(job))
            found[FLASH] = _Way(_hopper_condition(job), lambda: flash.launch(staged, pick))
        found[MMA_FLASH] = _Way(_condition(job, need), lambda: mmaflash.launch(job, kind, need, pick))
    return [way for schedule, way in found.items() if pick.leaves(schedule)]


def _refuse_misfits(job: Attention, pick: Pick, misfits: Mapping[str, Callable[[Attention, Pick], str]]) -> None:
    """UnfitError if the user wants a kernel with sizes that are not possible."""
    misfit = misfits.get(pick.wish.schedule) if pick.wish else None
    reason = misfit(job, pick) if misfit else ""
    if reason:
        raise UnfitError(reason)


def _branches(ways: Sequence[_Way]) -> ir.Operation:
    """Emit the kernels, each under its condition; the end of the last branch, where none of them runs."""
    way, *others = ways
    branch = scf.IfOp(way.condition, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        way.emit()
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        end = _branches(others) if others else None
        last = scf.YieldOp([])
    return last if end is None else end


def _loops(chain: Chain) -> tuple[Groups, Groups] | None:
    """Loops of the scores, and the same ones of the output, if they are those of an attention."""
    one, other = chain.scores.contraction, chain.output.contraction
    order = tuple((loop,) for loop in (*one.batch, *one.m[:-1]))
    if len(one.m) < 1 or len(one.n) != 1 or len(one.k) != 1 or len(other.n) != 1 or len(other.k) != 1:
        return None
    if one.left.windows or other.left.windows:
        return None
    # The weights' indices are the scores': they say which loop of one is which of the other.
    same = {loop: other.left.loops[axis] for axis, loop in enumerate(one.out.loops)}
    if same[one.n[0]] != other.k[0] or same[one.m[-1]] not in other.m or len(order) > _MOST_LOOPS:
        return None
    if set(other.batch) | set(other.m) != {same[loop] for loop in (*one.batch, *one.m)}:
        return None
    around = tuple((same[loop],) for (loop,) in order)
    return Groups(order, (one.m[-1],), one.n, one.k), Groups(around, (same[one.m[-1]],), other.n, other.k)


def _together(chain: Chain, apart: tuple[Groups, Groups]) -> tuple[Groups, Groups]:
    """The loops with queries of the same keys as one, if they lie one after the other everywhere."""
    one, other = (forming.groups(each, every=False) for each in (chain.scores, chain.output))
    if isinstance(one, str) or isinstance(other, str):
        return apart
    same = {
        loop: chain.output.contraction.left.loops[axis] for axis, loop in enumerate(chain.scores.contraction.out.loops)
    }
    batch, m = tuple(tuple(same[loop] for loop in group) for group in one.batch), tuple(same[loop] for loop in one.m)
    return (one, other) if (batch, m) == (other.batch, other.m) else apart


def _few(job: Attention, chain: Chain, loops: tuple[Groups, Groups]) -> Attention | None:
    """The same for few queries, of as many heads as read the same keys; None where these see few keys, too.

    Memory bounds it: keys beside those that one of them sees are left out, and all others compared as in the source.
    """
    seen = job.sight
    if seen is not None and seen.offset is None and seen.last < _NEAR:
        return None
    few = _job(chain, _together(chain, loops), sees_all=True)
    return few if few is None or seen is None else replace(few, span=seen.span(few.scores), needs=seen.conditions)


def _job(chain: Chain, loops: tuple[Groups, Groups], *, sees_all: bool = False) -> Attention | None:
    """The work of a chain with these loops; ``sees_all``: without a word about keys that queries do not see."""
    scores, output = forming.problem(chain.scores, loops[0]), forming.problem(chain.output, loops[1])
    if chain.divisor is not None:
        output = replace(output, epilogue=divided.undivided(output.epilogue, chain.divisor))
    begins = scores.epilogue.initial is not None
    band = None if begins or sees_all else causal.visible(scores.epilogue, _places(scores))
    depth, width = scores.k.static, output.n.static
    if depth is None or width is None or not all(_is_width(each) for each in (depth, width)):
        return None
    if begins:
        return None
    seen = None if band is None else sight.of(band, scores)
    epilogue, scale = scaled.without(scores.epilogue if band is None else band.epilogue)
    scaling = Scale(scale * math.log(chain.base), low=epilogue.may_exceed(LOW))
    job = Attention(
        *(scores, output, _whole(depth), _whole(width), epilogue, scaling, seen),
        zeros=chain.zeros,
        staged=False,
        needs=() if seen is None else seen.conditions,
    )
    return job if _fits(job) else None


def _places(scores: Problem) -> Scores:
    return Scores(len(scores.batch), single=scores.m.static == 1)


def _is_width(number: int) -> bool:
    """Whether kernels take so many elements of a query or a value: whole copies."""
    return number % _CHUNK == 0 and 0 < number <= _MOST_WIDTH


def _whole(number: int) -> int:
    """Elements with the zeros that instructions take behind them."""
    return -(-number // SIXTEEN) * SIXTEEN


def _fits(job: Attention) -> bool:
    """Whether types and layouts are those that the kernel knows."""
    scores, output = job.scores, job.output
    factors = (scores.left, scores.right, output.right)
    kinds = {str(each.element) for each in factors}
    if kinds not in ({"f16"}, {"bf16"}) or {str(scores.accumulator), str(output.accumulator)} != {"f32"}:
        return False
    if any(any(op.name != "arith.extf" for op in each.conversions) for each in (*factors, output.left)):
        return False
    if scores.epilogue.initial is not None or output.epilogue.initial is not None:
        return False
    if str(ir.MemRefType(scores.epilogue.stores[0][0].memory.type).element_type) not in {"f32", *kinds}:
        return False
    return scores.left.along_k and (scores.right.along_k or scores.right.turned) and output.right.turned


def _condition(job: Attention, need: str) -> ir.Value | bool:
    """Whether the kernel of ``mma.sync`` may run, all things known at the call considered."""
    scores, output = job.scores, job.output
    factors = (scores.left, scores.right, output.right)
    wide = [each.has_address and problem.is_wide(each.memory, each.strides) for each in factors]
    served = [rtcalls.serves(need)] if need else []
    return problem.all_of([*served, *_extents(job), *wide])


def _extents(job: Attention) -> list[ir.Value | bool]:
    scores = job.scores
    return [*(wgmmafit.is_positive(each) for each in (scores.m, scores.n, *scores.batch)), *job.needs]


def _hopper_condition(job: Attention) -> ir.Value | bool:
    """The same for Hopper's."""
    scores, output = job.scores, job.output
    factors = [wgmmafit.fits_factor(each) for each in (scores.left, scores.right, output.right)]
    pairs = [wgmmafit.has_pairs(output, output.epilogue.arrays())]
    if job.bounded:
        # What the scores are stored in is not there when the kernel runs.
        pairs.append(wgmmafit.has_pairs(scores, job.epilogue.read()))
    return problem.all_of([rtcalls.serves(flash.NEED), *_extents(job), *factors, *pairs])


def _drop_views(memory: ir.Value) -> None:
    """Erase views of some memory that nothing uses: they were made with the problems, for what is not stored now."""
    for use in list(memory.uses):
        user = use.owner.operation
        if user.name in hazards.SAME_ORDER:
            _drop_views(user.results[0])
        elif user.name in _VIEWS and not any(list(result.uses) for result in user.results):
            user.erase()


def _move(chain: Chain, end: ir.Operation) -> None:
    """The chain, with its memory, goes to the branch where the kernel does not run."""
    members = set(chain.operations)
    own: list[ir.Operation] = []
    for op in chain.operations:
        for value in op.operands:
            if views.is_memref(value):
                _drop_views(hazards.whole(value))
                own += [each for each in hazards.only_used_by(hazards.whole(value), members) if each not in own]
    block = [each.operation for each in chain.output.last.block.operations]
    moved = [op for op in block if op in members or op in own]
    late = [op for op in moved if op.name == "memref.dealloc"]
    for op in [*(op for op in moved if op not in late), *late]:
        op.move_before(end)
