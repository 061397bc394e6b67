"""Hopper's own instructions, on addresses of shared memory as 32-bit words: barriers, TMA copies, warpgroup products.

In: words and constants, at an insertion point in a kernel for sm_90a. Out: the operations.

A barrier's phase ends when all arrivals that it was made for have come, and all bytes that were announced to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, gpu, llvm, memref, nvvm, scf

from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.fast.rowwise import exchange

WARP, WARPGROUP = 32, 128
SWIZZLE_ROW = 128
"""Bytes of one row of a tile in shared memory; 16-byte pieces of it are permuted by the row's number (modulo 8)."""
ATOM = 8 * SWIZZLE_ROW
"""Bytes after which the permutation begins again: tiles start at multiples of it."""
_TICKS = 10_000_000
_ENCODED = 4
"""Addresses in a matrix descriptor count 16 bytes."""


def pointer(address: Word) -> ir.Value:
    """A pointer to shared memory."""
    return llvm.IntToPtrOp(ir.Type.parse("!llvm.ptr<3>"), address.value).result


def shared_memory(alignment: int) -> Word:
    """Address of the block's dynamic shared memory, rounded up."""
    memory = exchange.shared_memory()
    address = memref.ExtractAlignedPointerAsIndexOp(memory).result
    start = Word(arith.IndexCastOp(ir.IntegerType.get_signless(32), address).result)
    return (start + (alignment - 1)) & -alignment


def when(condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Code under a condition."""
    branch = scf.IfOp(condition, has_else=otherwise is not None)
    for block, emit in ((branch.then_block, then), (branch.else_block if otherwise else None, otherwise)):
        if block is not None and emit is not None:
            with ir.InsertionPoint(block):
                emit()
                scf.YieldOp([])


def make_barrier(address: Word, arrivals: int) -> None:
    """Prepare a barrier."""
    nvvm.MBarrierInitOp(pointer(address), constant(arrivals).value)


def fence_made_barriers() -> None:
    """Have others see the barriers that this thread made."""
    nvvm.FenceMbarrierInitOp()


def fence_barriers(cluster: int) -> None:
    """Have all threads, of the cluster if there is one, see barriers that one of them made."""
    if cluster > 1:
        cluster_sync()
    else:
        gpu.BarrierOp()


def elected() -> ir.Value:
    """Whether this is the one thread that the hardware elects of a warp, all of whose threads are here.

    ptxas knows then that it is one, and that what it computes is uniform. Behind a condition of a thread's number every
    copy is a loop over the warp's threads.
    """
    return nvvm.ElectSyncOp(ir.IntegerType.get_signless(1)).result


def cluster_sync() -> None:
    """All threads of the cluster wait for each other."""
    nvvm.ClusterArriveOp(aligned=True)
    nvvm.ClusterWaitOp(aligned=True)


def say_begun() -> None:
    """Tell the blocks of the cluster that this one runs, and has shared memory that they may write to."""
    nvvm.cluster_arrive_relaxed(aligned=True)


def await_begun() -> None:
    """Wait until all of them have said so."""
    nvvm.ClusterWaitOp(aligned=True)


def wait(barrier: Word, phase: Word) -> None:
    """Wait until the phase of this parity has ended."""
    nvvm.MBarrierTryWaitParityOp(pointer(barrier), phase.value, constant(_TICKS).value)


def arrive(barrier: Word) -> None:
    """Arrive at a barrier of this block."""
    nvvm.MBarrierArriveOp(ir.IntegerType.get_signless(64), pointer(barrier))


def arrive_at(barrier: Word, block: Word) -> None:
    """Arrive at the same barrier of a block of the cluster.

    Without release semantics at cluster scope, which would cost a fence at every step: what was read was read by
    the asynchronous proxy, and is done.
    """
    text = (
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, $0, $1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
    )
    llvm.InlineAsmOp(None, [barrier.value, block.value], text, "r,r", has_side_effects=True)


def expect(barrier: Word, size: Word) -> None:
    """Arrive, and announce bytes that copies will bring."""
    nvvm.MBarrierArriveExpectTxOp(None, pointer(barrier), size.value)


def load_tile(
    target: Word,
    source: ir.Value,
    at: Sequence[Word],
    barrier: Word,
    blocks: Word | None = None,
    beside: Sequence[Word] = (),
) -> None:
    """Bring a box of an array to shared memory; with ``blocks``, a mask, to that of all these blocks of the cluster.

    ``beside``: of a walk over pixels, how far from them lies what it reads, on each of the axes in the middle.
    """
    address = llvm.AddrSpaceCastOp(ir.Type.parse("!llvm.ptr<7>"), pointer(target)).result
    short = ir.IntegerType.get_signless(16)
    mask = arith.TruncIOp(short, blocks.value).result if blocks else None
    places = [each.value for each in at]
    offsets = [arith.TruncIOp(short, each.value).result for each in beside]
    mode = ir.Attribute.parse(f"#nvvm.tma_load_mode<{'im2col' if offsets else 'tile'}>")
    nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
        address, source, places, pointer(barrier), offsets, multicastMask=mask, mode=mode
    )


def store_tile(target: ir.Value, at: Sequence[Word], source: Word) -> None:
    """Take a box from shared memory to an array: what lies outside is left out."""
    nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(target, pointer(source), [each.value for each in at])
    nvvm.CpAsyncBulkCommitGroupOp()


def await_stores(left: int) -> None:
    """Wait until at most so many stores still read shared memory."""
    nvvm.CpAsyncBulkWaitGroupOp(left, read=True)


def fence_stores() -> None:
    """Have the asynchronous proxy see what this thread wrote to shared memory."""
    ir.Operation.create(
        "nvvm.fence.proxy",
        attributes={
            "kind": ir.Attribute.parse("#nvvm.proxy_kind<async.shared>"),
            "space": ir.Attribute.parse("#nvvm.shared_space<cta>"),
        },
    )


def warpgroup_sync(number: Word, groups: int = 1) -> None:
    """The threads of one warpgroup, or of some, wait for each other, at a barrier of their own."""
    nvvm.BarrierOp(None, barrierId=number.value, numberOfThreads=constant(groups * WARPGROUP).value)


def warpgroup_arrive(number: Word, groups: int) -> None:
    """Let those that wait at such a barrier of some warpgroups go on, as far as this one is concerned."""
    nvvm.BarrierArriveOp(constant(groups * WARPGROUP).value, barrierId=number.value)


def registers(count: int, *, more: bool) -> None:
    """Give registers back, or take what others gave."""
    action = ir.Attribute.parse(f"#nvvm<action {'increase' if more else 'decrease'}>")
    nvvm.SetMaxRegisterOp(count, action)


def block_in_cluster() -> Word:
    """Number of this block in its cluster."""
    return Word(nvvm.ClusterId(ir.IntegerType.get_signless(32)).result)


def matrix(address: Word, step: int) -> Word:
    """Descriptor of a matrix in shared memory with permuted rows of 128 bytes.

    ``step``: bytes between neighbouring groups of 64 along the contiguous loop, where that is not the summed one.
    """
    kind = 1 << 62 | (ATOM >> _ENCODED) << 32 | (step >> _ENCODED) << 16
    long = ir.IntegerType.get_signless(64)
    start = (address.wide() & 0x3FFFF) // (1 << _ENCODED)
    return start | Word(arith.ConstantOp(long, kind).result)


def moved(descriptor: Word, size: int) -> Word:
    """The descriptor of a matrix that begins so many bytes later."""
    return descriptor + (size >> _ENCODED)


def sums(columns: int, element: str = "f32") -> ir.Type:
    """Type of a thread's part of 64 x columns sums."""
    return ir.Type.parse(f"!llvm.struct<({', '.join([element] * (columns // 2))})>")


def zeros(columns: int, element: str = "f32") -> ir.Value:
    """Such sums, all 0."""
    return ir.Operation.create("llvm.mlir.zero", results=[sums(columns, element)]).results[0]


def begin_products() -> None:
    """Registers and shared memory are ready for products."""
    nvvm.WgmmaFenceAlignedOp()


def multiply(
    total: ir.Value,
    left: Word,
    right: Word,
    columns: int,
    kind: Kind,
    turned: tuple[bool, bool],
    *,
    fresh: bool = False,
) -> ir.Value:
    """64 x columns sums with products of 32 bytes of either factor more.

    ``turned``: the summed loop is not the contiguous one, as only elements of two bytes may lie. ``fresh``: the sums
    begin with these products, whatever they were.
    """
    multiplicands = [ir.Attribute.parse(f"#nvvm.wgmma_type<{name}>") for name in kind.names]
    one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
    return nvvm.WgmmaMmaAsyncOp(
        total.type,
        total,
        left.value,
        right.value,
        ir.Attribute.parse(f"#nvvm.shape<m = 64, n = {columns}, k = {kind.depth}>"),
        *multiplicands,
        ir.Attribute.parse(f"#nvvm.wgmma_type<{'s32' if kind.sums == 'i32' else 'f32'}>"),
        ir.Attribute.parse(f"#nvvm.wgmma_scale_out<{'zero' if fresh else 'one'}>"),
        one,
        one,
        ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if turned[0] else 'row'}>"),
        ir.Attribute.parse(f"#nvvm.mma_layout<{'row' if turned[1] else 'col'}>"),
    ).result


