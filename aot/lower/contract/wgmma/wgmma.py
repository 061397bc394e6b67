"""Products on Hopper's tensor cores.

In: a problem that ``wgmmafit`` found fit, at a place in host code, and a tile. Out: descriptors and a ``gpu.launch``
whose kernel only sm_90a images hold.

A block is a producer warpgroup, of which one thread copies tiles of both factors into a ring of stages (TMA; see
``wgmmacopies``), and one or two consumer warpgroups, each of which multiplies its rows of the tile (wgmma) and stores
them. Each stage has two barriers: ``full``, which the copies complete, and ``empty``, at which consumers arrive. Blocks
stay, and go from tile to tile. The blocks of a cluster take tiles below each other and share the right factor's, or
beside each other and share the left one's, or both: each copies a part into the shared memory of all that share it. Or
they take one tile, and a part of the summed loop each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower.contract.codegen import boxes, hopper, registers
from aot.lower.contract.codegen.boxes import DEPTH, Boxes
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.codegen.instructions import DEPTH_BYTES, Kind
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products import kinds
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma import wgmmacopies, wgmmastore, wgmmasums
from aot.lower.contract.wgmma.wgmmacopies import Copies
from aot.lower.contract.wgmma.wgmmaswapped import swapped
from aot.lower.contract.wgmma.wgmmatile import Tile
from aot.lower.contract.wgmma.wgmmawriter import Writer
from aot.lower.gpumodule import imageneeds
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tiling
from aot.tiling import CONTRACTIONS

NEED = "sm_90a"
_GROUP = 8
"""Tiles below each other before the next column of tiles: blocks that run together share rows and columns."""
_TURNED_STEP = 16
"""Steps of the summed loop that one instruction takes of elements of two bytes, which alone may be turned."""
_PRODUCER_REGISTERS, _CONSUMER_REGISTERS = 40, 232
_BARRIER = 8


def launch(job: Problem, tile: Tile, *, staged: bool, width: int = 2) -> None:
    """Emit the launch at the insertion point; ``staged`` and ``width``: how results may be stored (``wgmmastore``)."""
    store = wgmmastore.of(job, tile, staged=staged, width=width)
    job = swapped(job) if tile.swapped else job
    rows = tile.rows // tile.beside
    sides = (
        boxes.of_pixels(job.window, job.left, rows)
        if job.window
        else boxes.of_factor(job.left, job.m, job, rows, few=tile.few),
        boxes.of_factor(job.right, job.n, job, tile.columns // tile.below, steps=wgmmacopies.steps(tile)),
    )
    down, across = tile.grid(job)
    count = down * across * Word(job.batches())
    places = count if tile.is_split else tile.places(Word(rtcalls.multiprocessors()))
    grid = count.least(places) * tile.cluster
    one = rtcalls.index(1)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), tile.shared_bytes).result
    sizes = ((grid.value, one, one), (rtcalls.index(tile.threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory)
    _mark(op.operation, tile, store, _kind(job))
    with ir.InsertionPoint(op.operation.regions[0].blocks[0]):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        Kernel(job, tile, sides, store, op.operation.regions[0].blocks[0], (down, across, count)).emit()


def _kind(job: Problem) -> Kind:
    kind = kinds.of(job)
    assert kind is not None
    return kind


def _mark(op: ir.Operation, tile: Tile, store: wgmmastore.Store, kind: Kind) -> None:
    remarks = store.remarks if kind.bytes == 2 else (kind.told, *store.remarks)
    tiling.mark(op, CONTRACTIONS, 0, "wgmma", tile.sizes(SWIZZLE_ROW // kind.bytes), remarks)
    imageneeds.mark(op, NEED)
    if tile.cluster > 1:
        op.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([tile.cluster, 1, 1])
    if tile.blocks > 1 or kind.is_small_float:
        op.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), tile.blocks)


@dataclass(frozen=True, eq=False)
class Corner:
    """A tile's place."""

    m0: Word
    n0: Word
    batch: tuple[Word, ...]


