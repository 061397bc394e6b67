"""A source as it is written: made one flat list of functions, and read.

In: a parsed module. Out: at most two modules, and what Python knows of their functions, read before a pass changes it.

One list, by level         ``prepare``, ``sourcelevel``
What can be called         ``signature``, ``argnames``; ``kernels``, ``launchsize``
What means nothing there   ``misplaced``, ``missingdata``, ``badconstants``, ``badtypes``, ``badviews``, ``unplaced``
"""

from __future__ import annotations
