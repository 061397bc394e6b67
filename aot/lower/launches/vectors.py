"""Vectors that host code makes for kernels are made in the kernels: a launch passes numbers and arrays only.

In: launches whose bodies use vector values from outside. Out: launches with clones of what makes those values.

``%m = vector.create_mask %n : vector<8xi1>`` before a launch is repeated at the start of its body.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from aot import mlir


def sink(module: ir.Module) -> None:
    """Clone vector values into the launches that use them; unused originals are left for cleaning passes."""
    for launch in [op for op in mlir.walk(module) if op.name == "gpu.launch"]:
        clones = _Clones(launch, launch.regions[0].blocks[0].operations[0].operation, {})
        for op in mlir.walk(launch):
            if op == launch:
                continue
            for number, value in enumerate(op.operands):
                if clones.needed(value):
                    op.operands[number] = clones.clone(value)


@dataclass(frozen=True)
class _Clones:
    """What has been repeated in one launch."""

    launch: ir.Operation
    first: ir.Operation
    """Operation of the body before which clones are put, in the order of their making."""
    made: dict[ir.Value, ir.Value]

    def needed(self, value: ir.Value) -> bool:
        """Whether the value is a vector made by plain host code."""
        if not isinstance(value.type, ir.VectorType):
            return False
        made_by = mlir.owner(value)
        if not isinstance(made_by, ir.Operation) or made_by.regions:
            return False
        return self.launch not in mlir.parents(made_by)

    def clone(self, value: ir.Value) -> ir.Value:
        """The value, made again in the launch."""
        if value not in self.made:
            made_by = mlir.owner(value)
            operands = [self.clone(each) if self.needed(each) else each for each in made_by.operands]
            with ir.InsertionPoint(self.first):
                copy = made_by.clone().operation
            for number, each in enumerate(operands):
                copy.operands[number] = each
            self.made[value] = copy.results[ir.OpResult(value).result_number]
        return self.made[value]
