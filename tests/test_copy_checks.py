"""Parts that are put together, and arrays that are copied, have the extents that they must have, or the call fails."""

from __future__ import annotations

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
    program = cpurun.build(text)
    with pytest.raises(cpurun.CallError, match="assertion") as caught:
        program.call("f", *arguments)
    with pytest.raises(cpurun.CallError, match="assertion"):
        cpucall.build(text, cpucall.runnable()[0]).call("f", *arguments)
    return program.lowered.messages[int(str(caught.value).split()[-1])]


@pytest.mark.parametrize("operation", CONCATENATIONS, ids=["tensor", "tosa"])
def test_parts_of_other_extents(operation: str) -> None:
    text = CONCATENATED.format(operation)
    x, y = numbers(5, 7), numbers(5, 3)
    np.testing.assert_array_equal(results(text, x, y)[0], np.concatenate([x, y], 1))
    for rows in (4, 6):
        message = refused(text, x, numbers(rows, 3))
        assert message.startswith("dimension 0 of 'arg1' must be dimension 0 of 'arg0'"), message


def test_parts_that_do_not_fill_the_result() -> None:
    x, y = numbers(5, 7), numbers(5, 1)
    np.testing.assert_array_equal(results(NAMED, x, y)[0], np.concatenate([x, y], 1))
    assert refused(NAMED, x, numbers(5, 3)).startswith("dimension 1 of tensor.concat must be 8")


def test_slices_that_are_larger_than_what_is_put_into_them() -> None:
    x, y = numbers(5, 7), numbers(2, 3)
    want = x.copy()
    want[:2, :3] = y
    np.testing.assert_array_equal(results(INSERTED, x, y, 2)[0], want)
    assert refused(INSERTED, x, y, 4).startswith("dimension 0 of 'arg1' must be that of the slice it becomes")
    want = x.copy()
    want[0, :3] = y[1]
    np.testing.assert_array_equal(results(ROW, x, y[1].copy(), 3)[0], want)
    assert refused(ROW, x, y[1].copy(), 2).startswith("dimension 0 of 'arg1' must be that of the slice it becomes")


def test_copies_between_arrays_of_other_extents() -> None:
    y = np.zeros(5, "f4")
    results(COPIED, numbers(5), y)
    np.testing.assert_array_equal(y, numbers(5))
    assert refused(COPIED, numbers(7), y).startswith("dimension 0 of 'arg0' must be dimension 0 of 'arg1'")
