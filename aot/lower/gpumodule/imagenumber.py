"""A constant by which the runtime can tell which image of a fatbin the driver took.

In: a module with a gpu.module. Out: the module with the constant, of value 0: the text of each image's PTX gets the
image's position among its source's images (``aot.fatbins.ptxtext``), since the code of several may be the same.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.fatbins.ptxtext import IMAGE_ID

CONSTANT_SPACE = 4


def define(module: mlir.Module) -> None:
    """Define the constant by which the runtime can tell which image the driver took."""
    ctx = module.context
    i32 = ir.IntegerType.get_signless(32, context=ctx)
    for op in module.body.operations:
        if op.operation.name != "gpu.module":
            continue
        with ir.InsertionPoint.at_block_begin(op.operation.regions[0].blocks[0]), ir.Location.unknown(ctx):
            ir.Operation.create(
                "llvm.mlir.global",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(IMAGE_ID),
                    "global_type": ir.TypeAttr.get(i32),
                    "value": ir.IntegerAttr.get(i32, 0),
                    "constant": ir.UnitAttr.get(),
                    "addr_space": ir.IntegerAttr.get(i32, CONSTANT_SPACE),
                    "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
                },
            )
