"""Parts that are put together, and arrays that are copied, have the extents that they must have, or the call fails."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import cpucall
import cpurun
import numpy as np
import pytest

KIND = "tensor<?x?xf32>"
CONCATENATED = f"""
func.func @f(%x: {KIND}, %y: {KIND}) -> {KIND} {{{{
  %r = {{0}} : ({KIND}, {KIND}) -> {KIND}
  return %r : {KIND}
}}}}
"""
CONCATENATIONS = ("tensor.concat dim(1) %x, %y", "tosa.concat %x, %y {axis = 1 : i32}")
NAMED = f"""
func.func @f(%x: {KIND}, %y: {KIND}) -> tensor<?x8xf32> {{
  %r = tensor.concat dim(1) %x, %y : ({KIND}, {KIND}) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}}
"""
INSERTED = f"""
func.func @f(%x: {KIND}, %y: {KIND}, %n: index) -> {KIND} {{
  %c1 = arith.constant 1 : index
  %columns = tensor.dim %y, %c1 : {KIND}
  %r = tensor.insert_slice %y into %x[0, 0] [%n, %columns] [1, 1] : {KIND} into {KIND}
  return %r : {KIND}
}}
"""
ROW = f"""
func.func @f(%x: {KIND}, %y: tensor<?xf32>, %n: index) -> {KIND} {{
  %r = tensor.insert_slice %y into %x[0, 0] [1, %n] [1, 1] : tensor<?xf32> into {KIND}
  return %r : {KIND}
}}
"""
COPIED = """
func.func @f(%x: memref<?xf32>, %y: memref<?xf32>) {
  memref.copy %x, %y : memref<?xf32> to memref<?xf32>
  return
}
"""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4")


def results(text: str, *arguments: Any) -> list[Any]:
    """Of GPU code and of CPU code, that of the function ``f``; they agree."""
    one = cpurun.build(text).call("f", *arguments).results
    other = cpucall.build(text, cpucall.runnable()[0]).call("f", *arguments).results
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    return one


def refused(text: str, *arguments: Any) -> str:
    """What both kinds of code say of a call."""
    said = []
    for program in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        with pytest.raises(cpurun.CallError, match="refused: ") as caught:
            program.call("f", *arguments)
        said.append(str(caught.value).removeprefix("refused: "))
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize("operation", CONCATENATIONS, ids=["tensor", "tosa"])
def test_parts_of_other_extents(operation: str) -> None:
    text = CONCATENATED.format(operation)
    x, y = numbers(5, 7), numbers(5, 3)
    np.testing.assert_array_equal(results(text, x, y)[0], np.concatenate([x, y], 1))
    for rows in (4, 6):
        message = refused(text, x, numbers(rows, 3))
        assert message.startswith(f"extent 0 of 'arg1' ({rows}) is not extent 0 of 'arg0' (5)"), message


def test_parts_that_do_not_fill_the_result() -> None:
    x, y = numbers(5, 7), numbers(5, 1)
    np.testing.assert_array_equal(results(NAMED, x, y)[0], np.concatenate([x, y], 1))
    assert refused(NAMED, x, numbers(5, 3)).startswith("extent 1 of tensor.concat (10) is not 8")


def test_slices_that_are_larger_than_what_is_put_into_them() -> None:
    x, y = numbers(5, 7), numbers(2, 3)
    want = x.copy()
    want[:2, :3] = y
    np.testing.assert_array_equal(results(INSERTED, x, y, 2)[0], want)
    assert refused(INSERTED, x, y, 4).startswith("extent 0 of 'arg1' (2) is not that of the slice it becomes (4)")
    want = x.copy()
    want[0, :3] = y[1]
    np.testing.assert_array_equal(results(ROW, x, y[1].copy(), 3)[0], want)
    assert refused(ROW, x, y[1].copy(), 2).startswith("extent 0 of 'arg1' (3) is not that of the slice it becomes (2)")


def test_copies_between_arrays_of_other_extents() -> None:
    y = np.zeros(5, "f4")
    results(COPIED, numbers(5), y)
    np.testing.assert_array_equal(y, numbers(5))
    assert refused(COPIED, numbers(7), y).startswith("extent 0 of 'arg0' (7) is not extent 0 of 'arg1' (5)")


ROWS = "tensor<?x64xf32>"
LOOPS = {
    "for": f"""
