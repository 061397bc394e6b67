"""What kernels of products and attention are written with.

Integers of addresses    ``words``
Instructions             ``instructions``, ``hopper``, ``registers``
Memory                   ``operand`` and ``boxes`` (copies into shared memory), ``sharedarray``, ``sharednumbers``,
                         ``unaligned``
A launch of tiles        ``tiles``
"""

from __future__ import annotations
