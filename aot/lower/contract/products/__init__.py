"""What a product is: operations of the source become a Problem, the one form that all kernels take.

``matching`` finds a ``contraction`` and what surrounds it, ``unfused`` what must be apart from it; ``forming`` makes
a ``problem`` of them, with its ``extents``, an ``epilogue`` and, for convolutions, ``windows``; ``kinds`` are the types
that tensor cores multiply. ``splitting`` shares a sum among blocks. ``counts`` are numbers that the build or the call
knows.
"""

from __future__ import annotations
