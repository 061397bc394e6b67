"""Branches around what is emitted: which there are, and which conditions are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.launches import branches

SOURCE = b"func.func @f(%a: i1, %b: i1) { return }"


def shape(block: ir.Block) -> list[Any]:
    """Numbers that are emitted, and of each branch both sides."""
    found: list[Any] = []
    for op in (each.operation for each in block.operations):
        if op.name == "arith.constant":
            found.append(ir.IntegerAttr(op.attributes["value"]).value)
        elif op.name == "scf.if":
            found.append(tuple(shape(each) for region in op.regions for each in region.blocks))
    return found


def emitted(emit: Callable[[dict[Any, Any], Callable[[int], None]], None]) -> list[Any]:
    with mlir.context() as ctx:
        module = mlir.parse(SOURCE, "test.mlir", ctx)
        block = module.body.operations[0].regions[0].blocks[0]
        values = {True: True, False: False, "a": block.arguments[0], "b": block.arguments[1]}
        with ir.InsertionPoint.at_block_terminator(block), ir.Location.unknown():
            emit(values, lambda number: arith.ConstantOp(ir.IntegerType.get_signless(32), number))
        mlir.verify(module, "test")
        return shape(block)


@pytest.mark.parametrize(
    ("condition", "expected"), [(True, [0]), (False, [1]), ("a", [([0], [1])])], ids=["then", "otherwise", "both"]
)
def test_one_of_two(condition: Any, expected: list[Any]) -> None:
    assert emitted(lambda of, put: branches.either(of[condition], partial(put, 0), partial(put, 1))) == expected


FIRST = [
    pytest.param([], [], 0, id="no choice"),
    pytest.param([True, "a"], [0], 1, id="certain"),
    pytest.param([False, True, "a"], [1], 2, id="certain behind an impossible one"),
    pytest.param(["a", True, "b"], [([0], [1])], 2, id="nothing is asked behind a certain one"),
    pytest.param(["a", False, "b", True], [([0], [([2], [3])])], 4, id="the next one is asked in the other branch"),
    pytest.param(["a", "b"], [([0], [([1], [])])], 2, id="none may hold"),
    pytest.param([False], [], 1, id="none holds"),
]


@pytest.mark.parametrize(("conditions", "expected", "asked"), FIRST)
def test_the_first_that_holds(conditions: list[Any], expected: list[Any], asked: int) -> None:
    taken: list[Any] = []

    def emit(of: dict[Any, Any], put: Callable[[int], None]) -> None:
        def choices() -> Iterator[tuple[Any, Callable[[], None]]]:
            for number, condition in enumerate(conditions):
                taken.append(condition)
                yield of[condition], partial(put, number)

        branches.first(choices())

    assert emitted(emit) == expected
    assert taken == conditions[:asked]


@pytest.mark.parametrize(("condition", "expected"), [(None, [0, 1]), ("a", [([0],), 1])], ids=["none", "a value"])
def test_a_guard_holds_what_is_emitted_in_it(condition: Any, expected: list[Any]) -> None:
    def emit(of: dict[Any, Any], put: Callable[[int], None]) -> None:
        with branches.guard(of.get(condition)):
            put(0)
        put(1)

    assert emitted(emit) == expected


def test_values_of_one_of_two_ways() -> None:
    """What a way gives is yielded in its branch, and values that stay come from outside."""
    with mlir.context() as ctx:
        module = mlir.parse(b"func.func @f(%a: i1, %old: i32) { return }", "test.mlir", ctx)
        block = module.body.operations[0].regions[0].blocks[0]
        condition, old = block.arguments
        with ir.InsertionPoint.at_block_terminator(block), ir.Location.unknown():
            (found,) = branches.changed(condition, [old], lambda: [arith.AddIOp(old, old).result])
        mlir.verify(module, "test")
        then, otherwise = (list(each.blocks[0].operations)[-1].operands[0] for each in found.owner.regions)
        assert (then.owner.name, otherwise) == ("arith.addi", old)
