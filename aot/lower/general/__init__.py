"""The general schedule: any parallel loops become launches, and what is left between them goes to the device.

In: functions on buffers, without what ``contract`` and ``fast`` have taken. Out: the same with ``gpu.launch`` in place
of loops and of single elements.

Loops are prepared    ``fusion``, ``interchange``, ``accumulate``
Loops are launched    ``launchnest``, as ``schedule`` says
Launched as they are  ``mapped`` with ``mappedloop``: what a transform script made
What is left          ``leftovers``, ``onethread``
"""

from __future__ import annotations
