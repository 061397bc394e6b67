"""Which memory a memref of launch-level host code lies in: the host's, the device's, or memory that both reach.

In: a module at launch level, before anything is rewritten. Out: Spaces, a question about any value.
``memref.alloc`` and globals are host memory; ``gpu.alloc`` and arguments of public functions are device
memory; ``gpu.alloc host_shared`` and host memory that ``gpu.host_register`` has seen are both.

>>> spaces = Spaces.read(module)                                        # doctest: +SKIP
>>> spaces.of(argument)
'device'
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from aot import mlir
from aot.lower.analysis import views
from aot.lower.hostmodule.rtcalls import ALLOCATORS, callee
from aot.lower.source import sourcelevel

HOST, DEVICE, SHARED, MIXED, UNKNOWN = "host", "device", "shared", "mixed", "unknown"

VIEWS = views.VIEWS | {"async.await", "builtin.unrealized_conversion_cast"}
"""Operations whose result lies in the memory of their first operand."""

REGION_OPS = frozenset({"scf.if", "scf.for", "scf.execute_region", "scf.index_switch", "memref.alloca_scope"})
"""Operations whose results are what their regions end with."""

TERMINATORS = frozenset({"scf.yield", "memref.alloca_scope.return"})

HOST_SOURCES = frozenset({"memref.alloc", "memref.alloca", "memref.get_global", "memref.realloc"})


@dataclass(frozen=True)
class Spaces:
    """Where each value of host code may come from."""

    origins: dict[mlir.Value, frozenset[mlir.Value]]
    """Value -> the allocations and arguments that it may be, or be a view of."""
    kinds: dict[mlir.Value, str]
    """Allocation or argument -> HOST, DEVICE or SHARED."""

    def of(self, value: mlir.Value) -> str:
        """HOST, DEVICE, SHARED; MIXED when host or device memory; UNKNOWN when nothing is known."""
        kinds = {self.kinds[each] for each in self.origins.get(value, ())}
        if {HOST, DEVICE} <= kinds:
            return MIXED
        return next((kind for kind in (HOST, DEVICE, SHARED) if kind in kinds), UNKNOWN)

    @classmethod
    def read(cls, module: mlir.Module) -> Spaces:
        """Follow all memrefs of the module's host functions."""
        kinds = dict(_sources(module))
        flows: dict[mlir.Value, list[mlir.Value]] = defaultdict(list)
        for source, target in _flows(module):
            flows[source].append(target)
        origins = _spread(kinds, flows)
        for op in mlir.walk(module):
            if op.name == "gpu.host_register":
                for source in origins.get(op.operands[0], ()):
                    kinds[source] = SHARED if kinds[source] == HOST else kinds[source]
        return cls(origins, kinds)


def _spread(
    kinds: dict[mlir.Value, str], flows: dict[mlir.Value, list[mlir.Value]]
) -> dict[mlir.Value, frozenset[mlir.Value]]:
    origins: dict[mlir.Value, frozenset[mlir.Value]] = {source: frozenset([source]) for source in kinds}
    todo = list(kinds)
    while todo:
        value = todo.pop()
        for target in flows.get(value, ()):
            joined = origins.get(target, frozenset()) | origins[value]
            if joined != origins.get(target):
                origins[target] = joined
                todo.append(target)
    return origins


def _host_ops(module: mlir.Module) -> Iterator[mlir.Operation]:
    for function in sourcelevel.host_functions(module):
        yield from mlir.walk(function)


def _sources(module: mlir.Module) -> Iterator[tuple[mlir.Value, str]]:
    for function in sourcelevel.public_functions(module):
        for argument in function.regions[0].blocks[0].arguments:
            if views.is_memref(argument):
                yield argument, DEVICE
    for op in _host_ops(module):
        if op.name in HOST_SOURCES:
            yield op.results[0], HOST
        elif op.name == "gpu.alloc":
            yield op.results[0], SHARED if "hostShared" in op.attributes else DEVICE
        elif callee(op) in ALLOCATORS:
            yield op.results[0], DEVICE


def _flows(module: mlir.Module) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    """Pairs (value, value that may be the same memory)."""
    functions = {mlir.symbol_name(op): op for op in sourcelevel.host_functions(module)}
    for op in _host_ops(module):
        if op.name in VIEWS and len(op.results):
            yield op.operands[0], op.results[0]
        elif op.name == "arith.select":
            yield op.operands[1], op.results[0]
            yield op.operands[2], op.results[0]
        elif op.name in STRUCTURED:
            yield from STRUCTURED[op.name](op)
        elif op.name == "func.call" and callee(op) in functions:
            yield from _call(op, functions[callee(op)])
        elif len(op.successors):
            yield from _branch(op)
        if op.name in TERMINATORS and op.parent.operation.name in REGION_OPS:
            yield from zip(op.operands, op.parent.operation.results, strict=False)


def _for(op: mlir.Operation) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    body = op.regions[0].blocks[0]
    yielded = list(body.operations)[-1].operation.operands
    carried = list(body.arguments)[1:]
    initial = list(op.operands)[3:]
    for start, inside, end, result in zip(initial, carried, yielded, op.results, strict=True):
        yield from ((start, inside), (start, result), (end, inside))


def _while(op: mlir.Operation) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    before, after = (region.blocks[0] for region in op.regions)
    yield from zip(op.operands, before.arguments, strict=True)
    passed = list(list(before.operations)[-1].operation.operands)[1:]
    yield from zip(passed, after.arguments, strict=True)
    yield from zip(passed, op.results, strict=True)
    yield from zip(list(after.operations)[-1].operation.operands, before.arguments, strict=True)


def _async(op: mlir.Operation) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    arguments = list(op.regions[0].blocks[0].arguments)
    taken = list(op.operands)[len(op.operands) - len(arguments) :]
    yield from zip(taken, arguments, strict=True)
    yielded = list(op.regions[0].blocks[0].operations)[-1].operation.operands
    # The first result is the token.
    yield from zip(yielded, list(op.results)[1:], strict=True)


STRUCTURED = {"scf.for": _for, "scf.while": _while, "async.execute": _async}


def _call(op: mlir.Operation, function: mlir.Operation) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    yield from zip(op.operands, function.regions[0].blocks[0].arguments, strict=True)
    for block in function.regions[0].blocks:
        last = list(block.operations)[-1].operation
        if last.name == "func.return":
            yield from zip(last.operands, op.results, strict=True)


def _branch(op: mlir.Operation) -> Iterator[tuple[mlir.Value, mlir.Value]]:
    """Operands of a branch go to its blocks' arguments, in order after the condition."""
    operands = list(op.operands)
    if op.name != "cf.br" and operands:
        operands = operands[1:]
    for block in op.successors:
        count = len(block.arguments)
        yield from zip(operands[:count], block.arguments, strict=False)
        operands = operands[count:]
