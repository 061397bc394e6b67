"""A launch that finishes what the one before it began: from sm_90 on it is made ready while that one still runs.

In: code that emits launches. Out: host code with two forms of the second one: a dependent one, whose kernel waits for
the first one's results (``griddepcontrol``), for images that can have it, and an ordinary one for all others. The first
kernel says at its beginning that the second one may be made ready; images without that one do not have the word.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import nvvm, scf

from aot.lower import imageneeds, outline, rtcalls

_NEED = "sm_90"
_WAIT = "#nvvm<grid_dep_action wait>"


def call() -> None:
    """At the beginning of the first kernel."""
    nvvm.griddepcontrol(ir.Attribute.parse(imageneeds.CALL))


def follow(emit: Callable[[], ir.Block]) -> None:
    """Emit the second launch; ``emit`` does it at the insertion point, and returns the kernel's body."""
    branch = scf.IfOp(rtcalls.serves(_NEED), has_else=True)
    with ir.InsertionPoint(branch.then_block):
        _depend(emit())
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        emit()
        scf.YieldOp([])


def _depend(body: ir.Block) -> None:
    launch = body.owner.operation
    launch.attributes[outline.PROGRAMMATIC] = ir.UnitAttr.get()
    imageneeds.mark(launch, _NEED)
    with ir.InsertionPoint.at_block_begin(body):
        nvvm.griddepcontrol(ir.Attribute.parse(_WAIT))
