"""aot: MLIR files in, an installable Python package of CUDA kernels out.

>>> import aot
>>> aot.build(aot.BuildRequest(("kernels",), name="mykernels")).wheel   # doctest: +SKIP
PosixPath('dist/mykernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aot.commands.inspection import inspect as inspect
    from aot.errors import AotError as AotError
    from aot.pipeline import BuildResult as BuildResult
    from aot.pipeline import build as build
    from aot.request import BuildRequest as BuildRequest

__version__ = "0.1.0"

_HOMES = {
    "AotError": "aot.errors",
    "BuildRequest": "aot.request",
    "BuildResult": "aot.pipeline",
    "build": "aot.pipeline",
    "inspect": "aot.commands.inspection",
}
__all__ = ["AotError", "BuildRequest", "BuildResult", "__version__", "build", "inspect"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: a worker process imports `aot` too and needs none of it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'aot' has no attribute {name!r}")
