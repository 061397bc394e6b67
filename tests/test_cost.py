"""Bytes and operations of a call, as polynomials in the extents of its arguments."""

from __future__ import annotations

from pathlib import Path

import lowering
import pytest

from aot.model import Function, Term

ROOT = Path(__file__).parents[1]


def lowered(source: str, name: str) -> Function:
    return lowering.lower((ROOT / source).read_text()).function(name)


def text(terms: tuple[Term, ...] | None) -> str | None:
    """``2*a0*a1 + 8``: ``a0`` is axis 0 of the first argument."""
    if terms is None:
        return None
    return " + ".join("*".join([str(t.factor), *(f"{'abcd'[n]}{axis}" for n, axis in t.dims)]) for t in terms)


KNOWN = [
    ("examples/kernels/matmul.mlir", "matmul", "4*a0*a1 + 4*b0*b1", "4*a0*b1", "2*a0*a1*b1", "1*a1"),
    ("examples/kernels/matmul.mlir", "matmul_f16", "2*a0*a1 + 2*b0*b1", "4*a0*b1", "2*a0*a1*b1", "1*a1"),
    ("examples/kernels/softmax.mlir", "softmax", "4*a0*a1", "4*a0*a1", "5*a0*a1", "2*a1"),
    ("examples/kernels/vector_add.mlir", "vector_add", "4*a0 + 4*b0", "4*a0", "1*a0", ""),
    ("examples/kernels/square.mlir", "square", "400", "400", "100", ""),
    ("tests/cases/embedding.mlir", "embedding", "2*a1*b0 + 8*b0", "2*a1*b0", "", ""),
    ("tests/cases/masks.mlir", "where", "1*a0*a1 + 4*b0*b1", "4*b0*b1", "", ""),
    ("tests/cases/newton_sqrt.mlir", "newton_sqrt", "4*a0", None, None, "1*a0"),
]


@pytest.mark.parametrize(
    ("source", "name", "read", "written", "operations", "reduction"), KNOWN, ids=[row[1] for row in KNOWN]
)
def test_costs(
    source: str, name: str, read: str, written: str | None, operations: str | None, reduction: str | None
) -> None:
    cost = lowered(source, name).cost
    assert cost is not None
    found = (text(cost.read), text(cost.written), text(cost.operations), text(cost.reduction))
    assert found == (read, written, operations, reduction)


def test_a_loop_over_an_extent_counts_and_one_over_data_does_not() -> None:
    source = """
    func.func @repeat(%x: tensor<?xf32>, %times: index) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %y = scf.for %i = %c0 to BOUND step %c1 iter_args(%acc = %x) -> tensor<?xf32> {
        %next = arith.addf %acc, %acc : tensor<?xf32>
        scf.yield %next : tensor<?xf32>
      }
      return %y : tensor<?xf32>
    }
    """
    by_extent, by_data = (
        lowering.lower(source.replace("BOUND", bound)).function("repeat").cost for bound in ("%n", "%times")
    )
    assert by_extent is not None
    assert text(by_extent.operations) == "1*a0*a0"
    assert by_data is not None
    assert by_data.operations is None


def test_functions_on_buffers_say_what_they_write() -> None:
    source = """
    func.func @twice(%x: memref<?xf32>, %y: memref<?xf32>) {
      linalg.add ins(%x, %x : memref<?xf32>, memref<?xf32>) outs(%y : memref<?xf32>)
      return
    }
    """
    cost = lowering.lower(source).function("twice").cost
    assert cost is not None
    assert (text(cost.read), text(cost.written), text(cost.operations)) == ("4*a0", "4*b0", "1*a0")


def test_launch_level_functions_have_none() -> None:
    assert lowered("examples/kernels/smooth.mlir", "smooth").cost is None


def test_a_condition_goes_to_the_runtime_as_a_whole_byte() -> None:
    done = lowering.lower((ROOT / "examples/kernels/vector_add.mlir").read_text())
    assert "declare void @aot_rt_assert(i1 zeroext, i32)" in done.host_ir


@pytest.mark.parametrize("bits", [8, 32])
def test_extents_by_numbers_that_may_wrap_are_not_known(bits: int) -> None:
    source = """
    func.func @f(%x: tensor<?xf32>, %v: f32) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %few = arith.index_cast %n : index to iBITS
      %m = arith.index_castui %few : iBITS to index
      %e = tensor.empty(%m) : tensor<?xf32>
      %r = linalg.fill ins(%v : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }
    """
    function = lowering.lower(source.replace("BITS", str(bits))).function("f")
    (extent,) = function.results[0].extents
    assert (extent is None) == (bits < 32)
