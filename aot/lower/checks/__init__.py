"""What must hold, checked before the work that relies on it.

By host code at the call   ``shapecheck``, ``reshapecheck``; ``slicecheck``, ``elementcheck`` and ``stepcheck`` with
                           ``looprange`` and ``clipped``; ``asserts`` makes errors of Python of them
When the package is built  ``negativesizes``, ``hostcheck``
"""

from __future__ import annotations
