"""From a lowered gpu.module to one fatbin.

In: a source's kernels, and Targets. Out: FatBinary.

All images of a source     ``images``, ``samecode`` and ``ptxtext`` (which share code), ``cpuonly`` (there are none)
One image                  ``binary`` (PTX, cubin), ``ptxas``, ``cubin`` (facts in it)
One file                   ``fatbin``
What spills is made again  ``spills``
What ptxas refuses         ``refusal``, ``ptxplace``, ``kernelnames``
"""

from __future__ import annotations
