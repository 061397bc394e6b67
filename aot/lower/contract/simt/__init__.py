"""Products on the ordinary units, of any type.

One row    ``matvec``
Tiles      ``ffma`` with ``ffmacode``; ``registertile`` with ``tileform`` and ``numbercopies`` is also what ``mma.dmma``
           stands on
"""

from __future__ import annotations
