"""Tensors that loops carry are values: neither the caller's arrays nor other tensors change with them."""

from __future__ import annotations

from dataclasses import dataclass

import cpucall
import numpy
import pytest
from cpurun import build

T = "tensor<4xi64>"
FOR = f"""
func.func @f(%a: {T}, %b: {T}, %n: index) -> {T} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k0 = arith.constant 0 : i64
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %a, %s = %b) -> ({T}, {T}) {{
    %u = tensor.insert %k0 into %t[%c1] : {T}
    STEP
  }}
  return %r#0 : {T}
}}"""
WHILE = f"""
func.func @f(%a: {T}, %b: {T}, %n: i64) -> {T} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k0 = arith.constant 0 : i64
  %k1 = arith.constant 1 : i64
  %big = arith.cmpi sgt, %n, %k1 : i64
  %e = tensor.empty() : {T}
  %l = linalg.add ins(%a, %b : {T}, {T}) outs(%e : {T}) -> {T}
  %k = arith.constant dense<[9, 8, 7, 6]> : {T}
  %r:2 = scf.while (%i = %n, %t = %a) : (i64, {T}) -> (i64, {T}) {{
    %u = tensor.insert %i into %t[%c1] : {T}
    %go = arith.cmpi sgt, %i, %k0 : i64
    scf.condition(%go) %i, %u : i64, {T}
  }} do {{
  ^bb0(%i: i64, %t: {T}):
    %d = arith.subi %i, %k1 : i64
    STEP
  }}
  return RESULT : {T}
}}"""


@dataclass(frozen=True)
class Loop:
    name: str
    source: str
    expected: list[int]


def repeated(name: str, step: str, expected: list[int]) -> Loop:
    return Loop(f"for: {name}", FOR.replace("STEP", step), expected)


def conditional(name: str, step: str, expected: list[int], result: str = "%r#1") -> Loop:
    return Loop(f"while: {name}", WHILE.replace("STEP", step).replace("RESULT", result), expected)


LOOPS = [
    repeated("an argument is handed on", f"scf.yield %b, %u : {T}, {T}", [5, 6, 7, 8]),
    repeated("two exchange places", f"scf.yield %s, %u : {T}, {T}", [5, 0, 7, 8]),
    conditional("an argument is handed on", f"scf.yield %d, %b : i64, {T}", [5, 0, 7, 8]),
    conditional("a constant is handed on", f"scf.yield %d, %k : i64, {T}", [9, 0, 7, 6]),
    conditional("a tensor of the function is handed on", f"scf.yield %d, %l : i64, {T}", [6, 0, 10, 12]),
    conditional("and is read after the loop", f"scf.yield %d, %l : i64, {T}", [6, 8, 10, 12], "%l"),
    conditional(
        "written before it is handed on",
        f"%w = tensor.insert %i into %l[%c0] : {T}\nscf.yield %d, %w : i64, {T}",
        [1, 0, 10, 12],
    ),
    conditional(
        "one of two, by a branch",
        f"""%w = scf.if %big -> {T} {{
          %v = tensor.insert %i into %t[%c0] : {T}
          %x = tensor.extract %v[%c1] : {T}
          %q = arith.cmpi sgt, %x, %k0 : i64
          %z = arith.select %q, %b, %t : {T}
          scf.yield %z : {T} }} else {{ scf.yield %t : {T} }}
        scf.yield %d, %w : i64, {T}""",
        [5, 0, 7, 8],
    ),
    conditional(
        "through a loop inside",
        f"""%w = scf.for %j = %c0 to %c1 step %c1 iter_args(%z = %b) -> {T} {{
          %q = arith.cmpi sgt, %i, %k0 : i64
          %y = arith.select %q, %z, %t : {T}
          scf.yield %y : {T} }}
        scf.yield %d, %w : i64, {T}""",
        [5, 0, 7, 8],
    ),
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_carried_tensors(loop: Loop) -> None:
    a, b = numpy.array([1, 2, 3, 4]), numpy.array([5, 6, 7, 8])
    got = build(loop.source).call("f", a, b, 3)
    assert got.results[0].tolist() == loop.expected
    assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    assert got.swept == 0


def test_a_loop_inside_a_loop_that_carries_an_argument() -> None:
    source = f"""
    func.func @f(%a: {T}, %b: {T}, %n: i64) -> {T} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %k0 = arith.constant 0 : i64
      %k1 = arith.constant 1 : i64
      %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%o = %b) -> {T} {{
        %s:2 = scf.while (%i = %n, %t = %a) : (i64, {T}) -> (i64, {T}) {{
          %u = tensor.insert %i into %t[%c1] : {T}
          %go = arith.cmpi sgt, %i, %k0 : i64
          scf.condition(%go) %i, %u : i64, {T}
        }} do {{
        ^bb0(%i: i64, %t: {T}):
          %d = arith.subi %i, %k1 : i64
          scf.yield %d, %o : i64, {T}
        }}
        %x = tensor.extract %s#1[%c1] : {T}
        %y = tensor.extract %o[%c1] : {T}
        %z = arith.addi %x, %y : i64
        %w = tensor.insert %z into %o[%c0] : {T}
        scf.yield %w : {T}
      }}
      return %r : {T}
    }}"""
    a, b = numpy.array([1, 2, 3, 4]), numpy.array([5, 6, 7, 8])
    assert build(source).call("f", a, b, 2).results[0].tolist() == [6, 6, 7, 8]
    assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4], [5, 6, 7, 8])


def test_loops_that_count_without_a_sign() -> None:
    """A maximum, which CPU code finds in a loop of its own making."""
    text = """
func.func @f(%x: memref<?xf32>, %first: index, %end: index) -> f32 {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for unsigned %i = %first to %end step %c1 iter_args(%most = %zero) -> f32 {
    %value = memref.load %x[%i] : memref<?xf32>
    %next = arith.maximumf %value, %most : f32
    scf.yield %next : f32
  }
  return %r : f32
}
"""
    x = numpy.array([3, 7, 5], "f4")
    for program in (build(text), cpucall.build(text, cpucall.runnable()[0])):
        found = [program.call("f", x, *ends).results[0] for ends in ((0, 3), (2, 3), (-2, 3), (3, 0))]
        assert found == [7, 5, 0, 0]
