"""How sources are compiled: side by side, each in a process of its own, and nothing twice.

In: CompileJobs. Out: a folder with a result for each.

A job and its answer     ``job``; ``stamp`` (what was made, and from what)
ninja has them done      ``compiling``, ``ninjafile``; ``ninjaclient`` is what ninja runs for a source
A foreman takes them     ``foremanprocess`` (starts it), ``foreman``
Where they run           ``engineoptions`` (what the user wants), ``executor``, ``executorlocal``, ``executordask``
                         with ``clusterworker``
One job                  ``worker``, ``forked`` (processes), ``memory``, ``scratch`` (folders)
What was done before     ``cache``, ``cachelevels``, ``prefetch`` (reads results while others are made)
"""

from __future__ import annotations
