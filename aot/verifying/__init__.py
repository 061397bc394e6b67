"""Running a built package for real: what ``aot verify``, ``aot bench`` and ``aot demo`` have in common.

In: a wheel or an importable package. Out: values and times of its functions, from a process of their own, since a
wrong kernel may take its process along.

``signature``  what can be called, read from the manifest        ``dims``     which extents must agree
``values``     random arguments                                  ``shapes``   the shapes to try
``options``    the words of ``--dims`` and ``--range``             ``compare``  got against expected
``place``      calls on the CPU and on the GPU                    ``checks``   all comparisons of one function
``cudamemory`` arrays in GPU memory without a framework          ``timing``   first and warm calls
``reference``  what is expected, from a user's file              ``timed``    all timings of one function
``cost``       what a call moves and computes                    ``race``     functions against each other
``job``        what a child process is told and answers          ``child``    the process itself
``children``   processes, one after the other                    ``installed``  a package, made ready for import
"""

from __future__ import annotations
