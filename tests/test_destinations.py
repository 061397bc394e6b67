"""Destinations are what the source says, whatever its own passes and scripts make of it."""

from __future__ import annotations

import pytest
from cpucall import TRIPLE

from aot import lower as lowering
from aot import mlir
from aot.lower.analysis import opwalk

KIND = "tensor<4096xf32>"
SCRIPT = """
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["linalg.exp"]} in %root : (!transform.any_op) -> !transform.any_op
    %tile, %loop = transform.structured.tile_using_forall %op tile_sizes [256] (mapping = [#gpu.block<x>])
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
"""
EXP = f"""
  func.func private @inner(%x: {KIND}, %out: {KIND}) -> {KIND} {{
    %s = linalg.exp ins(%x : {KIND}) outs(%out : {KIND}) -> {KIND}
    return %s : {KIND}
  }}
  func.func @f(%x: {KIND}, %out: {KIND}) -> {KIND} {{
    %s = func.call @inner(%x, %out) : ({KIND}, {KIND}) -> {KIND}
    return %s : {KIND}
  }}
"""
SUM = f"""
  func.func @f(%x: {KIND}, %y: {KIND}) -> {KIND} {{
    %s = arith.addf %x, %y : {KIND}
    return %s : {KIND}
  }}
"""
WITH_SCRIPT = f"module attributes {{transform.with_named_sequence}} {{{SCRIPT}{EXP}}}"
NESTED = f"module attributes {{transform.with_named_sequence}} {{{SCRIPT} module {{{EXP}}} }}"
FUSED = ("inline", "canonicalize", "func.func(linalg-generalize-named-ops)", "func.func(linalg-fuse-elementwise-ops)")
TO_BUFFERS = "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map}"
ROLES = [
    ("nothing", EXP, (), ["in", "destination"], 1),
    ("a script", WITH_SCRIPT, (), ["in", "destination"], 1),
    ("a script, in a module inside", NESTED, (), ["in", "destination"], 1),
    ("passes", EXP, FUSED, ["in", "destination"], 1),
    ("a pass that makes operations with outs", SUM, ("convert-elementwise-to-linalg",), ["in", "in"], None),
    ("passes that change the signature", EXP, ("inline", TO_BUFFERS), ["ref", "ref"], 1),
]


@pytest.mark.parametrize(("source", "passes", "roles", "result"), [row[1:] for row in ROLES], ids=[r[0] for r in ROLES])
def test_roles(source: str, passes: tuple[str, ...], roles: list[str], result: int | None) -> None:
    with mlir.context() as ctx:
        module = mlir.parse(source.encode(), "kernels/test.mlir", ctx)
        done = lowering.lower(module, lowering.Request("test", {}, passes=passes, cpus=(TRIPLE,)), mlir.no_dump)
        (function,) = done.functions
        assert [each.role for each in function.args] == roles
        assert [each.argument for each in function.results] == [result]
        # What is computed right in its place needs no copy.
        assert len(opwalk.named(done.host, "gpu.launch_func")) == 1
        assert "aot.destinations" not in str(done.host)