def await_products(left: int) -> None:
    """Wait until at most so many groups of products are not done."""
    nvvm.WgmmaWaitGroupSyncOp(left)


def end_products() -> None:
    """What was begun is one group."""
    nvvm.WgmmaGroupSyncAlignedOp()


def element_of(total: ir.Value, number: int) -> ir.Value:
    """One of a thread's sums."""
    return instructions.part(total, number, llvm.StructType(total.type).body[number])


def store_halves(start: Word, lane: Word, pair: Callable[[int, int], ir.Value]) -> None:
    """A warp's 16 rows of 64 16-bit elements go to shared memory, rows of 128 bytes from ``start`` on.

    ``pair``: a thread's two neighbours of a block of 8 columns, in the upper or lower 8 rows. Four 8 x 8 blocks go at a
    time, each lane naming the place of a row of one of them.
    """
    row, beside = lane % 16, lane // 16
    for block in range(0, 8, 2):
        words = [instructions.packed(pair(block + number // 2, number % 2)) for number in range(4)]
        piece = (beside + block) ^ (row & 7)
        store_words(start + row * SWIZZLE_ROW + piece * 16, words)


def store_words(address: Word, words: Sequence[Word], *, turned: bool = False) -> None:
    """Up to four 8 x 8 matrices of 16-bit elements go to shared memory, each lane's address being that of a row.

    ``turned``: what lanes have of a row goes to a column.
    """
    nvvm.StMatrixOp(
        pointer(address),
        [each.value for each in words],
        ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if turned else 'row'}>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
    )