func.func @f(%x: {ROWS}, %y: {ROWS}, %n: index, %o: index) -> {ROWS} {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %n step %c2 iter_args(%all = %y) -> {ROWS} {{
    %j = arith.addi %i, %o : index
    %row = tensor.extract_slice %x[%j, 0] [2, 64] [1, 1] : {ROWS} to tensor<2x64xf32>
    %next = tensor.insert_slice %row into %all[%i, 0] [2, 64] [1, 1] : tensor<2x64xf32> into {ROWS}
    scf.yield %next : {ROWS}
  }}
  return %r : {ROWS}
}}
""",
    "forall": f"""
func.func @f(%x: {ROWS}, %y: {ROWS}, %n: index, %o: index) -> {ROWS} {{
  %r = scf.forall (%i) = (0) to (%n) step (2) shared_outs(%all = %y) -> {ROWS} {{
    %j = affine.apply affine_map<(i)[o] -> (i + o)>(%i)[%o]
    %row = tensor.extract_slice %x[%j, 0] [2, 64] [1, 1] : {ROWS} to tensor<2x64xf32>
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %row into %all[%i, 0] [2, 64] [1, 1] : tensor<2x64xf32> into {ROWS}
    }}
  }}
  return %r : {ROWS}
}}
""",
    "parallel": """
func.func @f(%x: memref<?x64xf32>, %y: memref<?x64xf32>, %n: index, %o: index) -> memref<?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.parallel (%i, %k) = (%c0, %c0) to (%n, %c2) step (%c2, %c1) {
    %p = arith.addi %i, %k : index
    %j = arith.addi %p, %o : index
    %from = memref.subview %x[%j, 0] [1, 64] [1, 1] : memref<?x64xf32> to memref<1x64xf32, strided<[64, 1], offset: ?>>
    %to = memref.subview %y[%p, 0] [1, 64] [1, 1] : memref<?x64xf32> to memref<1x64xf32, strided<[64, 1], offset: ?>>
    memref.copy %from, %to : memref<1x64xf32, strided<[64, 1], offset: ?>>
      to memref<1x64xf32, strided<[64, 1], offset: ?>>
  }
  return %y : memref<?x64xf32>
}
""",
    "affine": """
func.func @f(%x: memref<?x64xf32>, %y: memref<?x64xf32>, %n: index, %o: index) -> memref<?x64xf32> {
  affine.for %i = 0 to %n step 2 {
    %j = affine.apply affine_map<(i)[o] -> (i + o)>(%i)[%o]
    %from = memref.subview %x[%j, 0] [2, 64] [1, 1] : memref<?x64xf32> to memref<2x64xf32, strided<[64, 1], offset: ?>>
    %to = memref.subview %y[%i, 0] [2, 64] [1, 1] : memref<?x64xf32> to memref<2x64xf32, strided<[64, 1], offset: ?>>
    memref.copy %from, %to : memref<2x64xf32, strided<[64, 1], offset: ?>>
      to memref<2x64xf32, strided<[64, 1], offset: ?>>
  }
  return %y : memref<?x64xf32>
}
""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_slices_in_loops(loop: str) -> None:
    for count, offset, rows in ((4, 0, 4), (4, 2, 4), (3, 1, 4), (1, 4, 2), (0, 100, 0), (-5, 100, 0)):
        x, y = numbers(6, 64), np.zeros((5, 64), "f4")
        want = y.copy()
        want[:rows] = x[offset : offset + rows]
        for build in (cpurun.build(LOOPS[loop]), cpucall.build(LOOPS[loop], cpucall.runnable()[0])):
            np.testing.assert_array_equal(build.call("f", x, y.copy(), count, offset).results[0], want)
    for count, offset, name in ((6, 1, "'arg0'"), (4, 3, "'arg0'"), (1, 5, "'arg0'"), (2, -1, "'arg0'"), (6, 0, "a")):
        message = refused(LOOPS[loop], numbers(6, 64), np.zeros((5, 64), "f4"), count, offset)
        assert re.match(
            r"a slice in a loop \(offset(s -?\d+ to)? -?\d+, size [12]\) leaves dimension 0 of ", message
        ), message
        assert name in message


