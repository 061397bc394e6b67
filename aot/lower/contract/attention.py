"""Attention written with tensor operations becomes one kernel.

In: a function after buffers are settled. Out: for each chain of operations that is attention (``attentionchain``) a
launch of ``flash`` in a branch of host code, and the chain itself in the other one, for the schedules after this: for
images without the kernel, and for arrays that TMA cannot read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mlir import ir
from mlir.dialects import scf

from aot import mlir
from aot.lower import rtcalls, views
from aot.lower.contract import attentionchain, causal, flash, forming, problem, scaled, wgmmafit
from aot.lower.contract.attentionchain import Chain
from aot.lower.contract.flashjob import Attention
from aot.lower.contract.forming import Groups
from aot.lower.fast import hazards

_WIDTHS = (64, 128)
_MOST_LOOPS = 3
_VIEWS = ("memref.reinterpret_cast", "memref.extract_strided_metadata")


def emit(function: ir.Operation, tensors: Collection[ir.Value]) -> int:
    """Emit kernels for all chains of a function; their number."""
    done = 0
    for op in [each for each in mlir.walk(function) if _is_candidate(each)]:
        chain = attentionchain.find(op, tensors) if op.parent is not None else None
        done += chain is not None and _emit(chain)
    return done


def _is_candidate(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and len(op.operands) == 3 and not mlir.inside_kernel(op)


def _emit(chain: Chain) -> bool:
    last = chain.output.last
    with ir.InsertionPoint(last), last.location:
        job = _job(chain)
        condition = None if job is None else _condition(job)
        if job is None or condition is False or isinstance(condition, bool):
            return False
        branch = scf.IfOp(condition, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            flash.launch(job)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            end = scf.YieldOp([])
    _move(chain, end)
    return True


def _job(chain: Chain) -> Attention | None:
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
    scores = forming.problem(chain.scores, Groups(order, (one.m[-1],), one.n, one.k))
    around = tuple((same[loop],) for (loop,) in order)
    output = forming.problem(chain.output, Groups(around, (same[one.m[-1]],), other.n, other.k))
    seen = causal.visible(scores.epilogue, len(scores.batch)) if scores.epilogue.initial is None else None
    depth, width = scores.k.static, output.n.static
    if depth not in _WIDTHS or width not in _WIDTHS or depth is None or width is None:
        return None
    if scores.epilogue.initial is not None:
        return None
    epilogue, scale = scaled.without(seen or scores.epilogue)
    job = Attention(scores, output, depth, width, epilogue, scale, causal=seen is not None, staged=False)
    if not _fits(job):
        return None
    # Results lie where the queries were.
    return replace(job, staged=depth == width and flash.stages_results(job))


def _fits(job: Attention) -> bool:
    """Whether types and layouts are those that the kernel knows."""
    scores, output = job.scores, job.output
    factors = (scores.left, scores.right, output.right)
    kinds = {str(each.element) for each in factors}
    if kinds not in ({"f16"}, {"bf16"}) or {str(scores.accumulator), str(output.accumulator)} != {"f32"}:
        return False
    if any(any(op.name != "arith.extf" for op in each.conversions) for each in factors):
        return False
    if scores.epilogue.initial is not None or output.epilogue.initial is not None:
        return False
    if str(ir.MemRefType(scores.epilogue.stores[0][0].memory.type).element_type) != "f32":
        return False
    return scores.left.along_k and scores.right.along_k and output.right.turned


def _condition(job: Attention) -> ir.Value | bool:
    """Whether the kernel may run, all things known at the call considered."""
    scores, output = job.scores, job.output
    extents = [wgmmafit.is_positive(each) for each in (scores.m, scores.n, *scores.batch)]
    factors = [wgmmafit.fits_factor(each) for each in (scores.left, scores.right, output.right)]
    pairs = [wgmmafit.has_pairs(output, output.epilogue.arrays())]
    if job.bounded:
        # What the scores are stored in is not there when the kernel runs.
        pairs.append(wgmmafit.has_pairs(scores, job.epilogue.arrays()[1:]))
    return problem.all_of([rtcalls.serves(flash.NEED), *extents, *factors, *pairs])


def _drop_views(memory: ir.Value) -> None:
    """Erase views of some memory that nothing uses: they were made with the problems, for what is not stored now."""
    for use in list(memory.uses):
        user = use.owner.operation
        if user.name in _VIEWS and not any(list(result.uses) for result in user.results):
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
