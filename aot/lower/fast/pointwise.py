"""The kernel of a region without reductions: a tile of neighbouring elements for each block.

In: a region, its places and the width of vectors. Out: a ``gpu.launch``.

A block that is full and aligned has straight code with vectors; the others, the last one of a row as a rule, walk over
their elements one by one. Which of the two is the same for all threads of a block.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower import rtcalls, tiling
from aot.lower.fast import bodies, places
from aot.lower.fast.chunks import EXACT, Chunk, Evaluator, store_vector
from aot.lower.fast.region import FULL
from aot.lower.fast.rowjob import Job

THREADS = 256
_BYTES_IN_FLIGHT = 32
"""That a thread reads or writes of the widest operand."""


def launch(job: Job, width: int) -> ir.Operation:
    """Emit the kernel at the insertion point."""
    vectors = max(1, _BYTES_IN_FLIGHT // 16)
    tile = THREADS * vectors * width
    columns, one = job.space.columns.value, rtcalls.index(1)
    tiles = arith.DivUIOp(arith.AddIOp(columns, rtcalls.index(tile - 1)).result, rtcalls.index(tile)).result
    blocks = tiles if job.space.rows.static == 1 else arith.MulIOp(tiles, job.space.rows.value).result
    fits = _fits(job, width)
    op = gpu.LaunchOp((blocks, one, one), (rtcalls.index(THREADS), one, one)).operation
    sizes = {"threads": THREADS, "vectors": vectors, "width": width}
    tiling.mark(op, job.region.kind, job.region.number, "pointwise", sizes)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        block, thread = body.arguments[0], body.arguments[3]
        row, number = _row(job, block, tiles)
        first = arith.MulIOp(number, rtcalls.index(tile)).result
        behind = arith.AddIOp(first, rtcalls.index(tile)).result
        whole = arith.CmpIOp(arith.CmpIPredicate.ule, behind, columns).result
        choice = scf.IfOp(arith.AndIOp(whole, fits).result, has_else=True)
        with ir.InsertionPoint(choice.then_block):
            _vectors(job, width, vectors, row, first, thread)
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            _elements(job, row, arith.AddIOp(first, thread).result, arith.MinUIOp(behind, columns).result)
            scf.YieldOp([])
    return op


def _fits(job: Job, width: int) -> ir.Value:
    """Whether vectors are aligned in every row."""
    wide = _wide(job)
    aligned = places.aligned(wide)
    whole = True if job.space.rows.static == 1 and not places.within(wide) else places.whole(wide, job.space, width)
    if isinstance(whole, bool):
        return aligned if whole else arith.ConstantOp(ir.IntegerType.get_signless(1), 0).result
    return arith.AndIOp(aligned, whole).result


def _wide(job: Job) -> list[places.Place]:
    return [place for place in [*job.places.values(), *(place for _, place in job.stores)] if place.wide]


def _row(job: Job, block: ir.Value, tiles: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The block's row, and which of its tiles."""
    if job.space.rows.static == 1:
        return rtcalls.index(0), block
    word = ir.IntegerType.get_signless(32)
    number, count = (arith.IndexCastUIOp(word, each).result for each in (block, tiles))
    index = ir.IndexType.get()
    row = arith.IndexCastUIOp(index, arith.DivUIOp(number, count).result).result
    return row, arith.IndexCastUIOp(index, arith.RemUIOp(number, count).result).result


def _prepared(job: Job, width: int, row: ir.Value) -> Evaluator:
    """An evaluator that has what is one for the row."""
    code = Evaluator(job.region, job.places, job.space, width, EXACT, row, within=places.within(_wide(job)))
    for loop in range(len(job.region.rows)):
        code.index(loop, None)
    for source in job.region.sources():
        if not code.varies(source):
            code.row_value(source)
    return code


def _vectors(job: Job, width: int, vectors: int, row: ir.Value, first: ir.Value, thread: ir.Value) -> None:
    code = _prepared(job, width, row)
    begin = arith.AddIOp(first, arith.MulIOp(thread, rtcalls.index(width)).result).result
    chunks = []
    for number in range(vectors):
        column = arith.AddIOp(begin, rtcalls.index(number * THREADS * width)).result
        chunks.append(Chunk(column, column))
    _compute_and_store(job, code, chunks)


def _elements(job: Job, row: ir.Value, first: ir.Value, behind: ir.Value) -> None:
    loop = scf.ForOp(first, behind, rtcalls.index(THREADS))
    with ir.InsertionPoint(loop.body):
        column = loop.induction_variable
        _compute_and_store(job, _prepared(job, 1, row), [Chunk(column, column)])
        scf.YieldOp([])


def _compute_and_store(job: Job, code: Evaluator, chunks: list[Chunk]) -> None:
    """All loads first, all stores last: a result may lie in an operand's memory."""
    code.prefetch([source for source in job.region.sources() if code.varies(source)], chunks)
    values = [[code.values(store.product, chunk) for store, _ in job.stores] for chunk in chunks]
    for chunk, columns in zip(chunks, values, strict=True):
        for each, (_, place) in zip(columns, job.stores, strict=True):
            assert place.kind == FULL
            at = code.address(place, chunk.column)
            if place.wide and code.width > 1:
                store_vector(each, place.memory, at)
                continue
            for number, value in enumerate(bodies.unpack(each)):
                code.store_element(place, arith.AddIOp(chunk.column, rtcalls.index(number)).result, value)
