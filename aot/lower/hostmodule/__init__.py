"""Host functions as LLVM IR, and what the manifest tells of them.

In: host code with ``gpu.launch_func``. Out: LLVM IR. ``hostcode`` is the list of steps.

Calls of the runtime  ``launchcall``, ``rtcalls``; ``externals``: what else may be called
Entries               ``entries``
Operations            ``division``, ``llvmops``
For the manifest      ``cost``, ``resultextents``, ``launchtext``
"""

from __future__ import annotations