class Kernel:
    """The code of one kernel; words are made where they dominate all of it."""

    def __init__(
        self,
        job: Problem,
        tile: Tile,
        sides: tuple[Boxes, Boxes],
        store: wgmmastore.Store,
        body: ir.Block,
        counts: tuple[Word, Word, Word],
    ) -> None:
        self.job, self.tile, self.sides, self.store, self.kind = job, tile, sides, store, _kind(job)
        self.depth = SWIZZLE_ROW // self.kind.bytes
        self.thread, first, blocks = narrow(body.arguments[3]), narrow(body.arguments[0]), narrow(body.arguments[6])
        self.m, self.n, steps = (narrow(each.value) for each in (job.m, job.n, job.k))
        self.down, self.across, self.count = (narrow(each.value) for each in counts)
        self.loops = [narrow(each.value) for each in job.batch]
        self.box = narrow(sides[0].box)
        self.first, self.stride = first // tile.cluster, blocks // tile.cluster
        self.rank = hopper.block_in_cluster() if tile.cluster > 1 else constant(0)
        # Not known when it is compiled, even where it could be: products of an unrolled loop would wait for each other.
        self.steps, self.start = registers.here(steps.tiles(self.depth)), constant(0)
        if tile.is_split:
            all_, self.start = self.steps, self.steps * self.rank // tile.splits
            self.steps = all_ * (self.rank + 1) // tile.splits - self.start
        self.ring = hopper.shared_memory(hopper.ATOM)
        self.staging = self.ring + tile.stages * tile.stage_bytes
        self.barriers = self.staging + tile.staging_bytes
        self.group = self.thread // WARPGROUP
        self.in_registers = job.left.turned and self.kind.bytes == 4
        """Whether the left factor is: tensor cores take it turned from shared memory in elements of two bytes only."""
        self.arriving = WARPGROUP // WARP if self.in_registers else 1
        """Threads of a warpgroup that say when a stage has been read: one of each warp that reads it itself."""

    def full(self, slot: Word) -> Word:
        return self.barriers + slot * _BARRIER

    def empty(self, slot: Word) -> Word:
        return self.barriers + (slot * _BARRIER + self.tile.stages * _BARRIER)

    def emit(self) -> None:
        """All of it."""
        hopper.when(self.thread.equals(0), self._prepare)
        # Blocks that share a tile, and no copies, leave each other's barriers alone.
        hopper.fence_barriers(1 if self.tile.is_split else self.tile.cluster)
        writer = self.store.begin(self)
        hopper.when(self.group.equals(0), self._produce, lambda: self._consume(writer))
        if self.tile.is_split:
            hopper.cluster_sync()
            hopper.when(_differs(self.group, 0), writer.combine)
        if self.tile.cluster > 1:
            # No block may end while others still arrive at its barriers.
            hopper.cluster_sync()

    def _prepare(self) -> None:
        for slot in range(self.tile.stages):
            hopper.make_barrier(self.full(constant(slot)), 1)
            hopper.make_barrier(self.empty(constant(slot)), self.tile.arrivals * self.arriving)
        hopper.fence_made_barriers()

    def corner(self, number: Word) -> Corner:
        """Where a tile lies: this block's, of those that its cluster takes."""
        batch: list[Word] = []
        if self.loops:
            outer, number = number // (self.down * self.across), number % (self.down * self.across)
            for size in reversed(self.loops[1:]):
                batch.insert(0, outer % size)
                outer = outer // size
            batch.insert(0, outer)
        group = self.across * _GROUP
        top = number // group * _GROUP
        rest = number % group
        height = (self.down - top).least(_GROUP)
        row, column = top + rest % height, rest // height
        if self.tile.below > 1:
            row = row * self.tile.below + self.rank // self.tile.beside
        if self.tile.beside > 1:
            column = column * self.tile.beside + self.rank % self.tile.beside
        return Corner(row * self.tile.rows, column * self.tile.columns, tuple(batch))

    def _produce(self) -> None:
        if self.tile.trades_registers:
            hopper.registers(_PRODUCER_REGISTERS, more=False)
        copy = partial(self._tiles, Copies(self).tile)
        hopper.when(self.thread.below(WARP), lambda: hopper.when(hopper.elected(), copy))

    def _tiles(self, work: Callable[[Corner, Word], None]) -> None:
        """Code for each of the block's tiles, with the number of stages that were used before it."""
        loop = scf.ForOp(self.first.value, self.count.value, self.stride.value, [constant(0).value])
        with ir.InsertionPoint(loop.body):
            used = Word(loop.inner_iter_args[0])
            work(self.corner(Word(loop.induction_variable)), used)
            scf.YieldOp([(used + self.steps).value])

    def _consume(self, writer: Writer) -> None:
        if self.tile.trades_registers:
            hopper.registers(_CONSUMER_REGISTERS, more=True)
        self._tiles(lambda corner, used: writer.write(corner, self._multiply(used)))
        writer.finish()

    @property
    def consumer(self) -> Word:
        """Number of a consumer warpgroup."""
        return self.group - 1

    @property
    def lane(self) -> Word:
        """Number of a thread in its warpgroup."""
        return self.thread % WARPGROUP

    @cached_property
    def _steps(self) -> tuple[int, int]:
        """Bytes from one instruction's part of a tile to the next one's, for both factors."""
        inner, outer = DEPTH_BYTES, _TURNED_STEP * SWIZZLE_ROW
        return tuple(outer if factor.turned else inner for factor in self.job.factors)  # type: ignore[return-value]

    def _multiply(self, used: Word) -> list[ir.Value]:
        """The tile's sums: for each 64 rows of this warpgroup's, a thread's part."""
        tile, each = self.tile, self.tile.rows // self.tile.groups // 64
        mine = self.ring + self.consumer * (each * 64 * SWIZZLE_ROW)
        left, right = (
            hopper.matrix(start, DEPTH * SWIZZLE_ROW if factor.turned else 16)
            for start, factor in zip((mine, self.ring + tile.left_bytes), self.job.factors, strict=True)
        )
        if self.in_registers:
            return wgmmasums.from_registers(self, used, right)
        if self.kind.is_small_float:
            return wgmmasums.added(self, used, left, right)
        zero = hopper.zeros(tile.columns, self.kind.sums)
        loop = scf.ForOp(constant(0).value, self.steps.value, constant(1).value, [zero] * each)
        with ir.InsertionPoint(loop.body):
            step = Word(loop.induction_variable)
            _, moved = self.arrived(used + step)
            sums = self.products(list(loop.inner_iter_args), left + moved, right + moved)
            # The group before this one is done, and so is its stage; the first step has none before it.
            hopper.await_products(1)
            self.release((used + step - 1) % tile.stages, _differs(step, 0))
            scf.YieldOp(sums)
        hopper.await_products(0)
        self.release((used + self.steps - 1) % tile.stages, _differs(self.steps, 0) if tile.is_split else None)
        return list(loop.results)

    def arrived(self, number: Word) -> tuple[Word, Word]:
        """Wait for a stage: its slot, and how far it moves descriptors."""
        slot = number % self.tile.stages
        hopper.wait(self.full(slot), number // self.tile.stages & 1)
        return slot, slot.wide() * (self.tile.stage_bytes >> 4)

    def products(
        self, sums: list[ir.Value], left: Word, right: Word, *, columns: int = 0, fresh: bool = False
    ) -> list[ir.Value]:
        """The sums with a stage's products, of all ``columns`` or the first ones; ``fresh``: these alone."""
        columns = columns or self.tile.columns
        hopper.begin_products()
        turned = (self.job.left.turned, self.job.right.turned)
        for step in range(SWIZZLE_ROW // DEPTH_BYTES):
            for number, total in enumerate(sums):
                one = hopper.moved(left, self._steps[0] * step + number * 64 * SWIZZLE_ROW)
                other = hopper.moved(right, self._steps[1] * step)
                first = fresh and not step
                sums[number] = hopper.multiply(total, one, other, columns, self.kind, turned, fresh=first)
        hopper.end_products()
        return sums

    def release(self, slot: Word, condition: ir.Value | None) -> None:
        """A stage may be filled again, as far as this warpgroup is concerned: in all blocks that it was filled for."""
        lane = self.lane % WARP if self.in_registers else self.lane
        mine = lane.below(self.tile.mates)
        if condition is not None:
            mine = arith.AndIOp(condition, mine).result
        if self.tile.mates > 1:
            hopper.when(mine, lambda: hopper.arrive_at(self.empty(slot), self._mate(lane)))
        else:
            hopper.when(mine, lambda: hopper.arrive(self.empty(slot)))

    def _mate(self, lane: Word) -> Word:
        """For each of these lanes a block whose copies come here: those of its column in the cluster, or row."""
        below, beside = self.tile.below, self.tile.beside
        if below == 1 or beside == 1:
            return lane
        row, column = self.rank // beside, self.rank % beside
        others = row * beside + (column + 1 + lane - below) % beside
        return (lane * beside + column).where(lane.below(below), others)


def _differs(one: Word, other: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.ne, one.value, constant(other).value).result
