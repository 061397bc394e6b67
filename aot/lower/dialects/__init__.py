"""Dialects whose bindings are ours: MLIR finds here what it would look for in ``mlir.dialects``, by the dialect's name.

In: the name of a dialect (``linalg``), when its first operation is met. Out: a module with the classes of its
operations.
"""

from __future__ import annotations
