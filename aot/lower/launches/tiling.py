"""How a kernel was made, as attributes of its ``gpu.launch`` and of the kernel that outlining makes of it.

In: a launch, its region's class and number, the schedule and its tile. Out: attributes, and later a aot.tiling.Tiling.

``aot.schedule = "row"``, ``aot.tiling = {class = "rows", region = 1, tile = ["threads", 128], remarks = ["masked"]}``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from aot import mlir
from aot.tiling import Tiling

SCHEDULE = "aot.schedule"
"""Name of the schedule."""
TILING = "aot.tiling"
"""Class, region and tile."""
ATTRIBUTES = (SCHEDULE, TILING)
AS_NEEDED = "as many threads as needed"
"""Remark on kernels whose number of threads the host chooses."""


def mark(
    launch: ir.Operation, kind: str, region: int, name: str, tile: Mapping[str, int], remarks: Sequence[str] = ()
) -> None:
    """Say on a launch how it was made; region 0 stands for none."""
    number = ir.IntegerType.get_signless(64)
    sizes = [each for key, size in tile.items() for each in (ir.StringAttr.get(key), ir.IntegerAttr.get(number, size))]
    launch.attributes[SCHEDULE] = ir.StringAttr.get(name)
    launch.attributes[TILING] = ir.DictAttr.get(
        {
            "class": ir.StringAttr.get(kind),
            "region": ir.IntegerAttr.get(number, region),
            "tile": ir.ArrayAttr.get(sizes),
            "remarks": ir.ArrayAttr.get([ir.StringAttr.get(each) for each in remarks]),
        }
    )


def give_registers(launch: ir.Operation, blocks: int = 1) -> None:
    """Let a kernel have the registers that leave room for so many blocks on a multiprocessor.

    By itself ptxas takes fewer, for more blocks: values then go to memory, or loads wait for each other's registers.
    """
    launch.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), blocks)


def schedule_of(op: mlir.Operation) -> str:
    """Name of the schedule; empty for a user's own kernel."""
    return ir.StringAttr(op.attributes[SCHEDULE]).value if SCHEDULE in op.attributes else ""


def read(op: mlir.Operation) -> Tiling | None:
    """What ``mark`` wrote; None where nothing was."""
    if TILING not in op.attributes:
        return None
    found = ir.DictAttr(op.attributes[TILING])
    words = list(ir.ArrayAttr(found["tile"]))
    tile = tuple(
        (ir.StringAttr(key).value, int(ir.IntegerAttr(size).value))
        for key, size in zip(words[::2], words[1::2], strict=True)
    )
    remarks = tuple(ir.StringAttr(each).value for each in ir.ArrayAttr(found["remarks"]))
    return Tiling(ir.StringAttr(found["class"]).value, int(ir.IntegerAttr(found["region"]).value), tile, remarks)
