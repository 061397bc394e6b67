"""Schedules for what memory bounds: regions of linalg on buffers, by class, each with its kernels.

In: functions after buffers are settled (``dispatch``). Out: the same with ``gpu.launch`` in place of the regions that a
class covers, and why the rest is left to the general schedule.

What is a region      ``regions``; ``region`` is the value that kernels take
Which kernel          ``table``, ``candidates``, ``conditions`` (at the call), ``wished`` (``aot.toml``, spills)
Pointwise             ``pointwise``, ``flat``
Rows                  ``rowwise``
Columns, full sums,   ``columnwise``
transposes
"""

from __future__ import annotations
