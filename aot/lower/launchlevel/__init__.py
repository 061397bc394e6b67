"""Host code that allocates, copies and launches by itself, in the form that gpu-to-llvm takes.

``aot.lower.launch`` is the list of steps. ``memory`` and ``access`` know which memory is whose, ``devicework`` launches
what host code does to the device's, ``asyncform`` and ``syncrule`` say what waits, ``staging`` passes globals, and
``returned`` arrays.
"""

from __future__ import annotations
