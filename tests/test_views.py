"""Views of buffers leave out the dimensions that their type leaves out, whatever their strides, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cpucall
import cpurun
import numpy as np
import pytest

from tests import launchrun

VIEWS = [
    # Extents of the viewed buffer, the view as MLIR has it, its extents and its strides, the same in NumPy.
    ("4x8x12", "[0, 1, 0] [1, 1, 4] [2, 3, 2]", "1x4", "[192, 2], offset: 12", np.s_[0:1, 1, :7:2]),
    ("4x8x12", "[1, 1, 0] [1, 1, 4] [2, 3, 2]", "4", "[2], offset: 108", np.s_[1, 1, :7:2]),
    ("4x8x12", "[1, 1, 5] [1, 2, 1] [1, 3, 1]", "2x1", "[36, 1], offset: 113", np.s_[1, 1:5:3, 5:6]),
    ("4x8x12", "[1, 2, 3] [1, 1, 1] [2, 3, 2]", "", "[], offset: 123", np.s_[1, 2, 3]),
    ("?x?x?", "[%i, 1, 0] [1, %n, 1] [1, 1, 1]", "1x?", "[?, ?], offset: ?", np.s_[2:3, 1:4, 0]),
    ("?x?x?", "[%i, 1, 0] [1, %n, 1] [1, %i, 1]", "1x?", "[?, ?], offset: ?", np.s_[2:3, 1:7:2, 0]),
    ("?x?x?", "[%i, 1, 0] [1, 1, %n] [1, 1, %i]", "?", "[?], offset: ?", np.s_[2, 1, 0:6:2]),
    ("?x?x12", "[1, %i, 4] [1, 1, 4] [3, 1, 2]", "1x4", "[?, 2], offset: ?", np.s_[1:2, 2, 4:11:2]),
]  # fmt: skip
IDS = ["first of two kept", "none kept", "last kept", "rank 0", "same strides", "unknown steps", "row", "unknown step"]
BODIES = ["host code", "CPU", "kernel"]

KERNEL = """gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {{
    %v = memref.subview %x{place} : {viewed} to {kind}
    linalg.copy ins(%v : {kind}) outs(%y : {target})
    gpu.terminator
  }}"""
HOST = """%v = memref.subview %x{place} : {viewed} to {kind}
  memref.copy %v, %y : {kind} to {target}"""


def source(body: str, viewed: str, place: str, kind: str, rank: int) -> str:
    """A function that copies the view to its second argument."""
    viewed, target = f"memref<{viewed}xf32>", f"memref<{'?x' * rank}f32>"
    copied = body.format(viewed=viewed, place=place, kind=kind, target=target)
    return f"""
func.func @f(%x: {viewed}, %y: {target}, %i: index, %n: index) {{
  %c1 = arith.constant 1 : index
  {copied}
  return
}}
"""


def gpu(text: str) -> cpurun.Program:
    return cpurun.build(text)


def cpu(text: str) -> cpucall.Program:
    return cpucall.build(text, cpucall.runnable()[0])


@pytest.mark.parametrize(("build", "body"), [(gpu, HOST), (cpu, HOST), (launchrun.build, KERNEL)], ids=BODIES)
@pytest.mark.parametrize(("viewed", "place", "extents", "layout", "where"), VIEWS, ids=IDS)
def test_views_leave_out_what_their_type_leaves_out(
    build: Callable[[str], Any],
    body: str,
    viewed: str,
    place: str,
    extents: str,
    layout: str,
    where: tuple[int | slice, ...],
) -> None:
    kind = f"memref<{extents}{'x' * bool(extents)}f32, strided<{layout}>>"
    x = np.arange(4 * 8 * 12, dtype="f4").reshape(4, 8, 12)
    want = x[where]
    y = np.zeros(want.shape, "f4")
    build(source(body, viewed, place, kind, want.ndim)).call("f", x, y, 2, 3)
    np.testing.assert_array_equal(y, want)
