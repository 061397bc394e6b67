"""Outermost parallel loops become functions that several threads may run, each for a part of the iterations.

In: functions with ``scf.parallel``. Out: for every outermost nest a private function
``@aot_cpu_body_<n>(%begin, %end, captured...)`` that runs iterations ``begin`` to ``end`` of all its loops but the
innermost (of the only one, if it is one), and in its place a call with ``(%count, %grain, captured...)``: ``code``
makes a call of ``aot_rt_parallel`` of it. ``grain`` is how many iterations are worth a thread.

Iterations do not depend on each other, so results do not depend on how many threads share them. A nest that calls
(the runtime, for memory or an assertion) stays with the caller's thread: only there can a call fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, scf

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.cpu import work
from aot.lower.hostmodule import rtcalls
from aot.lower.launches.nests import Loops, move_body, product, scratch_to_stack, to_loops, trips

BODY = "aot_cpu_body_"
"""Start of the names of outlined bodies."""
_SCRATCH_BYTES = 1 << 16
"""Largest buffer that lives in an iteration and is put on the stack of its thread."""
_CONSTANTS = frozenset({"arith.constant", "memref.get_global"})
"""Repeated in a body instead of handed over."""
_HOST_ONLY = frozenset({"func.call", "cf.assert", "memref.alloc", "memref.dealloc", "vector.print", "gpu.printf"})


def outline(module: ir.Module) -> tuple[str, ...]:
    """Outline all outermost nests; names of the bodies."""
    names: list[str] = []
    while nests := [op for op in mlir.walk(module) if _is_outermost(op)]:
        for nest in nests:
            scratch_to_stack(nest, _SCRATCH_BYTES)
            if {op.name for op in mlir.walk(nest)} & _HOST_ONLY:
                to_loops(nest)
            else:
                names.append(f"{BODY}{len(names)}")
                _outline(nest, names[-1], module)
    for op in mlir.walk(module):
        if op.name == "scf.parallel" and not len(op.results):
            to_loops(op)
    return tuple(names)


def _is_outermost(op: ir.Operation) -> bool:
    """In a function of the source, not in another parallel loop; one with results runs where it stands."""
    if op.name != "scf.parallel" or len(op.results):
        return False
    parents = mlir.parents(op)
    return not any(
        each.name == "scf.parallel" or (each.name == "func.func" and mlir.symbol_name(each).startswith(BODY))
        for each in parents
    )


def _outline(nest: ir.Operation, name: str, module: ir.Module) -> None:
    loops = Loops.of(nest)
    with ir.InsertionPoint(nest), nest.location:
        extents = [trips(*bounds) for bounds in loops.bounds]
        shared = extents if _is_heavy(nest) else extents[:-1] or extents
        count = product(shared)
        inner = extents[len(shared) :]
        grain = work.grain(inner, nest)
        captured = _captured(nest, [*shared, *(value for bounds in loops.bounds for value in bounds)])
        index = ir.IndexType.get()
        types = [index, index, *(value.type for value in captured)]
        with ir.InsertionPoint(module.body):
            body = func.FuncOp(name, ir.FunctionType.get(types, []), visibility="private")
        func.CallOp([], name, [count, grain, *captured])
    block = body.add_entry_block()
    inside = dict(zip(captured, list(block.arguments)[2:], strict=True))
    with ir.InsertionPoint(block), nest.location:
        end = func.ReturnOp([]).operation
    _fill(nest, _Body(block, end, inside, tuple(shared)), loops)


def _is_heavy(nest: ir.Operation) -> bool:
    """Whether an iteration has loops of unknown length in it: then it pays to find its place by divisions."""
    loops = [op for op in mlir.walk(nest) if op.name == "scf.for"]
    return any(literals.whole(value) is None for op in loops for value in list(op.operands)[:2])


@dataclass(frozen=True)
class _Body:
    """An outlined function being made."""

    block: ir.Block
    end: ir.Operation
    inside: dict[ir.Value, ir.Value]
    """Captured value -> the function's argument."""
    shared: tuple[ir.Value, ...]
    """Extents of the loops that threads share, outside."""

    def value(self, outer: ir.Value) -> ir.Value:
        """The value inside; constants are repeated."""
        if outer not in self.inside:
            with ir.InsertionPoint.at_block_begin(self.block):
                self.inside[outer] = mlir.owner(outer).clone().operation.results[0]
        return self.inside[outer]


def _fill(nest: ir.Operation, body: _Body, loops: Loops) -> None:
    begin, end = list(body.block.arguments)[:2]
    with ir.InsertionPoint(body.end), nest.location:
        outer = scf.ForOp(begin, end, rtcalls.index(1))
        with ir.InsertionPoint(outer.body):
            last = scf.YieldOp([]).operation
        with ir.InsertionPoint(last):
            indices = _positions(outer.induction_variable, body, loops)
            if len(loops.bounds) > len(body.shared):
                inner = scf.ForOp(*(body.value(value) for value in loops.bounds[-1]))
                indices.append(inner.induction_variable)
                with ir.InsertionPoint(inner.body):
                    last = scf.YieldOp([]).operation
    terminator = list(nest.regions[0].blocks[0].operations)[-1].operation
    operations = [op for op in mlir.walk(nest) if op not in (nest, terminator)]
    move_body(nest, indices, last)
    own = set(operations)
    for op in operations:
        for number, value in enumerate(op.operands):
            if value in body.inside or (_is_constant(value) and mlir.owner(value) not in own and _outside(value, body)):
                op.operands[number] = body.value(value)


def _outside(value: ir.Value, body: _Body) -> bool:
    function = next(each for each in mlir.parents(mlir.owner(value)) if each.name == "func.func")
    return bool(function != body.block.owner.operation)


def _positions(number: ir.Value, body: _Body, loops: Loops) -> list[ir.Value]:
    """Index of each shared loop from the number of the iteration."""
    places: list[ir.Value] = []
    for extent in reversed(body.shared[1:]):
        size = body.value(extent)
        places.insert(0, arith.RemUIOp(number, size).result)
        number = arith.DivUIOp(number, size).result
    places.insert(0, number)
    return [
        arith.AddIOp(body.value(lower), arith.MulIOp(place, body.value(step)).result).result
        for place, (lower, _, step) in zip(places, loops.bounds, strict=False)
    ]


def _is_constant(value: ir.Value) -> bool:
    made_by = mlir.owner(value)
    return isinstance(made_by, ir.Operation) and made_by.name in _CONSTANTS


def _captured(nest: ir.Operation, extra: Sequence[ir.Value]) -> list[ir.Value]:
    """Values from outside that the body needs, constants left out."""
    inside = {nest, *mlir.walk(nest)}
    found: dict[ir.Value, None] = {}
    needed = [value for op in mlir.walk(nest) if op != nest for value in op.operands]
    for value in sorted_by_place([*extra, *needed]):
        made_by = mlir.owner(value)
        made_in = made_by.owner.operation if isinstance(made_by, ir.Block) else made_by
        if made_in not in inside and not _is_constant(value):
            found[value] = None
    return list(found)


def sorted_by_place(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Without repetitions, in the order given: sets of operations have no order of their own."""
    return list(dict.fromkeys(values))