@pytest.mark.parametrize("inner", ["[%n - %i, 64]", "guarded", "reversed"])
def test_slices_in_loops_that_stay_inside_are_no_error(inner: str) -> None:
    """The offset and the size go together, or the slice is not made in each iteration."""
    sizes = {"[%n - %i, 64]": "%left", "guarded": "2", "reversed": "1"}[inner]
    text = f"""
func.func @f(%x: {ROWS}, %y: {ROWS}, %n: index) -> {ROWS} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %last = arith.subi %n, %c1 : index
  %r = scf.for %i = %c0 to %n step {"%c1" if inner == "reversed" else "%c2"} iter_args(%all = %y) -> {ROWS} {{
    %left = affine.min affine_map<(i)[n] -> (n - i, 2)>(%i)[%n]
    %j = arith.subi %last, %i : index
    %whole = arith.cmpi sge, %left, %c2 : index
    {f"%chosen = scf.if %whole -> {ROWS} {{" if inner == "guarded" else ""}
    %row = tensor.extract_slice %x[{"%j" if inner == "reversed" else "%i"}, 0] [{sizes}, 64] [1, 1]
      : {ROWS} to tensor<{"?" if sizes.startswith("%") else sizes}x64xf32>
    %next = tensor.insert_slice %row into %all[%i, 0] [{sizes}, 64] [1, 1]
      : tensor<{"?" if sizes.startswith("%") else sizes}x64xf32> into {ROWS}
    {f"scf.yield %next : {ROWS} }} else {{ scf.yield %all : {ROWS} }}" if inner == "guarded" else ""}
    scf.yield {"%chosen" if inner == "guarded" else "%next"} : {ROWS}
  }}
  return %r : {ROWS}
}}
"""
    x = numbers(5, 64)
    want = {"[%n - %i, 64]": x, "guarded": np.concatenate([x[:4], 0 * x[:1]]), "reversed": x[::-1]}[inner]
    for build in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        np.testing.assert_array_equal(build.call("f", x, np.zeros((5, 64), "f4"), 5).results[0], want)


def test_slices_in_loops_that_count_without_a_sign() -> None:
    """Where the first index is a large number, there is no iteration, and nothing to refuse."""
    text = f"""
func.func @f(%x: {ROWS}, %y: {ROWS}, %first: index, %end: index) -> {ROWS} {{
  %c2 = arith.constant 2 : index
  %r = scf.for unsigned %i = %first to %end step %c2 iter_args(%all = %y) -> {ROWS} {{
    %row = tensor.extract_slice %x[%i, 0] [2, 64] [1, 1] : {ROWS} to tensor<2x64xf32>
    %next = tensor.insert_slice %row into %all[%i, 0] [2, 64] [1, 1] : tensor<2x64xf32> into {ROWS}
    scf.yield %next : {ROWS}
  }}
  return %r : {ROWS}
}}
"""
    x, y = numbers(6, 64), np.zeros((6, 64), "f4")
    for first, end, rows in ((0, 4, slice(0, 4)), (3, 4, slice(3, 5)), (-2, 4, slice(0, 0)), (4, 2, slice(0, 0))):
        want = y.copy()
        want[rows] = x[rows]
        np.testing.assert_array_equal(results(text, x, y, first, end)[0], want)
    for first, end in ((0, 7), (-4, -2), (0, -1)):
        assert re.match(r"a slice in a loop \(offsets .*\) leaves dimension 0 of 'arg", refused(text, x, y, first, end))


X = numbers(6, 64)
PLACES = [
    ("arith.addi %i, %i : index", lambda i, k, s: 2 * i),
    ("arith.muli %i, %s : index", lambda i, k, s: s * i),
    ("arith.subi %s, %k : index", lambda i, k, s: s - k),
    ("affine.apply affine_map<(i, k) -> (3 * i + k - i)>(%i, %k)", lambda i, k, s: 2 * i + k),
    ("affine.apply affine_map<(i, k)[s] -> (i * s + k + i)>(%i, %k)[%s]", lambda i, k, s: (s + 1) * i + k),
    ("affine.apply affine_map<(i, k)[s] -> (i - i * 3 + k + s)>(%i, %k)[%s]", lambda i, k, s: k + s - 2 * i),
]
"""The row that is copied, in MLIR and in Python; %i and %k are less than %n."""


