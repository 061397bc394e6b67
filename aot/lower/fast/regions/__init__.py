"""What a memory-bound region is, where its memory is, and its bodies as code.

In: linalg on buffers. Out: Regions.

What is a region     ``operations``, ``loops``, ``reducers``, ``extents``, ``hazards``, ``gathered``; ``forming`` makes
                     it
Where its memory is  ``places``, ``accesses``, ``division`` (of indices)
Its bodies           ``bodies``, ``bodyloads`` (gathers), ``quotients``, ``errorfunction``
"""

from __future__ import annotations
