"""Values of permutations, alone and with work on them, on the CPU: all widths of elements, awkward extents, gaps."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpurun import Program, build

DTYPES = {
    "f16": np.dtype("f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "i8": np.dtype("i1"),
    "i1": np.dtype(bool),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
}
MANY = (0, 2, 1)
PERMUTATIONS = ((1, 0), (2, 1, 0), (1, 2, 0), MANY, (0, 2, 1, 3), (3, 0, 2, 1))
EXTENTS = (16, 130, 7, 48)
SHAPES = ((1, 1), (3, 5), (4, 300), (300, 3), (64, 32), (33, 70), (160, 128), (130, 144), (0, 5), (5, 0))


def permuted(permutation: tuple[int, ...], kind: str) -> str:
    rank = "?x" * len(permutation)
    return f"""
func.func @permuted_{"".join(map(str, permutation))}(%x: tensor<{rank}{kind}>, %o: tensor<{rank}{kind}>)
    -> tensor<{rank}{kind}> {{
  %r = linalg.transpose ins(%x : tensor<{rank}{kind}>) outs(%o : tensor<{rank}{kind}>) permutation = {list(permutation)}
  return %r : tensor<{rank}{kind}>
}}
"""


@functools.cache
def program(kind: str) -> Program:
    return build("\n".join(permuted(each, kind) for each in PERMUTATIONS), backwards=kind == "i8")


def numbers(extents: tuple[int, ...], kind: str) -> Any:
    return np.random.default_rng(1).integers(0, 2 if kind == "i1" else 100, extents).astype(DTYPES[kind])


@pytest.mark.parametrize("kind", DTYPES)
def test_permutations(kind: str) -> None:
    assert not program(kind).lowered.notes
    for permutation in PERMUTATIONS:
        name = "permuted_" + "".join(map(str, permutation))
        shapes = SHAPES if permutation == (1, 0) else (EXTENTS[: len(permutation)], EXTENTS[-len(permutation) :])
        for shape in shapes:
            x = numbers(shape, kind)
            want = x.transpose(permutation)
            got = program(kind).call(name, x, np.ones(want.shape, DTYPES[kind])).results[0]
            np.testing.assert_array_equal(got, want, err_msg=f"{name} {shape}")


@pytest.mark.parametrize("kind", ["f16", "f32", "i8"])
def test_more_tiles_than_multiprocessors(kind: str) -> None:
    x = numbers((100, 144, 16), kind)
    got = program(kind).call("permuted_021", x, np.ones((100, 16, 144), DTYPES[kind])).results[0]
    np.testing.assert_array_equal(got, x.transpose(MANY))


WORK = """
#whole = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @worked(%x: memref<?x?xSOURCE, strided<[?, 1], offset: ?>>, %y: memref<?x?xSOURCE>, %z: memref<?x?xf32>,
    %r: memref<?xf32>, %c: memref<?xf32>, %s: f32, %o: memref<?x?xRESULT, strided<[?, 1], offset: ?>>) {
  linalg.generic {indexing_maps = [#turned, #turned, #whole, #row, #column, affine_map<(i, j) -> ()>, #whole],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %y, %z, %r, %c, %s : memref<?x?xSOURCE, strided<[?, 1], offset: ?>>, memref<?x?xSOURCE>, memref<?x?xf32>,
          memref<?xf32>, memref<?xf32>, f32) outs(%o : memref<?x?xRESULT, strided<[?, 1], offset: ?>>) {
  ^bb0(%a: SOURCE, %b: SOURCE, %d: f32, %e: f32, %f: f32, %g: f32, %old: RESULT):
    %h = WIDEN %a : SOURCE to f32
    %i = WIDEN %b : SOURCE to f32
    %0 = arith.addf %h, %i : f32
    %1 = arith.mulf %0, %g : f32
    %2 = arith.addf %1, %d : f32
    %3 = arith.addf %2, %e : f32
    %4 = arith.addf %3, %f : f32
    %5 = arith.truncf %4 : f32 to RESULT
    linalg.yield %5 : RESULT
  }
  return
}
func.func @loops_of_the_source(%x: memref<?x?xSOURCE>, %o: memref<?x?xSOURCE>) {
  linalg.generic {indexing_maps = [#whole, #turned], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x?xSOURCE>) outs(%o : memref<?x?xSOURCE>) {
  ^bb0(%a: SOURCE, %old: SOURCE):
    linalg.yield %a : SOURCE
  }
  return
}
"""


@pytest.mark.parametrize(("source", "widen"), [("f16", "arith.extf"), ("i8", "arith.sitofp")])
def test_work_on_permuted_operands(source: str, widen: str) -> None:
    built = build(WORK.replace("SOURCE", source).replace("RESULT", "bf16").replace("WIDEN", widen))
    assert not built.lowered.notes
    random = np.random.default_rng(2)
    for m, n in ((1, 1), (5, 40), (64, 160), (130, 16)):
        for pitch in (0, 16, 3):
            x = random.integers(-4, 5, (n, m + pitch)).astype(DTYPES[source])[:, pitch:]
            y = random.integers(-4, 5, (n, m)).astype(DTYPES[source])
            z, r, c = (random.integers(-4, 5, extents).astype("f4") for extents in ((m, n), (m,), (n,)))
            o = np.zeros((m, n + pitch), DTYPES["bf16"])
            built.call("worked", x, y, z, r, c, 2.0, o[:, pitch:])
            want = 2 * (x.astype("f4").T + y.astype("f4").T) + z + r[:, None] + c
            np.testing.assert_array_equal(o[:, pitch:].astype("f4"), want, err_msg=str((m, n, pitch)))
            assert not o[:, :pitch].any()
        o = np.zeros((m, n), DTYPES[source])
        built.call("loops_of_the_source", y, o)
        np.testing.assert_array_equal(o, y.T)
