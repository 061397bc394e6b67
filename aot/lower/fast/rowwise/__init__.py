"""Kernels that read a row once: in registers, in shared memory, or in that of a cluster of blocks.

A row's kernel        ``rows`` emits a ``rowjob``, from ``chunks``, ``rowchunks``, ``rowcopy`` and ``rowstores``
What threads add up   ``tallies``, ``exchange``, ``clusterexchange``
Blocks share a row    ``slices``
"""

from __future__ import annotations
