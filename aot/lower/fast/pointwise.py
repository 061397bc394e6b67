"""The kernel of a region without reductions: a tile of neighbouring elements for each block.

In: a region, its places and the width of vectors. Out: a ``gpu.launch``.

Elements are numbered along all loops. Where memory is aligned, a thread has whole vectors of them, and what is left
behind the last vector goes element by element; elsewhere everything does.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower.fast.flat import FlatEvaluator
from aot.lower.fast.region import FULL
from aot.lower.fast.regions import bodies, bodyloads, places
from aot.lower.fast.regions.accesses import store_vector
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise.chunks import MASKED, Chunk
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling

THREADS = 128
_VECTORS = (2, 1)
"""Of a thread that reads one operand, or more: few, so that little work reaches many multiprocessors, too."""
_FEW_BYTES = 2 << 20
"""Of a result up to which threads have one vector where they find operands by indices."""
_SHORT = 2**31
"""Extents that 32 bits tell, with a sign."""
_AT_ONCE = 4
"""Elements of a thread where there are no vectors."""


def launch(job: Job, width: int) -> None:
    """Emit kernels at the insertion point; where indices take long, others for whole vectors and for few elements."""
    whole = _whole_at_call(job, width)
    if whole is None:
        _sized(job, width, None)
        return
    branches.either(whole, lambda: _sized(_with_short_division(job), width, True), lambda: _sized(job, width, False))


def _sized(job: Job, width: int, whole: bool | None) -> None:
    vectors, columns = _vectors_of(job), job.space.columns
    few = _FEW_BYTES // max(rtcalls.storage_bytes(place.element) for _, place in job.stores)
    if vectors == 1 or width == 1 or all(place.flat for place in job.places.values()):
        _launch(job, width, vectors, whole)
        return
    if columns.static is not None:
        _launch(job, width, 1 if columns.static <= few else vectors, whole)
        return
    condition = arith.CmpIOp(arith.CmpIPredicate.ule, columns.value, rtcalls.index(few)).result
    branches.either(condition, lambda: _launch(job, width, 1, whole), lambda: _launch(job, width, vectors, whole))


def _launch(job: Job, width: int, vectors: int, whole: bool | None) -> None:
    tile = THREADS * (vectors * width if width > 1 else _AT_ONCE)
    columns, one = job.space.columns.value, rtcalls.index(1)
    blocks = arith.CeilDivUIOp(columns, rtcalls.index(tile)).result
    fits = True if whole else _fits(job, width)
    op = gpu.LaunchOp((blocks, one, one), (rtcalls.index(THREADS), one, one)).operation
    sizes = {"threads": THREADS, "vectors": vectors, "width": width}
    tiling.mark(op, job.region.kind, job.region.number, "pointwise", sizes)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        first = arith.MulIOp(body.arguments[0], rtcalls.index(tile)).result
        behind = arith.MinUIOp(arith.AddIOp(first, rtcalls.index(tile)).result, columns).result
        thread = body.arguments[3]
        if fits is False:
            _elements(job, arith.AddIOp(first, thread).result, behind)
            return
        with branches.guard(None if fits is True else fits):
            _vectors(job, width, vectors, first, thread, whole)
        if whole or (job.space.columns.static is not None and job.space.columns.static % width == 0 and fits is True):
            return
        left = arith.SubIOp(columns, arith.RemUIOp(columns, rtcalls.index(width)).result).result
        start = arith.MaxUIOp(first, left).result
        start = start if fits is True else arith.SelectOp(fits, start, first).result
        _elements(job, arith.AddIOp(start, thread).result, behind)


def _whole_at_call(job: Job, width: int) -> ir.Value | None:
    """Whether vectors are aligned and within the innermost loop, and 32 bits tell all numbers; None: no matter.

    A kernel for this has no branches: what it reads first, it has not to wait for before it reads the rest.
    """
    if width == 1 or _must_be_whole(job) or all(place.flat or not place.loops for place in job.places.values()):
        return None
    whole = _whole(job, width)
    if isinstance(whole, bool):
        return None
    whole = arith.AndIOp(whole, places.aligned([*_wide(job), *_read_by_bodies(job)])).result
    for extent in job.space.column_loops:
        if extent.divisor is not None:
            whole = arith.AndIOp(whole, extent.divisor.small).result
    return whole


def _with_short_division(job: Job) -> Job:
    """The same where 32 bits are enough for all numbers."""
    loops = tuple(
        each if each.divisor is None else replace(each, divisor=each.divisor.short()) for each in job.space.column_loops
    )
    return replace(job, space=replace(job.space, column_loops=loops))


def _vectors_of(job: Job) -> int:
    full = sum(source.kind == FULL for source in job.region.sources())
    return _VECTORS[min(len(_VECTORS), max(1, full)) - 1]


def _fits(job: Job, width: int) -> ir.Value | bool:
    """Whether there are vectors: memory is aligned, and they lie within the innermost loop where they must."""
    if width == 1:
        return False
    aligned = places.aligned([*_wide(job), *_read_by_bodies(job)])
    whole = _whole(job, width) if _must_be_whole(job) else _is_short(job)
    if isinstance(whole, bool):
        return aligned if whole else False
    return arith.AndIOp(aligned, whole).result


def _is_short(job: Job) -> ir.Value | bool:
    """Whether 32 bits tell indices of the innermost loop, where vectors cross its end."""
    extent = job.space.column_loops[-1]
    if all(place.flat for place in job.places.values()):
        return True
    if extent.static is not None:
        return extent.static < _SHORT
    return arith.CmpIOp(arith.CmpIPredicate.ult, extent.value, rtcalls.index(_SHORT)).result


def _wide(job: Job) -> list[Place]:
    return [place for place in [*job.places.values(), *(place for _, place in job.stores)] if place.wide]


def _read_by_bodies(job: Job) -> list[Place]:
    """Memory whose neighbours a body reads."""
    last = len(job.space.column_loops) - 1
    found = [memory for member in job.region.members for memory in bodyloads.along(member.operation.body, last)]
    return [Place(memory, "", (), flat=False, wide=True, gaps=True) for memory in dict.fromkeys(found)]


def _must_be_whole(job: Job) -> bool:
    """Whether vectors may not reach beyond the innermost loop: results with gaps, bodies that ask for indices."""
    asks = any(bodies.asked(member.operation.body) for member in job.region.members)
    return asks or any(not place.flat for _, place in job.stores)


def _whole(job: Job, width: int) -> ir.Value | bool:
    """Whether the innermost loop is whole vectors."""
    extent = job.space.column_loops[-1]
    if extent.static is not None:
        return extent.static % width == 0
    rest = arith.RemUIOp(extent.value, rtcalls.index(width)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result


def _prepared(job: Job, width: int, whole: bool | None) -> FlatEvaluator:
    """An evaluator that has what is one for all."""
    if whole is None:
        whole = True if width == 1 or _must_be_whole(job) else _whole(job, width)
    code = FlatEvaluator(job.region, job.places, job.space, width, MASKED, rtcalls.index(0), whole=whole)
    for source in job.region.sources():
        if not code.varies(source):
            code.row_value(source)
    return code


def _vectors(job: Job, width: int, vectors: int, first: ir.Value, thread: ir.Value, whole: bool | None) -> None:
    code, columns = _prepared(job, width, whole), job.space.columns
    exact = columns.static is not None and columns.static % (THREADS * vectors * width) == 0
    begin = arith.AddIOp(first, arith.MulIOp(thread, rtcalls.index(width)).result).result
    chunks = []
    for number in range(vectors):
        column = bodies.plus(begin, number * THREADS * width)
        behind = arith.AddIOp(column, rtcalls.index(width)).result
        valid = None if exact else arith.CmpIOp(arith.CmpIPredicate.ule, behind, columns.value).result
        chunks.append(Chunk(column, column, valid))
    _compute_and_store(job, code, chunks)


def _elements(job: Job, first: ir.Value, behind: ir.Value) -> None:
    """Some at a time; behind the last one the first one of the turn is computed again, and not stored."""
    loop = scf.ForOp(first, behind, rtcalls.index(_AT_ONCE * THREADS))
    with ir.InsertionPoint(loop.body):
        chunks = []
        for number in range(_AT_ONCE):
            column = bodies.plus(loop.induction_variable, number * THREADS)
            valid = arith.CmpIOp(arith.CmpIPredicate.ult, column, behind).result if number else None
            chunks.append(Chunk(column, column, valid))
        _compute_and_store(job, _prepared(job, 1, None), chunks)
        scf.YieldOp([])


def _compute_and_store(job: Job, code: FlatEvaluator, chunks: list[Chunk]) -> None:
    """All loads first, all stores last: a result may lie in an operand's memory."""
    code.prefetch([source for source in job.region.sources() if code.varies(source)], chunks)
    if any(bodyloads.has(member.operation.body) for member in job.region.members):
        # Indices behind the end may reach beyond what the body reads.
        for chunk in chunks:
            with branches.guard(chunk.valid):
                _store(job, code, chunk, [code.values(store.product, chunk) for store, _ in job.stores])
        return
    values = [[code.values(store.product, chunk) for store, _ in job.stores] for chunk in chunks]
    for chunk, columns in zip(chunks, values, strict=True):
        with branches.guard(chunk.valid):
            _store(job, code, chunk, columns)


def _store(job: Job, code: FlatEvaluator, chunk: Chunk, values: list[ir.Value]) -> None:
    for each, (_, place) in zip(values, job.stores, strict=True):
        if place.wide and code.width > 1:
            store_vector(each, place.memory, code.address(place, chunk.column))
            continue
        for number, value in enumerate(bodies.unpack(each)):
            code.store_element(place, bodies.plus(chunk.column, number), value)
