"""Schedules for what memory bounds: regions of linalg on buffers, by class, each with its kernels.

In: functions after buffers are settled (``dispatch``). Out: the same with ``gpu.launch`` in place of the regions that a
class covers, and why the rest is left to the general schedule.

What is a region      ``operations``, ``loops``, ``reducers``, ``extents``, ``hazards``, ``gathered``;
                      ``forming`` makes a ``region`` of them
Where its memory is   ``places``, ``accesses``, ``division`` (of indices)
Its bodies            ``bodies``, ``bodyloads`` (gathers), ``quotients``, ``errorfunction``
Which kernel          ``table``, ``candidates``, ``conditions`` (at the call), ``wished`` (``aot.toml``, spills)
Pointwise             ``pointwise``, ``flat``
Rows                  ``rowjob``, ``rows``, ``rowchunks``, ``rowcopy``, ``rowstores``, ``chunks``, ``tallies``,
                      ``exchange``, ``clusterexchange``; blocks that share a row: ``slices``
Everything to one     ``totals``
Columns               ``columns``, ``columnshape``, ``columnkernel``
Transposes            ``transposes``, ``transposecode``
"""

from __future__ import annotations
