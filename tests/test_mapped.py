"""Loops that a transform script maps to blocks and threads: launches as they are, right values, located errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpurun import build

from aot import mlir
from aot.errors import LoweringError
from aot.lower import tensor
from aot.lower.analysis import opwalk
from aot.lower.launches import tiling

SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["linalg.exp"]} in %root : (!transform.any_op) -> !transform.any_op
    %add = transform.structured.match ops{["linalg.add"]} in %root : (!transform.any_op) -> !transform.any_op
    %t, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, 1024]
        (mapping = [#gpu.block<y>, #gpu.block<x>]) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %f, %b = transform.structured.fuse_into_containing_op %add into %blocks
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    %u, %threads = transform.structured.tile_using_forall %t tile_sizes [0, 4] (mapping = [#gpu.thread<x>])
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %g, %c = transform.structured.fuse_into_containing_op %f into %threads
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  func.func @f(%x: tensor<?x4096xf32>, %y: tensor<?x4096xf32>) -> tensor<?x4096xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x4096xf32>
    %e = tensor.empty(%n) : tensor<?x4096xf32>
    %r = linalg.add ins(%x, %y : tensor<?x4096xf32>, tensor<?x4096xf32>)
        outs(%e : tensor<?x4096xf32>) -> tensor<?x4096xf32>
    %s = linalg.exp ins(%r : tensor<?x4096xf32>) outs(%e : tensor<?x4096xf32>) -> tensor<?x4096xf32>
    return %s : tensor<?x4096xf32>
  }
}"""
TURNED = """
func.func @turned(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %x, %c0 : memref<?x?xf32>
  %n = memref.dim %x, %c1 : memref<?x?xf32>
  scf.forall (%i, %j) = (0, 0) to (%m, %n) step (4, 8) {{
    %tile = memref.alloc() : memref<4x8xf32, #gpu.address_space<workgroup>>
    scf.forall (%a, %b) in (4, 8) {{
      %p = arith.addi %i, %a : index
      %q = arith.addi %j, %b : index
      %v = memref.load %x[%p, %q] : memref<?x?xf32>
      memref.store %v, %tile[%a, %b] : memref<4x8xf32, #gpu.address_space<workgroup>>
    }} {{mapping = [{first}]}}
    scf.forall (%b, %h) in (8, 2) {{
      %c2 = arith.constant 2 : index
      %twice = arith.muli %h, %c2 : index
      scf.for %k = %c0 to %c2 step %c1 {{
        %a = arith.addi %twice, %k : index
        %p = arith.addi %i, %a : index
        %q = arith.addi %j, %b : index
        %v = memref.load %tile[%a, %b] : memref<4x8xf32, #gpu.address_space<workgroup>>
        memref.store %v, %y[%q, %p] : memref<?x?xf32>
      }}
    }} {{mapping = [{second}]}}
  }} {{mapping = [{blocks}]}}
  return
}}"""
XY, LINEAR = "#gpu.{0}<y>, #gpu.{0}<x>", "#gpu.{0}<linear_dim_1>, #gpu.{0}<linear_dim_0>"
FORMS = [(XY, XY, XY), (LINEAR, XY, LINEAR), (XY, LINEAR, XY), (LINEAR, LINEAR, LINEAR)]


def launches(source: str) -> list[tuple[str, str]]:
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "kernels/test.mlir", ctx)
        done = tensor.lower(module, {}, tensor.Options(), mlir.no_dump)
        found = opwalk.named(done.module, "gpu.launch")
        return [(tiling.schedule_of(op), each.text()) for op in found if (each := tiling.read(op)) is not None]


def test_a_script_lays_out_the_whole_work() -> None:
    assert launches(SCRIPT) == [("script", "threads 256, threads-y 1, threads-z 1")]
    x, y = np.random.default_rng(1).standard_normal((2, 3, 4096)).astype("f4")
    np.testing.assert_allclose(build(SCRIPT).call("f", x, y).results[0], np.exp(x + y), rtol=1e-5)


@pytest.mark.parametrize("forms", FORMS)
@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_threads_and_shared_memory(forms: tuple[str, str, str], *, backwards: bool) -> None:
    blocks, first, second = forms
    source = TURNED.format(blocks=blocks.format("block"), first=first.format("thread"), second=second.format("thread"))
    x = np.random.default_rng(2).standard_normal((12, 24)).astype("f4")
    y = np.zeros((24, 12), "f4")
    build(source, backwards=backwards).call("turned", x, y)
    np.testing.assert_array_equal(y, x.T)


def nested(inner: str, mapping: str = "#gpu.block<x>") -> str:
    return f"""func.func @f(%x: memref<?xf32>, %n: index) {{
  %one = arith.constant 1.0 : f32
  scf.forall (%i) in (%n) {{
    {inner}
  }} {{mapping = [{mapping}]}}
  return
}}"""


THREADS = "scf.forall (%j) in ({0}) {{ memref.store %one, %x[%j] : memref<?xf32> }} {{mapping = [{1}]}}"
REFUSED = [
    (
        "another mapping",
        nested(THREADS.format("4", "#gpu.warp<x>")),
        r":4:\d+: error: mapping #gpu\.warp<x> is not known",
    ),
    (
        "unknown threads",
        nested(THREADS.format("%n", "#gpu.thread<x>")),
        r":4:\d+: error: the number of threads must be",
    ),
    (
        "too many",
        nested(THREADS.format("2000", "#gpu.thread<x>")),
        r":3:\d+: error: 2000 threads in a block; at most 1024",
    ),
    ("blocks in blocks", nested(THREADS.format("4", "#gpu.block<y>")), r":4:\d+: error: .* must be mapped to threads"),
    (
        "work of the block",
        nested(THREADS.format("4", "#gpu.thread<x>") + "\n memref.store %one, %x[%i] : memref<?xf32>"),
        r":5:\d+: error: 'memref\.store' is mapped to blocks, but not to threads",
    ),
    (
        "a large buffer",
        nested(
            "%b = memref.alloc() : memref<4096xf32>\n memref.store %one, %b[%i] : memref<4096xf32>\n"
            " %v = memref.load %b[%i] : memref<4096xf32>\n memref.store %v, %x[%i] : memref<?xf32>"
        ),
        r":4:\d+: error: a buffer of 16384 bytes .* memory space #gpu\.address_space<workgroup>",
    ),
    (
        "an extent of a buffer",
        nested(
            "%b = memref.alloc(%n) : memref<?xf32>\n memref.store %one, %b[%i] : memref<?xf32>\n"
            " %v = memref.load %b[%i] : memref<?xf32>\n memref.store %v, %x[%i] : memref<?xf32>"
        ),
        r":4:\d+: error: a buffer inside a kernel needs static extents",
    ),
]


@pytest.mark.parametrize(("source", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_be_launched_is_told_with_its_place(source: str, message: str) -> None:
    with pytest.raises(LoweringError) as error:
        launches(source)
    text = "\n".join(each.text() for each in error.value.diagnostics)
    assert re.search(message, text), text
