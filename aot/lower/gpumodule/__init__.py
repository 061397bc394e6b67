"""A source's one gpu.module, made ready for each of its targets.

In: the gpu.module that ``aot.lower.outline`` made. Out: the same in the LLVM and NVVM dialects (``device`` is the list
of steps), or in parts.

What targets have        ``archrules`` (operations), ``undefined`` (functions), ``asynccopies``, ``oldcode``
Which image holds what   ``imageneeds``, ``imageparts``, ``pieces``, ``imagenumber``
Operations               ``devicecode``, ``devicemath`` with ``libdevice``, ``flatvectors``, ``oddintegers``,
                         ``printf``, ``switchblocks``
For speed                ``earlystart``, ``forward``, ``loopmarks``, ``sharedmemory``
What is told             ``inflight``, ``lineinfo``
"""

from __future__ import annotations
