"""Kernels of one source made side by side: the same bytes, whoever helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from compiledsource import some_job
from kernelsources import sources

from aot import mlir, onesource
from aot.engine.forked import Hired
from aot.fatbins import ptxtext
from aot.lower.gpumodule import pieces
from aot.lower.gpumodule.pieces import Piece
from aot.model import CompiledSource

ROWS = f"{sources._MAPS}\n{sources.softmax('f32', sources.Shape('dyn'))}".replace("KIND", "tensor<?x?xf32>")
KERNEL = """
  llvm.func @{name}(%p: !llvm.ptr) attributes {{gpu.kernel, nvvm.kernel}} {{
    %x = llvm.load %p : !llvm.ptr -> f32
    {body}
    llvm.return
  }}"""
STACKS = """
gpu.module @m {{
  {}
}}""".format(
    "\n".join(
        f"""
  gpu.func @{name}(%x: memref<64xf32>, %n: index) kernel {{
    %mine = memref.alloca() : memref<8xf32>
    %value = memref.load %x[%n] : memref<64xf32>
    memref.store %value, %mine[%n] : memref<8xf32>
    %block = gpu.block_id x
    %other = memref.load %mine[%block] : memref<8xf32>
    memref.store %other, %x[%block] : memref<64xf32>
    gpu.return
  }}"""
        for name in ("one", "two", "three")
    )
)
HEAD = b".version 8.8\n.target sm_90\n.address_size 64\n\n\t// .globl\t%s\n"
ENTRY = b".visible .entry %s(\n)\n{\n$L__BB%d_1:\n\tbra \t$L__BB%d_1;\n}\n"


def module_of(body: str, other: str = "") -> str:
    kernels = "".join(KERNEL.format(name=name, body=body) for name in ("one", "two", "three"))
    return f"gpu.module @k {{{other}{kernels}\n}}"


@pytest.mark.parametrize("helpers", [1, 3])
def test_the_same_source_whoever_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: int) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(ROWS)
    seen: list[int] = []
    joined = ptxtext.joined

    def watched(texts: Sequence[bytes]) -> bytes | None:
        seen.append(len(texts))
        return joined(texts)

    monkeypatch.setattr(ptxtext, "joined", watched)

    def compiled(crew: Hired) -> CompiledSource:
        free = crew.free
        found = onesource.compile_source(some_job(file, "sm_90"), lambda stage: None, crew)
        assert crew.free == free, "a processor was not given back"
        return found

    alone = compiled(Hired(0))
    assert not seen
    assert compiled(Hired(helpers)) == alone
    # Host code has a processor, too, until it is done.
    assert helpers < 3 or seen[0] >= 3


def test_stacks_of_kernels_are_numbered_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 10.0 on PTX in the package is the text that was joined."""
    monkeypatch.setattr(pieces, "_OPERATIONS", 1)
    file = tmp_path / "f.mlir"
    file.write_text(STACKS)
    job = some_job(file, "sm_100 compute_100")
    alone, helped = (onesource.compile_source(job, lambda stage: None, Hired(free)) for free in (0, 2))
    assert alone.fatbin is not None
    assert alone.fatbin.data.count(b"__local_depot2[") == 1
    assert helped == alone


@pytest.mark.parametrize(
    ("body", "other", "count"),
    [
        ("", "", 3),
        ("%y = llvm.call @__nv_expf(%x) : (f32) -> f32", "llvm.func @__nv_expf(f32) -> f32", 3),
        ("%y = llvm.call @f(%x) : (f32) -> f32", "llvm.func @f(%x: f32) -> f32 { llvm.return %x : f32 }", 1),
        ("%y = llvm.call @f(%x) : (f32) -> f32", "llvm.func @f(f32) -> f32", 1),
        ('llvm.inline_asm has_side_effects "L${:uid}: bra L${:uid};", "" : () -> ()', "", 1),
        ('llvm.inline_asm has_side_effects "nanosleep.u32 1;", "" : () -> ()', "", 3),
    ],
)
def test_what_keeps_kernels_together(monkeypatch: pytest.MonkeyPatch, body: str, other: str, count: int) -> None:
    monkeypatch.setattr(pieces, "_OPERATIONS", 1)
    with mlir.context() as ctx:
        assert pieces.count(mlir.parse(module_of(body, other).encode(), "k.mlir", ctx)) == count


@pytest.mark.parametrize("count", [2, 3])
def test_each_kernel_is_in_one_piece(count: int) -> None:
    found: list[str] = []
    for number in range(count):
        with mlir.context() as ctx:
            module = mlir.parse(module_of("").encode(), "k.mlir", ctx)
            pieces.keep(module, Piece(number, count))
            mine = [mlir.symbol_name(op) for op in mlir.walk(module) if op.name == "llvm.func"]
            assert mine
            found += mine
    assert found == ["one", "two", "three"]


def test_texts_of_kernels_and_variables_are_joined() -> None:
    shared = b".extern .shared .align 16 .b8 room[];\n"
    first = HEAD % b"a" + b"\n" + ENTRY % (b"a", 0, 0) + b"\t// .globl\tb\n" + ENTRY % (b"b", 1, 1)
    second = HEAD % b"c" + shared + b"\n" + ENTRY % (b"c", 0, 0)
    third = HEAD % b"d" + shared + b"\n" + ENTRY % (b"d", 0, 0)
    together = [HEAD % b"a" + shared + b"\n" + ENTRY % (b"a", 0, 0)]
    together += [b"\t// .globl\t%s\n" % name + ENTRY % (name, n, n) for n, name in enumerate((b"b", b"c", b"d"), 1)]
    assert ptxtext.joined([first, second, third]) == b"".join(together)


@pytest.mark.parametrize(
    "more",
    [
        b".func f(\n)\n{\n}\n",
        b".extern .func f;\n",
        b"\t{ // callseq 0, 0\n",
        b"\t.loc\t1 2 3\n",
        b".global .b8 other[4];\n",
    ],
)
def test_texts_with_more_are_not(more: bytes) -> None:
    """Of variables that are in one piece each, nobody knows the order."""
    mine = b".global .b8 mine[4];\n" if b"other" in more else b""
    first = HEAD % b"a" + mine + b"\n" + ENTRY % (b"a", 0, 0)
    second = HEAD % b"b" + (more if mine else b"") + b"\n" + ENTRY % (b"b", 0, 0) + (b"" if mine else more)
    assert ptxtext.joined([first, second]) is None
