"""Reductions, data movement, and control flow around tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from ops import Op, random, tensor, text

Array = np.ndarray[Any, Any]
I4, F4 = "i4", "f4"


def op(family: str, name: str, arguments: str, results: str, body: str, returned: str, make: Any, reference: Any) -> Op:
    return Op(family, name, text(name, arguments, results, body, returned), make, reference, 1e-4, 1e-4)


CUBE, LONG = (5, 33, 17), (3, 40001)
"""Shapes; rows of the second are shared by several blocks of threads."""


def cube(rng: np.random.Generator) -> tuple[Array]:
    return (random(rng, CUBE),)


def reduced(name: str, axes: tuple[int, ...], combine: str, init: str, reference: Any, element: str = "f32") -> Op:
    """linalg.reduce of a cube over ``axes``."""
    return _reduced("reductions", name, CUBE, axes, (combine, init), reference, element)


def long(name: str, combine: str, init: str, reference: Any, element: str) -> Op:
    """linalg.reduce of few long rows."""
    return _reduced("long_rows", name, LONG, (1,), (combine, init), reference, element)


def _reduced(
    family: str,
    name: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    how: tuple[str, str],
    reference: Any,
    element: str,
) -> Op:
    whole = tensor(shape, element)
    out = tensor(tuple(n for axis, n in enumerate(shape) if axis not in axes), element)
    body = f"""
  %init = arith.constant {how[1]} : {element}
  %e = tensor.empty() : {out}
  %f = linalg.fill ins(%init : {element}) outs(%e : {out}) -> {out}
  %r = linalg.reduce ins(%x : {whole}) outs(%f : {out}) dimensions = {list(axes)}
    (%a: {element}, %acc: {element}) {{
      %s = {how[0]} %a, %acc : {element}
      linalg.yield %s : {element}
    }}"""
    make = lambda rng: (random(rng, shape, element),)  # noqa: E731
    return op(family, name, f"%x: {whole}", out, body, "%r", make, reference)


ARGMAX = """
  %c0 = arith.constant 0 : index
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant -1 : i64
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %ei = tensor.empty(%m) : tensor<?xi64>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %fi = linalg.fill ins(%none : i64) outs(%ei : tensor<?xi64>) -> tensor<?xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                          affine_map<(i, j) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%f, %fi : tensor<?xf32>, tensor<?xi64>) {
  ^bb0(%v: f32, %best: f32, %at: i64):
    %j = linalg.index 1 : index
    %j64 = arith.index_cast %j : index to i64
    %more = arith.cmpf ogt, %v, %best : f32
    %value = arith.select %more, %v, %best : f32
    %index = arith.select %more, %j64, %at : i64
    linalg.yield %value, %index : f32, i64
  } -> (tensor<?xf32>, tensor<?xi64>)"""


def _reductions() -> list[Op]:
    return [
        reduced("sum_first", (0,), "arith.addf", "0.0", lambda x: x.sum(0)),
        reduced("sum_middle", (1,), "arith.addf", "0.0", lambda x: x.sum(1)),
        reduced("sum_last", (2,), "arith.addf", "0.0", lambda x: x.sum(2)),
        reduced("sum_outer", (0, 2), "arith.addf", "0.0", lambda x: x.sum((0, 2))),
        reduced("max_all", (0, 1, 2), "arith.maximumf", "0xFF800000", lambda x: np.asarray(x.max())),
        reduced("min_last", (2,), "arith.minimumf", "0x7F800000", lambda x: x.min(2)),
        reduced("product_i32", (2,), "arith.muli", "1", lambda x: np.multiply.reduce(x, 2, dtype="i4"), "i32"),
        reduced("xor_i8", (1,), "arith.xori", "0", lambda x: np.bitwise_xor.reduce(x, 1), "i8"),
        reduced("any_last", (2,), "arith.ori", "0", lambda x: x.any(2), "i1"),
        op("reductions", "argmax", "%x: tensor<?x?xf32>", "tensor<?xf32>, tensor<?xi64>", ARGMAX, "%r#0, %r#1",
           lambda rng: (random(rng, (33, 65)),), lambda x: (x.max(1), x.argmax(1))),
    ]  # fmt: skip


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _long_rows() -> list[Op]:
    """Of words of 64 and of 32 bits, and of less."""
    softmax = """
  %e = tensor.empty() : tensor<3x40001xf64>
  %r = linalg.softmax dimension(1) ins(%x : tensor<3x40001xf64>) outs(%e : tensor<3x40001xf64>)
      -> tensor<3x40001xf64>"""
    return [
        long("long_sum_f64", "arith.addf", "0.0", lambda x: x.sum(1), "f64"),
        long("long_max_f16", "arith.maximumf", "0xFC00", lambda x: x.max(1), "f16"),
        long("long_xor_i64", "arith.xori", "0", lambda x: np.bitwise_xor.reduce(x, 1), "i64"),
        long("long_xor_i8", "arith.xori", "0", lambda x: np.bitwise_xor.reduce(x, 1), "i8"),
        long("long_any", "arith.ori", "0", lambda x: x.any(1), "i1"),
        op("long_rows", "long_argmax", "%x: tensor<?x?xf32>", "tensor<?xf32>, tensor<?xi64>", ARGMAX, "%r#0, %r#1",
           lambda rng: (random(rng, LONG),), lambda x: (x.max(1), x.argmax(1))),
        op("long_rows", "long_softmax", "%x: tensor<3x40001xf64>", "tensor<3x40001xf64>", softmax, "%r",
           lambda rng: (random(rng, LONG, "f64"),), _softmax),
    ]  # fmt: skip


SIMPLE = {
    "transposed": (
        "%x: tensor<5x33x17xf32>", "tensor<17x5x33xf32>", """
  %e = tensor.empty() : tensor<17x5x33xf32>
  %r = linalg.transpose ins(%x : tensor<5x33x17xf32>) outs(%e : tensor<17x5x33xf32>) permutation = [2, 0, 1]""",
        cube, lambda x: x.transpose(2, 0, 1)),
    "broadcast": (
        "%x: tensor<33xf32>", "tensor<5x33x17xf32>", """
  %e = tensor.empty() : tensor<5x33x17xf32>
  %r = linalg.broadcast ins(%x : tensor<33xf32>) outs(%e : tensor<5x33x17xf32>) dimensions = [0, 2]""",
        lambda rng: (random(rng, (33,)),), lambda x: np.broadcast_to(x[None, :, None], (5, 33, 17))),
    "concatenated": (
        "%x: tensor<3x4xf32>, %y: tensor<2x4xf32>", "tensor<5x4xf32>", """
  %r = tensor.concat dim(0) %x, %y : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>""",
        lambda rng: (random(rng, (3, 4)), random(rng, (2, 4))), lambda x, y: np.concatenate([x, y])),
    "strided_slice": (
        "%x: tensor<20x30xf32>", "tensor<5x9xf32>", """
  %r = tensor.extract_slice %x[2, 1] [5, 9] [3, 3] : tensor<20x30xf32> to tensor<5x9xf32>""",
        lambda rng: (random(rng, (20, 30)),), lambda x: x[2:17:3, 1:28:3]),
    "rank_reduced": (
        "%x: tensor<5x33x17xf32>, %k: index", "tensor<33xf32>", """
  %r = tensor.extract_slice %x[1, 0, %k] [1, 33, 1] [1, 1, 1] : tensor<5x33x17xf32> to tensor<33xf32>""",
        lambda rng: (*cube(rng), 4), lambda x, k: x[1, :, k]),
    "inserted": (
        "%x: tensor<4x5xf32>, %y: tensor<2x2xf32>, %i: index", "tensor<4x5xf32>", """
  %r = tensor.insert_slice %y into %x[%i, 3] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x5xf32>""",
        lambda rng: (random(rng, (4, 5)), random(rng, (2, 2)), 1),
        lambda x, y, i: np.concatenate([x[:i], np.concatenate([x[i:i + 2, :3], y], 1), x[i + 2:]])),
    "expanded": (
        "%x: tensor<15x4xf32>", "tensor<3x5x4xf32>", """
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [3, 5, 4] : tensor<15x4xf32> into tensor<3x5x4xf32>""",
        lambda rng: (random(rng, (15, 4)),), lambda x: x.reshape(3, 5, 4)),
    "padded": (
        "%x: tensor<3x4xf32>, %v: f32", "tensor<6x9xf32>", """
  %r = tensor.pad %x low[1, 2] high[2, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<3x4xf32> to tensor<6x9xf32>""",
        lambda rng: (random(rng, (3, 4)), 2.5), lambda x, v: np.pad(x, ((1, 2), (2, 3)), constant_values=v)),
    "generated": (
        "%n: index", "tensor<?x7xi32>", """
  %r = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    %p = arith.muli %i, %j : index
    %v = arith.index_cast %p : index to i32
    tensor.yield %v : i32
  } : tensor<?x7xi32>""",
        lambda rng: (11,), lambda n: np.outer(np.arange(n), np.arange(7)).astype(I4)),
    "splat": (
        "%v: f32", "tensor<4x3xf32>", "\n  %r = tensor.splat %v : tensor<4x3xf32>",
        lambda rng: (1.25,), lambda v: np.full((4, 3), v, F4)),
    "permuted_rows": (
        "%x: tensor<?x?xf32>, %p: tensor<?xi32>", "tensor<?x?xf32>", """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %p, %c0 : tensor<?xi32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %r = tensor.generate %m, %n {
  ^bb0(%i: index, %j: index):
    %k = tensor.extract %p[%i] : tensor<?xi32>
    %row = arith.index_cast %k : i32 to index
    %v = tensor.extract %x[%row, %j] : tensor<?x?xf32>
    tensor.yield %v : f32
  } : tensor<?x?xf32>""",
        lambda rng: (random(rng, (20, 7)), rng.permutation(20).astype(I4)), lambda x, p: x[p]),
    "gathered": (
        "%x: tensor<20x7xf32>, %at: tensor<4x1xindex>", "tensor<4x1x7xf32>", """
  %r = tensor.gather %x[%at] gather_dims([0]) : (tensor<20x7xf32>, tensor<4x1xindex>) -> tensor<4x1x7xf32>""",
        lambda rng: (random(rng, (20, 7)), rng.integers(0, 20, (4, 1))), lambda x, at: x[at[:, 0]][:, None, :]),
    "packed": (
        "%x: tensor<10x20xf32>", "tensor<3x3x4x8xf32>", """
  %v = arith.constant 7.0 : f32
  %e = tensor.empty() : tensor<3x3x4x8xf32>
  %r = linalg.pack %x padding_value(%v : f32) inner_dims_pos = [0, 1] inner_tiles = [4, 8] into %e
      : tensor<10x20xf32> -> tensor<3x3x4x8xf32>""",
        lambda rng: (random(rng, (10, 20)),),
        lambda x: np.pad(x, ((0, 2), (0, 4)), constant_values=7).reshape(3, 4, 3, 8).transpose(0, 2, 1, 3)),
    "softmax_f64": (
        "%x: tensor<3x5x7xf64>", "tensor<3x5x7xf64>", """
  %e = tensor.empty() : tensor<3x5x7xf64>
  %r = linalg.softmax dimension(1) ins(%x : tensor<3x5x7xf64>) outs(%e : tensor<3x5x7xf64>) -> tensor<3x5x7xf64>""",
        lambda rng: (random(rng, (3, 5, 7), "f64"),), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "copied": (
        "%x: tensor<?x5xf16>", "tensor<?x5xf16>", """
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x5xf16>
  %e = tensor.empty(%n) : tensor<?x5xf16>
  %r = linalg.copy ins(%x : tensor<?x5xf16>) outs(%e : tensor<?x5xf16>) -> tensor<?x5xf16>""",
        lambda rng: (random(rng, (9, 5), "f16"),), lambda x: x),
}  # fmt: skip

CONTROL = {
    "running_sum": (
        "%x: tensor<?xf32>", "tensor<?xf32>", """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.for %i = %c1 to %n step %c1 iter_args(%y = %x) -> tensor<?xf32> {
    %before = arith.subi %i, %c1 : index
    %a = tensor.extract %y[%before] : tensor<?xf32>
    %b = tensor.extract %y[%i] : tensor<?xf32>
    %s = arith.addf %a, %b : f32
    %z = tensor.insert %s into %y[%i] : tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  }""", lambda rng: (random(rng, (19,)),), np.cumsum),
    "power_iteration": (
        "%a: tensor<16x16xf32>, %x: tensor<16xf32>, %steps: index", "tensor<16xf32>", """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16xf32>
  %r = scf.for %i = %c0 to %steps step %c1 iter_args(%y = %x) -> tensor<16xf32> {
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
    %z = linalg.matvec ins(%a, %y : tensor<16x16xf32>, tensor<16xf32>) outs(%f : tensor<16xf32>) -> tensor<16xf32>
    scf.yield %z : tensor<16xf32>
  }""", lambda rng: (random(rng, (16, 16)) / np.float32(8), random(rng, (16,)), 3), lambda a, x, n: a @ (a @ (a @ x))),
    "tiled": (
        "%x: tensor<64x32xf32>", "tensor<64x32xf32>", """
  %e = tensor.empty() : tensor<64x32xf32>
  %r = scf.forall (%i) = (0) to (64) step (16) shared_outs(%o = %e) -> (tensor<64x32xf32>) {
    %in = tensor.extract_slice %x[%i, 0] [16, 32] [1, 1] : tensor<64x32xf32> to tensor<16x32xf32>
    %out = tensor.extract_slice %o[%i, 0] [16, 32] [1, 1] : tensor<64x32xf32> to tensor<16x32xf32>
    %t = linalg.exp ins(%in : tensor<16x32xf32>) outs(%out : tensor<16x32xf32>) -> tensor<16x32xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%i, 0] [16, 32] [1, 1] : tensor<16x32xf32> into tensor<64x32xf32>
    }
  }""", lambda rng: (random(rng, (64, 32)),), np.exp),
    "clamped_index": (
        "%x: tensor<?xf32>, %k: index", "f32", """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %last = arith.subi %n, %c1 : index
  %i = arith.minsi %k, %last : index
  %r = tensor.extract %x[%i] : tensor<?xf32>""", lambda rng: (np.array([1, 2, 4], F4), 7), lambda x, k: 4.0),
}  # fmt: skip

MEMREF = """func.func @saxpy(%a: f32, %x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %p = affine.load %x[%i] : memref<?xf32>
    %q = affine.load %y[%i] : memref<?xf32>
    %m = arith.mulf %a, %p : f32
    %s = arith.addf %m, %q : f32
    affine.store %s, %y[%i] : memref<?xf32>
  }
  return
}
func.func @diagonal(%x: memref<?x?xf32, strided<[?, ?], offset: ?>>, %out: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %out, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i, %i] : memref<?x?xf32, strided<[?, ?], offset: ?>>
    memref.store %v, %out[%i] : memref<?xf32>
    scf.reduce
  }
  return
}
func.func @column_scaled(%x: memref<8x8xf32>, %scale: f32) {
  %s = memref.subview %x[0, 3] [8, 1] [1, 1] : memref<8x8xf32> to memref<8xf32, strided<[8], offset: 3>>
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%s : memref<8xf32, strided<[8], offset: 3>>) {
  ^bb0(%v: f32):
    %m = arith.mulf %v, %scale : f32
    linalg.yield %m : f32
  }
  return
}
"""

TOSA = """func.func @tosa_chain(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = tosa.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = tosa.tanh %s : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = tosa.maximum %t, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @tosa_rows(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %r = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return %r : tensor<4x1xf32>
}
"""


def _group(family: str, table: dict[str, tuple[str, str, str, Any, Any]]) -> list[Op]:
    return [op(family, name, arguments, results, body, "%r", make, reference)
            for name, (arguments, results, body, make, reference) in table.items()]  # fmt: skip


def _tosa() -> list[Op]:
    pair = lambda rng: (random(rng, (4, 8)), random(rng, (4, 8)))  # noqa: E731
    return [
        Op("tosa", "tosa_chain", TOSA, pair, lambda x, y: np.maximum(np.tanh(x + y), x)),
        Op("tosa", "tosa_rows", "", lambda rng: (random(rng, (4, 8)),), lambda x: x.sum(1, keepdims=True), 1e-4, 1e-4),
    ]


STRUCTURE = [*_reductions(), *_long_rows(), *_group("movement", SIMPLE), *_group("control", CONTROL), *_tosa()]
