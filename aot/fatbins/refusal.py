"""Where in the source the code is that ptxas refuses.

In: the error, and what the PTX was translated from. Out: the same error with places. For these the code is translated
once more, with lines, which nobody has to wait for while all goes well.
"""

from __future__ import annotations

from functools import partial

from aot import mlir
from aot.engine import forked
from aot.errors import LoweringError
from aot.fatbins import binary, ptxtext
from aot.fatbins.binary import Order
from aot.fatbins.ptxtext import Header
from aot.lower.gpumodule.device import DeviceJob, Lowering


def placed(error: LoweringError, isolated: mlir.Module, job: DeviceJob, image: int, order: Order) -> LoweringError:
    """The error with its places and their lines, if they are to be found; ``image`` is the image's position."""
    if not error.diagnostics:
        lined = Lowering(isolated, lineinfo=True).lower(job)
        error = _again(lined, Header(job.target.chip, job.ptx, image), order) or error
    error.diagnostics = tuple(mlir.quoted(isolated.context, each) for each in error.diagnostics)
    return error


def _again(module: mlir.Module, header: Header, order: Order) -> LoweringError | None:
    """The error that code with lines meets, if it is one that tells places."""
    tried = forked.attempt(partial(binary.translate, module, order.tools))
    if tried.data is None:
        return None
    try:
        binary.cubin(ptxtext.adapted(tried.data, header), order)
    except LoweringError as error:
        return error if error.diagnostics else None
    return None
