"""MLIR's Python bindings: how they are imported, and which they are.

In: nothing, or a dialect's name. Out: modules of the bindings. They are imported without what nobody here uses: all
builds wait for it.

>>> dialect("gpu").__name__   # doctest: +SKIP
'mlir.dialects.gpu'
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any

from aot.errors import ToolMissing

DISTRIBUTION = "xtc-mlir-python-bindings"
"""What the extra ``build`` installs; others may provide the same module."""
_DIALECTS = ("aot.lower.dialects", "mlir.dialects")
"""Where classes of operations are looked for, the nearest first."""


def bindings() -> Any:
    """The module ``mlir.ir``; ToolMissing when it cannot be imported."""
    if "mlir.ir" in sys.modules:
        return sys.modules["mlir.ir"]
    try:
        with _without_numpy():
            ir = importlib.import_module("mlir.ir")
            importlib.import_module("mlir._mlir_libs._mlir").globals.dialect_search_modules = _DIALECTS
    except (ImportError, AttributeError) as error:
        sys.modules.pop("mlir.ir", None)  # else the next one to ask would take them for whole
        raise ToolMissing(
            f"MLIR's Python bindings cannot be imported: {error}",
            hint="install the build tools with: python -m pip install 'aot[build]'"
            " (any distribution will do that provides the module `mlir` of LLVM 22 with the NVPTX back end)",
        ) from error
    return ir


@contextmanager
def _without_numpy() -> Iterator[None]:
    """The bindings do without NumPy where it cannot be imported, and nobody here makes constants of its arrays."""
    known = "numpy" in sys.modules
    if not known:
        # Python's word for a module that cannot be imported.
        sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if not known:
            del sys.modules["numpy"]


def dialect(name: str) -> Any:
    """The bindings of one dialect: ``dialect("gpu")`` is ``mlir.dialects.gpu``."""
    bindings()
    return importlib.import_module(f"mlir.dialects.{name}")


def version() -> str:
    """Version of the bindings as the distribution that provides ``mlir`` tells it; ``unknown`` for a bare folder.

    Nothing is imported: that takes longer than a build that has nothing to do.
    """
    if importlib.util.find_spec("mlir") is None:
        bindings()
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(DISTRIBUTION)
    for name in sorted(metadata.packages_distributions().get("mlir", ())):
        return metadata.version(name)
    return "unknown"
