"""Warpgroup products whose left factor is in registers, and values that keep their place among the instructions.

In: values of a thread, at an insertion point in a kernel for sm_90a. Out: values. The dialects have no operation for
either, so both are inline assembly.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from aot.lower.contract.codegen.words import Word


def multiply(
    totals: Sequence[ir.Value], left: Sequence[ir.Value], right: Word, element: str, *, turned: bool
) -> list[ir.Value]:
    """A thread's part of 64 x n sums, with products of 32 bytes more each: ``left`` is its four words of 64 rows.

    ``turned``: the summed loop is not the contiguous one of the right factor.
    """
    count = len(totals)
    places = ", ".join(f"${number}" for number in range(count))
    depth, layout = (8, "") if element == "tf32" else (16, f", {int(turned)}")
    words = ", ".join(f"${2 * count + number}" for number in range(4))
    text = (
        "{\n.reg .pred more;\nsetp.ne.b32 more, 1, 0;\n"
        f"wgmma.mma_async.sync.aligned.m64n{2 * count}k{depth}.f32.{element}.{element} "
        f"{{{places}}}, {{{words}}}, ${2 * count + 4}, more, 1, 1{layout};\n}}"
    )
    constraints = ",".join(["=f"] * count + [str(number) for number in range(count)] + ["r"] * 4 + ["l"])
    return _results(text, constraints, [*totals, *left, right.value], [ir.F32Type.get()] * count)


def held(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The same values, which nothing that computes them may be moved behind, nor what uses them before.

    A product's registers must not be touched while it runs: without this, conversions slip in between, and ptxas lets
    every product wait for the one before.
    """
    kinds = [value.type for value in values]
    letters = ["f" if isinstance(kind, ir.F32Type) else "l" if kind.width == 64 else "r" for kind in kinds]
    constraints = ",".join([f"={letter}" for letter in letters] + [str(number) for number in range(len(kinds))])
    return _results("", constraints, values, kinds)


def here(word: Word) -> Word:
    """The same word: what is computed with it is computed here, instead of kept in registers from before a loop."""
    return Word(held([word.value])[0])


def thread_again() -> Word:
    """The thread's number in its block, read from its own register: nothing is kept for it from before a loop."""
    return Word(_results("mov.u32 $0, %tid.x;", "=r", [], [ir.IntegerType.get_signless(32)])[0])


def _results(text: str, constraints: str, operands: Sequence[ir.Value], kinds: Sequence[ir.Type]) -> list[ir.Value]:
    if len(kinds) == 1:
        made = llvm.InlineAsmOp(kinds[0], list(operands), text, constraints, has_side_effects=True)
        return list(made.operation.results)
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(str(kind) for kind in kinds)})>")
    all_ = llvm.InlineAsmOp(struct, list(operands), text, constraints, has_side_effects=True).operation.results[0]
    return [
        llvm.ExtractValueOp(kind, all_, ir.DenseI64ArrayAttr.get([number])).operation.results[0]
        for number, kind in enumerate(kinds)
    ]