@pytest.mark.parametrize(("offset", "place"), PLACES, ids=[row[0] for row in PLACES])
def test_offsets_that_are_sums_of_indices(offset: str, place: Callable[[int, int, int], int]) -> None:
    """What is refused is what some iteration would read outside, and nothing else."""
    text = f"""
func.func @f(%x: {ROWS}, %n: index, %s: index) -> {ROWS} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = arith.index_cast %n : index to i32
  %empty = tensor.empty(%n) : {ROWS}
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%rows = %empty) -> {ROWS} {{
    %all = scf.for %short = %zero to %m step %one iter_args(%part = %rows) -> {ROWS} : i32 {{
      %k = arith.index_cast %short : i32 to index
      %j = {offset}
      %row = tensor.extract_slice %x[%j, 0] [1, 64] [1, 1] : {ROWS} to tensor<1x64xf32>
      %next = tensor.insert_slice %row into %part[%i, 0] [1, 64] [1, 1] : tensor<1x64xf32> into {ROWS}
      scf.yield %next : {ROWS}
    }}
    scf.yield %all : {ROWS}
  }}
  return %r : {ROWS}
}}
"""
    gpu, cpu = cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])
    inside = 0
    for n, s in itertools.product(range(5), (-1, 0, 2)):
        places = [place(i, k, s) for i in range(n) for k in range(n)]
        last = [place(i, n - 1, s) for i in range(n)]
        fits = all(0 <= row < 6 for row in places)
        inside += fits
        for program in (gpu, cpu):
            if fits:
                np.testing.assert_array_equal(program.call("f", X, n, s).results[0], X[last])
            else:
                with pytest.raises(cpurun.CallError, match="refused"):
                    program.call("f", X, n, s)
    assert 4 < inside < 15


def test_copies_in_loops_between_arrays_of_other_extents() -> None:
    text = """
func.func @f(%x: memref<?x?xf32>, %y: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %columns = memref.dim %x, %c1 : memref<?x?xf32>
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %x[%i, 0] [1, %columns] [1, 1] : memref<?x?xf32> to memref<?xf32, strided<[1], offset: ?>>
    memref.copy %y, %row : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
  }
  return
}
"""
    for build in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        x = np.zeros((3, 7), "f4")
        build.call("f", x, numbers(7), 2)
        np.testing.assert_array_equal(x, np.stack([numbers(7), numbers(7), 0 * numbers(7)]))
        build.call("f", x, numbers(5), 0)
    message = refused(text, np.zeros((3, 7), "f4"), numbers(5), 2)
    assert message.startswith("extent 0 of what a loop copies (5) is not that of its place (7)"), message


def clipped(loop: str, size: str) -> str:
    """Copies slices of x to y, from %i on, that are cut off at %n, in steps of 3."""
    head, end = {
        "for": ("scf.for %i = %c0 to %m step %c3 {", "}"),
        "forall": ("scf.forall (%i) = (0) to (%m) step (3) {", "}"),
        "affine": ("affine.for %i = 0 to %m step 3 {", "}"),
    }[loop]
    view = "memref<?xf32, strided<[1], offset: ?>>"
    return f"""
func.func @f(%x: memref<?xf32>, %y: memref<?xf32>, %m: index, %n: index) {{
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  {head}
    {size}
    %from = memref.subview %x[%i] [%size] [1] : memref<?xf32> to {view}
    %to = memref.subview %y[%i] [%size] [1] : memref<?xf32> to {view}
    memref.copy %from, %to : {view} to {view}
  {end}
  return
}}
"""


SIZES = {
    "affine.min": "%size = affine.min affine_map<(i)[n] -> (n - i, 3)>(%i)[%n]",
    "arith.minsi": "%left = arith.subi %n, %i : index\n    %size = arith.minsi %left, %c3 : index",
}


@pytest.mark.parametrize("loop", ["for", "forall", "affine"])
@pytest.mark.parametrize("size", SIZES)
def test_slices_in_loops_that_are_cut_off(loop: str, size: str) -> None:
    """What is refused is what some iteration would read or write outside, and nothing else."""
    text, right = clipped(loop, SIZES[size]), 0
    for program in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        for m, n, length in itertools.product(range(-1, 8), range(8), (5, 6)):
            x, y, want = numbers(7), np.zeros(length, "f4"), np.zeros(9, "f4")
            sizes = {i: min(3, n - i) for i in range(0, m, 3)}
            if all(each >= 0 and i + each <= length for i, each in sizes.items()):
                for i, each in sizes.items():
                    want[i : i + each] = x[i : i + each]
                program.call("f", x, y, m, n)
                np.testing.assert_array_equal(y, want[:length])
                right += 1
            else:
                with pytest.raises(
                    cpurun.CallError, match=r"refused: slices in a loop \(offset 0 to end \d, least size"
                ):
                    program.call("f", x, y, m, n)
    assert 100 < right < 250


def test_slices_whose_end_may_fall_are_left_alone() -> None:
    """Whatever an iteration takes, the last one need not be the one that takes most."""
    text = clipped("for", "%size = affine.min affine_map<(i)[n] -> (n - 2 * i, 3)>(%i)[%n]")
    for program in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        x, y = numbers(7), np.zeros(5, "f4")
        program.call("f", x, y, 4, 8)
        np.testing.assert_array_equal(y, x[:5])
